"""What is asked when the quick ways of seating a gang have failed: the exact search, within bounds."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gangline_core.facts import TaskPlacement
from gangline_core.placement.exact import Exact, Most
from gangline_core.placement.gang import ANYWHERE, Gang
from gangline_core.placement.models import Choice, choices
from gangline_core.placement.shaped import CLOSE
from gangline_core.placement.together import GaveUpError, TooManySortsError, Work
from gangline_core.room.capacity import Flags, Room

WORK_MAX = 1_000_000
"""Work of all exact searches for one gang in one room: about a twentieth of a second."""


class Thorough:
    """Exact searches for one gang in one room."""

    def __init__(self, room: Room, gang: Gang, mask: Flags, work: Work | None = None) -> None:
        """On the nodes of the mask, with what is left of some work, or all that one gang may cost."""
        self._room, self._gang, self._mask = room, gang, mask
        self._work = Work(WORK_MAX) if work is None else work
        self._known: dict[Choice, Exact] = {}
        self.gave_up = False
        """True when the bound was reached, so that a gang without seats may have some after all."""
        self.has_too_many_sorts = False
        """True when that was because there are more sorts of tasks than are told apart."""

    def seats(self, choice: Choice, level: str, among: Sequence[int] | None = None) -> list[TaskPlacement] | None:
        """Seats on these models inside one domain of the level (see `Exact.seats`); None when none were found."""
        if self.gave_up or not is_hard(self._gang, choice):
            return None
        try:
            return self._exact(choice).seats(level, among)
        except (GaveUpError, TooManySortsError) as error:
            self._give_up(error)
            return None

    def most(self, choice: Choice, level: str) -> Most:
        """The most tasks that fit together on these models into one domain of the level; none where it gave up."""
        try:
            return Most(0, "") if self.gave_up else self._exact(choice).most(level)
        except (GaveUpError, TooManySortsError) as error:
            self._give_up(error)
            return Most(0, "")

    def _give_up(self, error: Exception) -> None:
        self.gave_up, self.has_too_many_sorts = True, isinstance(error, TooManySortsError)

    def _exact(self, choice: Choice) -> Exact:
        found = self._known.get(choice)
        if found is None:
            found = self._known[choice] = Exact(self._room, self._gang, choice, self._mask, self._work)
        return found


def is_hard(gang: Gang, choice: Choice) -> bool:
    """True when one task after the other may be seated so that the last finds no room although there was some."""
    if len(gang.needs) > 1 or any(len(models) > 1 for models in choice):
        return True
    # Equal tasks that are only spread over domains find room exactly if the domains have it for so many, each its most.
    only_spread = not gang.slice_tasks and gang.spread_level not in CLOSE and gang.required == ANYWHERE
    return gang.is_shaped and not only_spread


class Fit(NamedTuple):
    """How much of a gang fits."""

    most: Most
    is_known: bool
    """False where the search gave up: then it is no more than was found."""
    has_too_many_sorts: bool = False
    """Why it gave up: there are more sorts of tasks than are told apart."""


def fit(room: Room, gang: Gang, mask: Flags, level: str, work: Work) -> Fit:
    """The most tasks of the gang that fit together into one domain of the level, on whichever models it accepts."""
    thorough = Thorough(room, gang, mask, work)
    found = [thorough.most(choice, level) for choice in _widest(room, gang)]
    best = max(found, key=lambda most: most.tasks, default=Most(0, ""))
    return Fit(best, not thorough.gave_up, thorough.has_too_many_sorts)


def _widest(room: Room, gang: Gang) -> Iterator[Choice]:
    """Choices of models that leave nothing out: the last, unless all GPUs have to be of one model."""
    found = choices(room.layout, gang)
    yield from found if gang.same_model or gang.tasks == 1 else found[-1:]
