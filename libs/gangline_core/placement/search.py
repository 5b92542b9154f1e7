"""How a whole gang finds its seats: which models, which topology domain, which nodes; the room is left as it was.

A gang is tried on one model before models are mixed, and inside the smallest wanted domain before a larger one. Inside
a domain it takes as few nodes as it can (or as many, when the placer spreads). Every tie ends at the node's id.
"""

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise, permutations
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gangline_core.cluster import LEVELS_INSIDE_NODE
from gangline_core.facts import TaskPlacement
from gangline_core.placement.devices import NodeView, seat_alone
from gangline_core.placement.exact import size_of
from gangline_core.placement.fit import most_free, slots
from gangline_core.placement.gang import ANYWHERE, Gang, Need, Seats
from gangline_core.placement.models import Choice, Kinds, choices
from gangline_core.placement.portions import portions
from gangline_core.placement.ranks import alone, in_rank_order
from gangline_core.placement.shaped import Shape, keeps_shape
from gangline_core.placement.shelf import ASKED_MAX, Keys, RowKeys, best_row
from gangline_core.placement.thorough import Thorough, is_hard
from gangline_core.room.capacity import Flags, Ints, Room

DOMAINS_TRIED_MAX = 256
"""Topology domains that look large enough but are tried in vain before the next larger level."""
DOMAINS_AGAIN_MAX = 16
"""So few of them are tried in other orders of the roles as well."""
ORDERS_TRIED_MAX = 6
"""Orders of a gang's roles: all of three roles."""
NODES_TRIED_MAX = 64
"""The same for nodes, when the gang has to fit one."""


class Manner(Struct, frozen=True):
    """What makes one placer differ from another."""

    keys: Keys
    """How well each node suits a task, smaller is better."""
    spreads: bool = False
    """One task per node as far as that goes, on the emptiest GPUs."""
    row_keys: RowKeys | None = None
    """The same for one node, which spares single tasks from looking at all nodes; None when there is no such."""
    compact: bool = False
    """Without a wish of its own the gang still takes the smallest domain that holds it."""


Question = tuple[Kinds, tuple[object, ...], Flags]
"""Kinds of one model, how the question is called, and the nodes that may be the answer."""


class _Asked(NamedTuple):
    """What a gang asks of a room; it holds the gang, so that nobody else gets its number."""

    gang: Gang
    version: int
    questions: list[Question]


def search(room: Room, gang: Gang, manner: Manner) -> Seats | None:
    """Seats for the whole gang, or None."""
    if manner.row_keys is not None and ((manner.row_keys, id(gang)) in room.shelves or _is_lone(gang, manner)):
        return _lone(room, gang, manner, manner.row_keys)
    mask = gang.mask(room.layout)
    if not mask.any():
        return None
    thorough: Thorough | None = None
    for choice in choices(room.layout, gang):
        if not _is_enough(room, gang, choice, mask, is_asked_once=not manner.compact):
            continue
        able: Flags | None = None
        for below, level in pairwise((ANYWHERE, *_levels(gang, manner))):
            if level in LEVELS_INSIDE_NODE:
                able = _holding_all(room, gang, choice, mask) if able is None else able
                tasks = _in_one_node(room, gang, choice, able, level, manner) if able.any() else None
            elif level == ANYWHERE and gang.is_one_domain(room.layout, mask, below):
                tasks = None
            else:
                tasks = _at_level(room, gang, choice, mask, level, manner)
            if tasks is None and is_hard(gang, choice):
                thorough = thorough or Thorough(room, gang, mask)
                tasks = thorough.seats(choice, level, _among(room, gang, choice, mask, level))
            if tasks is not None:
                return in_rank_order(room.layout, gang, tasks)
    return None


def exactly(room: Room, gang: Gang) -> Seats | None:
    """Seats for a gang that wishes for nothing but room, after its placer found none; None where there are none."""
    mask = gang.mask(room.layout)
    if gang.tasks == 1 or not mask.any():
        return None
    thorough = Thorough(room, gang, mask)
    for choice in choices(room.layout, gang):
        if is_hard(gang, choice) and _is_enough(room, gang, choice, mask):
            tasks = thorough.seats(choice, ANYWHERE)
            if tasks is not None:
                return in_rank_order(room.layout, gang, tasks)
    return None


def _among(room: Room, gang: Gang, choice: Choice, mask: Flags, level: str) -> list[int] | None:
    """Domains of the level in which each role alone finds room; rows for a level inside nodes, None for the pool."""
    if level == ANYWHERE:
        return None
    if level in LEVELS_INSIDE_NODE:
        rows: list[int] = _rows_at(room, gang, _holding_all(room, gang, choice, mask), level).tolist()
        return rows
    codes, names = gang.domains(room.layout, level)
    return _domains_by_fit(room, gang, choice, mask, codes, len(names))


def _is_lone(gang: Gang, manner: Manner) -> bool:
    """True for a single task that no level binds closer than its node."""
    if len(gang.needs) != 1 or gang.needs[0].count != 1 or gang.preferred or gang.required not in (ANYWHERE, "node"):
        return False
    return not gang.is_shaped and not (manner.compact and gang.needs[0].gpus > 1)


def _lone(room: Room, gang: Gang, manner: Manner, row_keys: RowKeys) -> Seats | None:
    """The seat of a single task."""
    need = gang.needs[0]
    for kinds, asked, mask in _questions(room, gang, manner, row_keys):
        if need.gpus and sum([room.total[kind] for kind in kinds]) < need.gpus:
            continue
        row = best_row(room, need, kinds, mask, asked=asked, keys=manner.keys, row_keys=row_keys)
        if row is None:
            continue
        place = seat_alone(room, row, need, kinds, index=need.first_index, emptiest=manner.spreads)
        if place is not None:
            return alone(room.layout, place)
    return None


def _questions(room: Room, gang: Gang, manner: Manner, row_keys: RowKeys) -> list[Question]:
    """What a single task asks of the room, model by model; of one gang it is worked out once."""
    known = room.shelves.get((row_keys, id(gang)))
    if isinstance(known, _Asked) and known.gang is gang and known.version == room.layout.version:
        return known.questions
    need, mask = gang.needs[0], gang.mask(room.layout)
    where = (manner.keys, gang.where)
    models = (kinds for choice in choices(room.layout, gang) for kinds in choice[0])
    questions: list[Question] = [(kinds, (need.of_one, kinds, where), mask) for kinds in models]
    if len(room.shelves) > ASKED_MAX:
        room.shelves.clear()
    room.shelves[row_keys, id(gang)] = _Asked(gang, room.layout.version, questions)
    return questions


def _is_enough(room: Room, gang: Gang, choice: Choice, mask: Flags, *, is_asked_once: bool = True) -> bool:
    """A cheap look whether each role alone fits anywhere; a gang that `is_asked_once` for the pool tells by that."""
    for need, models in zip(gang.needs, choice, strict=True):
        if need.gpus and sum(room.total[k] for kinds in models for k in kinds) < need.count * need.gpus:
            return False
    if is_asked_once and len(gang.needs) == 1 and gang.required == gang.preferred == ANYWHERE:
        return True
    return all(
        sum(int(slots(room, need, kinds, mask).sum()) for kinds in models) >= need.count
        for need, models in zip(gang.needs, choice, strict=True)
    )


def _levels(gang: Gang, manner: Manner) -> Iterator[str]:
    """Levels to try, smallest first: from the preferred one up to the required one, or up to anywhere."""
    ladder = gang.ladder()
    if gang.required and gang.required not in ladder:
        return
    last = ladder.index(gang.required)
    first = ladder.index(gang.preferred) if gang.preferred in ladder else last
    if not gang.preferred:
        first = 0 if manner.compact and (gang.tasks > 1 or gang.whole_gpus > 1) else last
    yield from ladder[min(first, last) : last + 1]


def _at_level(
    room: Room, gang: Gang, choice: Choice, mask: Flags, level: str, manner: Manner
) -> list[TaskPlacement] | None:
    if level == ANYWHERE:
        return _seat_all(room, gang, choice, mask, manner)
    if level == gang.spread_level and gang.tasks > gang.spread_most:
        return None
    codes, names = gang.domains(room.layout, level)
    domains = _domains_by_fit(room, gang, choice, mask, codes, len(names))[:DOMAINS_TRIED_MAX]
    for code in domains:
        tasks = _seat_all(room, gang, choice, mask & (codes == code), manner, again=len(domains) <= DOMAINS_AGAIN_MAX)
        if tasks is not None:
            return tasks
    return None


def _domains_by_fit(room: Room, gang: Gang, choice: Choice, mask: Flags, codes: Ints, count: int) -> list[int]:
    """Domains in which each role alone fits, the tightest first."""
    labelled, numbered = codes >= 0, codes + 1
    spare = np.zeros(count, dtype=np.int64)
    able = np.ones(count, dtype=np.bool_)
    for need, models in zip(gang.needs, choice, strict=True):
        found = np.zeros(count, dtype=np.int64)
        for kinds in models:
            free = np.minimum(slots(room, need, kinds, mask & labelled), need.count)
            found += np.bincount(numbered, weights=free, minlength=count + 1)[1:].astype(np.int64)
        able &= found >= need.count
        spare += found - need.count
    numbers = np.flatnonzero(able)
    return [int(number) for number in numbers[np.argsort(spare[numbers], kind="stable")]]


# --- several nodes ------------------------------------------------------------------------------------------


def _seat_all(
    room: Room, gang: Gang, choice: Choice, mask: Flags, manner: Manner, *, again: bool = True
) -> list[TaskPlacement] | None:
    """Seats for all roles on the nodes of the mask, roles that are hardest to seat first; `again`, in other orders.

    What is scarce for one role may be plenty for another: who asks for most GPUs may take those beside the only CPUs.
    """
    order = sorted(range(len(gang.needs)), key=lambda k: size_of(gang.needs[k]))
    for one in islice(permutations(order), ORDERS_TRIED_MAX if again else 1):
        done = _seat_in_order(room, gang, choice, mask, manner, one)
        if done is not None and (not gang.slice_tasks or not gang.spread_level or keeps_shape(room.layout, gang, done)):
            # Domains of slices that lie across those of the spread are not counted well above.
            return done
    return None


def _seat_in_order(
    room: Room, gang: Gang, choice: Choice, mask: Flags, manner: Manner, order: Sequence[int]
) -> list[TaskPlacement] | None:
    done: list[TaskPlacement] = []
    taken = 0
    complete = True
    for k in order:
        for part in _seat_role(room, gang, gang.needs[k], choice[k], mask, manner, done):
            if part is None:
                complete = False
                break
            done.extend(part)
            if len(done) < gang.tasks:
                for place in done[taken:]:
                    room.take(place)
                taken = len(done)
        if not complete:
            break
    for place in done[:taken]:
        room.give(place)
    return done if complete else None


def _seat_role(
    room: Room,
    gang: Gang,
    need: Need,
    models: tuple[Kinds, ...],
    mask: Flags,
    manner: Manner,
    done: list[TaskPlacement],
) -> Iterator[list[TaskPlacement] | None]:
    """The tasks of one role, model by model; None when not all of them found a seat. `done` are the gang's others."""
    left, index = need.count, need.first_index
    for kinds in models:
        part: list[TaskPlacement] = []
        views: dict[int, NodeView] = {}
        least = left if kinds is models[-1] else 0
        for row, count, within in _nodes_for(room, gang, need, kinds, mask, (least, left), manner, done):
            if count == 1 and within is None and not gang.slice_tasks:
                if (
                    alone_there := seat_alone(room, row, need, kinds, index=index, emptiest=manner.spreads)
                ) is not None:
                    part.append(alone_there)
                    index += 1
                continue
            # Slices may come to a node again, which then has less left.
            view = views.setdefault(row, NodeView(room, row)) if gang.slice_tasks else NodeView(room, row)
            for _ in range(count):
                place = view.seat(need, kinds, index, within=within, emptiest=manner.spreads)
                if place is None:
                    break
                part.append(place)
                index += 1
        left = need.count - (index - need.first_index)
        yield part
        if not left:
            return
    yield None


def _nodes_for(
    room: Room,
    gang: Gang,
    need: Need,
    kinds: Kinds,
    mask: Flags,
    counts: tuple[int, int],
    manner: Manner,
    done: list[TaskPlacement],
) -> list[tuple[int, int, list[int] | None]]:
    """Nodes with how many tasks each gets, so many at least and at most in all, and on which GPUs where it matters."""
    least, count = counts
    free = slots(room, need, kinds, mask)
    keys = manner.keys(room, need, kinds)
    if gang.is_shaped:
        shape = Shape(room, gang, need, kinds, free=free, keys=keys, done=done)
        if gang.slice_tasks:
            return shape.in_slices(count)
        free = shape.spread_out()
    if int(free.sum()) < least:
        return []
    sizes = room.layout.gpu_counts
    return [(row, own, None) for row, own in portions(keys, free, count, sizes=sizes, spreads=manner.spreads)]


# --- one node -----------------------------------------------------------------------------------------------


def _in_one_node(
    room: Room, gang: Gang, choice: Choice, able: Flags, level: str, manner: Manner
) -> list[TaskPlacement] | None:
    """Seats for the whole gang on one of these nodes, for the smaller levels inside one island or socket of it."""
    rows = _rows_at(room, gang, able, level)
    if not len(rows):
        return None
    first = min(range(len(gang.needs)), key=lambda k: size_of(gang.needs[k]))
    kinds = tuple(number for model in choice[first] for number in model)
    wanted = gang.whole_gpus
    whole = replace(gang.needs[first], gpus=wanted) if wanted else gang.needs[first]
    keys = manner.keys(room, whole, kinds)[rows]
    for k in np.argsort(keys, kind="stable")[:NODES_TRIED_MAX].tolist():
        tasks = _in_parts(room, gang, choice, int(rows[k]), level, manner)
        if tasks is not None and (not gang.is_shaped or keeps_shape(room.layout, gang, tasks)):
            return tasks
    return None


def _rows_at(room: Room, gang: Gang, able: Flags, level: str) -> Ints:
    """Those of these nodes that have as many GPUs as the gang asks for inside one part of the level."""
    wanted = gang.whole_gpus
    return np.flatnonzero(able & (most_free(room, level) >= wanted) if wanted else able)


def _holding_all(room: Room, gang: Gang, choice: Choice, mask: Flags) -> Flags:
    """Nodes that have what all tasks ask for together, as far as sums tell."""
    if gang.whole_gpus > room.layout.width or (gang.spread_level and gang.tasks > gang.spread_most):
        return np.zeros(len(mask), dtype=np.bool_)
    able = mask & (room.cpu.clip(0) >= sum(need.count * need.cpu_milli for need in gang.needs))
    able &= room.memory.clip(0) >= sum(need.count * need.memory_mib for need in gang.needs)
    able &= room.places >= gang.tasks
    for need, models in zip(gang.needs, choice, strict=True):
        able &= sum(slots(room, need, kinds, mask) for kinds in models) >= need.count
    found: Flags = able
    return found


def _in_parts(
    room: Room, gang: Gang, choice: Choice, row: int, level: str, manner: Manner
) -> list[TaskPlacement] | None:
    """Seats inside one part of the node: its tightest island or socket that holds the gang, or the node itself."""
    if level == "node" and gang.slice_tasks:
        return _on_node(room, gang, choice, row, manner)
    if level == "node" or not any(need.wants_gpu for need in gang.needs):
        return _on_columns(NodeView(room, row), gang, choice, None, manner)
    view = NodeView(room, row)
    part = view.part(level, gang.required)
    numbers = sorted({number for number in part if number >= 0}, key=lambda n: (view.whole_in(part, n), n))
    for number in numbers:
        tasks = _on_columns(NodeView(room, row), gang, choice, view.columns(part, number), manner)
        if tasks is not None and (not gang.slice_tasks or keeps_shape(room.layout, gang, tasks)):
            return tasks
    if not gang.slice_tasks:
        return None
    tasks = _on_node(room, gang, choice, row, manner) or []
    found = {part[share.index] for task in tasks for share in task.gpus}
    return tasks if len(found) == 1 and -1 not in found else None


def _on_node(room: Room, gang: Gang, choice: Choice, row: int, manner: Manner) -> list[TaskPlacement] | None:
    """Seats on one node, slice by slice."""
    only = np.zeros(len(room.nodes), dtype=np.bool_)
    only[row] = True
    return _seat_all(room, gang, choice, only, manner)


def _on_columns(
    view: NodeView, gang: Gang, choice: Choice, within: list[int] | None, manner: Manner
) -> list[TaskPlacement] | None:
    tasks: list[TaskPlacement] = []
    for k in sorted(range(len(gang.needs)), key=lambda k: size_of(gang.needs[k])):
        need = gang.needs[k]
        for index in range(need.first_index, need.first_index + need.count):
            places = (view.seat(need, kinds, index, within=within, emptiest=manner.spreads) for kinds in choice[k])
            place = next((place for place in places if place is not None), None)
            if place is None:
                return None
            tasks.append(place)
    return tasks
