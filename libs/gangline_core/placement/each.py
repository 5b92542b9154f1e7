"""One task at a time: every task goes where its placer's score says, after what the tasks before it took.

This is how the scoring schedulers of the literature work. A gang still starts whole or not at all, and where a job asks
for closeness, slices or a spread, those come first and the placer only says which nodes it prefers.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
from msgspec import Struct

from gangline_core.facts import TaskPlacement
from gangline_core.placement.devices import NodeView
from gangline_core.placement.exact import size_of
from gangline_core.placement.fit import KEY_MAX, holds_one
from gangline_core.placement.gang import ANYWHERE, Gang, Need, Seats
from gangline_core.placement.models import Choice, Kinds, acceptable, choices
from gangline_core.placement.ranks import in_rank_order
from gangline_core.placement.search import Manner, exactly, search
from gangline_core.placement.shelf import Keys
from gangline_core.room.capacity import Flags, Room


class Spot(Struct, frozen=True):
    """Where one task goes: a node, and the GPUs if the placer chooses them itself."""

    row: int
    gpus: tuple[int, ...] = ()


class Choose(Protocol):
    """Where one task goes, now; None when it fits nowhere in the mask."""

    def __call__(self, room: Room, need: Need, kinds: Kinds, mask: Flags) -> Spot | None:
        """The best spot."""


def each(room: Room, gang: Gang, choose: Choose, *, keys: Keys) -> Seats | None:
    """Seats for the whole gang, task by task; `keys` prefers nodes where the gang's own wishes decide."""
    if not is_free_of_wishes(gang):
        return search(room, gang, Manner(keys=keys))
    mask = gang.mask(room.layout)
    if not mask.any():
        return None
    for choice in options(room, gang):
        tasks = _all(room, gang, choice, mask, choose)
        if tasks is not None:
            return in_rank_order(room.layout, gang, tasks)
    return exactly(room, gang)


def is_free_of_wishes(gang: Gang) -> bool:
    """True when nothing but room decides where each task may go."""
    if gang.is_shaped or any(need.mig for need in gang.needs):
        return False
    if gang.tasks == 1 and gang.required in (ANYWHERE, "node"):
        return not gang.preferred or gang.preferred == "node"
    return gang.required == gang.preferred == ANYWHERE


def options(room: Room, gang: Gang) -> Iterator[Choice]:
    """GPU models to try: as the gang prefers them; of a single task that prefers none, all of them are alike."""
    need = gang.needs[0]
    is_open = need.wants_gpu and not (need.models or need.liked)
    if gang.tasks == 1 and is_open and (need.gpus < 2 or not _mixes_models(room)):
        kinds = all_kinds(room, need)
        if kinds:
            yield ((kinds,),)
        return
    yield from choices(room.layout, gang)


def _mixes_models(room: Room) -> bool:
    """True when some node has GPUs of several models, which no task may have together."""
    layout = room.layout

    def work_out() -> bool:
        return any(len({gpu.model.lower() for gpu in node.gpus}) > 1 for node in layout.nodes)

    return layout.remember(("mixes models",), work_out)


def all_kinds(room: Room, need: Need) -> Kinds:
    """Every kind of GPU that the task accepts."""

    def work_out() -> Kinds:
        return tuple(sorted(number for kinds in acceptable(room.layout, need).values() for number in kinds))

    return room.layout.remember(("all kinds", need.accepts), work_out)


def _all(room: Room, gang: Gang, choice: Choice, mask: Flags, choose: Choose) -> list[TaskPlacement] | None:
    """Seats for all tasks, or None; the room is left as it was."""
    order = sorted(range(len(gang.needs)), key=lambda k: size_of(gang.needs[k]))
    done: list[TaskPlacement] = []
    try:
        for k in order:
            need = gang.needs[k]
            for index in range(need.first_index, need.first_index + need.count):
                place = _one(room, need, choice[k], index, mask, choose)
                if place is None:
                    return None
                done.append(place)
                if gang.tasks > 1:
                    room.take(place)
        return done
    finally:
        if gang.tasks > 1:
            for place in reversed(done):
                room.give(place)


def _one(
    room: Room, need: Need, models: tuple[Kinds, ...], index: int, mask: Flags, choose: Choose
) -> TaskPlacement | None:
    for kinds in models:
        spot = choose(room, need, kinds, mask)
        if spot is not None:
            within = spot.gpus or None
            place = NodeView(room, spot.row).seat(need, kinds, index, within=within)
            if place is not None:
                return place
    return None


def by_keys(keys: Keys, pick: Callable[[Room, Need, Kinds, int], tuple[int, ...]] | None = None) -> Choose:
    """The node with the smallest key that holds the task; `pick` chooses the GPUs on it, if not links and fullness."""

    def choose(room: Room, need: Need, kinds: Kinds, mask: Flags) -> Spot | None:
        fits = holds_one(room, need, kinds, mask)
        own = np.where(fits, keys(room, need, kinds), KEY_MAX)
        best = int(own.argmin()) if len(own) else 0
        if not len(own) or own[best] >= KEY_MAX:
            return None
        return Spot(row=best, gpus=pick(room, need, kinds, best) if pick is not None and need.wants_gpu else ())

    return choose
