"""Facts of the door about jobs that were admitted already, dated capacity and prices; all on the admission lane."""

from gangline_core.door.edits import JobEdit
from gangline_core.facts.form import FactBase
from gangline_core.groups import UserClass
from gangline_core.ids import JobId
from gangline_core.reserving.windows import Window


class JobEdited(FactBase, frozen=True, tag=True):
    """Somebody with the right to do so changed some terms of a job (of an array: of all its unfinished elements)."""

    job: JobId
    edit: JobEdit
    by: str
    why: str = ""


class JobTopped(FactBase, frozen=True, tag=True):
    """A waiting job goes before the others of this group or user, in the places that these have anyway."""

    job: JobId
    among: str
    """Group path, or user_key of its user; the root is everybody."""
    by: str
    why: str = ""


class WindowSet(FactBase, frozen=True, tag=True):
    """Dated capacity was set aside, or changed as a whole."""

    window: Window
    by: str
    why: str = ""


class WindowRemoved(FactBase, frozen=True, tag=True):
    """Dated capacity is no longer set aside."""

    name: str
    by: str
    why: str = ""


class ClassSet(FactBase, frozen=True, tag=True):
    """A class of users was made or changed as a whole."""

    user_class: UserClass
    by: str
    why: str = ""


class GroupRemoved(FactBase, frozen=True, tag=True):
    """A group without unfinished jobs was taken out of the tree, with its members."""

    path: str
    by: str
    why: str = ""


class UserRemoved(FactBase, frozen=True, tag=True):
    """A user without unfinished jobs there is no member of the group any more."""

    group: str
    user: str
    by: str
    why: str = ""


class PricesSet(FactBase, frozen=True, tag=True):
    """What a GPU of each model costs, in thousandths of a GPU-hour of budget per GPU-hour used; "*" is any other."""

    milli: dict[str, int]
    by: str
    why: str = ""
    version: int = 0
