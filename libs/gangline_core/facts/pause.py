"""The facts about jobs that are held, suspended or paused, and go on."""

from msgspec import Struct

from gangline_core.facts.form import FactBase
from gangline_core.ids import JobId, TaskId


class HoldSet(FactBase, frozen=True, tag=True):
    """A job is held (a running one is suspended) or released."""

    job: JobId
    held: bool
    by: str
    pause: bool = False
    """A running job that may be paused stays where it is; otherwise it is stopped and gives everything back."""
    urgent: bool = False
    """A paused job that is released goes on at once: jobs of its pool that may be paused are, for it."""


class JobPaused(Struct, frozen=True, omit_defaults=True, gc=False):
    """A job that is paused for another one, which may be paused itself and wants to go on."""

    job: JobId
    beneficiary: JobId
    rule: str


class TaskPaused(FactBase, frozen=True, tag=True):
    """A task's processes are stopped where they are; what it does not keep is free."""

    task: TaskId
