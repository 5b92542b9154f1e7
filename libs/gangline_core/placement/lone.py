"""A single task on a board: the node with the smallest score, by a shelf of scores instead of a look at all of them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from gangline_core.placement.board import Board, Scorer
from gangline_core.placement.devices import seat_alone
from gangline_core.placement.each import options
from gangline_core.placement.fit import KEY_MAX
from gangline_core.placement.gang import Gang, Need, Seats
from gangline_core.placement.models import Kinds
from gangline_core.placement.ranks import alone
from gangline_core.placement.shelf import ASKED_MAX, best_row
from gangline_core.room.capacity import Flags, Ints, Room

Pick = Callable[[Room, Need, Kinds, int], tuple[int, ...]]
"""The GPUs that a task takes on the node of this row."""


class Scores:
    """The scores of one board as keys of a shelf."""

    __slots__ = ("_board", "_scorer")

    def __init__(self, board: Board, scorer: Scorer) -> None:
        """Of this board, whose scores this scorer works out."""
        self._board = board
        self._scorer = scorer

    def knows(self, room: Room, gang: Gang) -> bool:
        """True when the gang is a single task that asked this room before."""
        return (self, id(gang)) in room.shelves

    def of_all(self, room: Room, need: Need, kinds: Sequence[int]) -> Ints:
        """Keys of all nodes."""
        return self._board.scores(room, need, tuple(kinds), self._scorer)[0]

    def of_rows(self, room: Room, need: Need, kinds: Kinds, rows: Sequence[int]) -> list[int]:
        """Keys of a few nodes, with what is asked beside GPUs, CPU and memory."""
        found = self._board.of_rows(room, need, kinds, self._scorer, rows)
        if not (need.devices or room.crowded):
            return [key for key, _ in found]
        return [key if _has_rest(room, need, row) else KEY_MAX for (key, _), row in zip(found, rows, strict=True)]

    def gpu(self, room: Room, need: Need, kinds: Kinds, row: int) -> tuple[int, ...]:
        """The GPU that a share takes there; nothing where the task takes whole ones or none."""
        gpu = self._board.of_rows(room, need, kinds, self._scorer, (row,))[0][1]
        return (gpu,) if gpu >= 0 else ()


def _has_rest(room: Room, need: Need, row: int) -> bool:
    """Whether the node has a place for the task, and the other devices."""
    if room.places.item(row) < 1:
        return False
    return all(
        not amount or (name in room.devices and room.devices[name].item(row) >= amount)
        for name, amount in need.devices.items()
    )


class _Asked(NamedTuple):
    """What a gang asks of a room; it holds the gang, so that nobody else gets its number."""

    gang: Gang
    version: int
    mask: Flags
    questions: Sequence[tuple[Kinds, tuple[object, ...]]]


def lone(room: Room, gang: Gang, scores: Scores, pick: Pick) -> Seats | None:
    """The seat of a single task that wishes for nothing but room."""
    need = gang.needs[0]
    known = room.shelves.get((scores, id(gang)))
    if not isinstance(known, _Asked) or known.gang is not gang or known.version != room.layout.version:
        known = _ask(room, gang, scores)
    for kinds, asked in known.questions:
        row = best_row(room, need, kinds, known.mask, asked=asked, keys=scores.of_all, row_keys=scores.of_rows)
        if row is None:
            continue
        place = seat_alone(room, row, need, kinds, index=need.first_index, within=pick(room, need, kinds, row))
        if place is not None:
            return alone(room.layout, place)
    return None


def _ask(room: Room, gang: Gang, scores: Scores) -> _Asked:
    need = gang.needs[0]
    questions = [
        (kinds, (scores, need.of_one, kinds, gang.where)) for choice in options(room, gang) for kinds in choice[0]
    ]
    if len(room.shelves) > ASKED_MAX:
        room.shelves.clear()
    known = room.shelves[scores, id(gang)] = _Asked(gang, room.layout.version, gang.mask(room.layout), questions)
    return known
