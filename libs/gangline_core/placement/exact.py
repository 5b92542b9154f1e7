"""Whether a gang fits at all, whatever its roles ask for: an exact search, and the seats that it finds.

It counts and tries nothing out: what one node holds of all roles together is a set of vectors (see `packing`), nodes
that hold the same are one sort, and what nodes, racks and blocks hold together is added up (see `together`). A spread
cuts what a domain holds, slices round it down to whole slices, each of one model. The work is bounded by what is looked
at and not by time, so that equal questions have equal answers; when it is used up, nothing is known.
"""

from collections.abc import Iterator, Sequence
from operator import mul
from typing import NamedTuple

import numpy as np

from gangline_core.cluster import LEVELS_INSIDE_NODE
from gangline_core.facts import TaskPlacement
from gangline_core.job import GpuShare
from gangline_core.placement.crossing import Sorts
from gangline_core.placement.devices import NodeView
from gangline_core.placement.domains import Holder, Tree
from gangline_core.placement.fit import slots
from gangline_core.placement.gang import ANYWHERE, Gang, Need
from gangline_core.placement.models import Choice
from gangline_core.placement.packing import Card, Item, Machine, Packer
from gangline_core.placement.shaped import CLOSE
from gangline_core.placement.together import TooManySortsError, Vector, Work
from gangline_core.room.capacity import Flags, Ints, Room
from gangline_core.room.looks import Look
from gangline_core.spec import GPU_MILLI

NODE = LEVELS_INSIDE_NODE[-1]
ITEMS_MAX = 60
"""Of more sorts of tasks nobody counts which nodes may hold them."""


class Most(NamedTuple):
    """The most of a gang that one domain of a level holds together."""

    tasks: int
    where: str
    """The domain; empty for the whole pool, or where nothing fits."""


class Exact:
    """The search for one gang on some nodes, with the models of one choice."""

    def __init__(self, room: Room, gang: Gang, choice: Choice, mask: Flags, work: Work) -> None:
        """On the nodes of the mask, with so much work to do at most."""
        self._room, self._gang, self._mask = room, gang, mask
        self._items, self._axis, self._roles = items_of(gang, choice)
        wanted = tuple(sum(gang.needs[k].count for k in own) for own in self._roles)
        sorts = Sorts(tuple(item.tasks for item in self._items), self._axis, wanted)
        self._wanted = wanted
        self._tree = Tree(room.layout, gang, sorts, work)
        names = tuple(n for n in room.devices if any(need.devices.get(n) for need in gang.needs))
        self._packer = Packer(
            room.layout,
            self._items,
            names,
            work=work,
            unit=gang.slice_tasks if gang.slice_tasks and gang.slice_level in LEVELS_INSIDE_NODE else 1,
            by_part=_by_part(gang),
            most=gang.spread_most if gang.spread_level == NODE else 0,
        )
        self._work = work
        self._weights = _weights([gang.needs[own[0]] for own in self._roles])
        self._known: dict[object, tuple[Machine, list[Vector]]] = {}
        if len(self._items) > ITEMS_MAX:
            raise TooManySortsError
        self._may = sum(
            (self._able_for(item).astype(np.int64) << k for k, item in enumerate(self._items)), self._none()
        )
        """Per node which items it may hold, as bits."""
        self._free = _Free(room, gang, self._items, names)

    def seats(self, level: str, among: Sequence[int] | None = None) -> list[TaskPlacement] | None:
        """Seats inside one domain of the level; None when no domain of it holds the gang.

        `among` are the numbers of domains (inside nodes: rows) that may do, best first; None for all.
        """
        for _, leaves in self._each(level, among):
            if self._may_suffice(leaves):
                holder = self._tree.top(leaves)
                if holder.stack is not None and holder.stack.holds(self._wanted):
                    return self._placed(holder)
        return None

    def most(self, level: str) -> Most:
        """The most tasks that fit together into one domain of the level, and into which; the first of equal ones."""
        best = Most(0, "")
        for name, leaves in self._each(level):
            holder = self._tree.top(leaves)
            if holder.stack is not None and (tasks := holder.stack.most()) > best.tasks:
                best = Most(tasks, name)
        return best

    # --- domains ----------------------------------------------------------------------------------------

    def _each(self, level: str, among: Sequence[int] | None = None) -> Iterator[tuple[str, list[Holder]]]:
        """Domains of the level with their names, in node order or as given, and their nodes."""
        gang = self._gang
        if gang.spread_level in CLOSE or not self._tree.is_known:
            return
        if gang.slice_tasks and any(need.count % gang.slice_tasks for need in gang.needs):
            return
        rows = np.flatnonzero(self._may)
        if level in LEVELS_INSIDE_NODE:
            yield from self._in_nodes(level, rows.tolist() if among is None else among)
        elif level == ANYWHERE:
            yield "", self._leaves(rows)
        elif level in dict(gang.levels):
            codes, names = gang.domains(self._room.layout, level)
            own = codes[rows]
            for code in dict.fromkeys(own.tolist()) if among is None else among:
                if code >= 0:
                    yield names[code], self._leaves(rows[own == code])

    def _in_nodes(self, level: str, rows: Sequence[int]) -> Iterator[tuple[str, list[Holder]]]:
        """Each node, or each part of one, of those that look alike one."""
        seen: set[object] = set()
        by_part = level != NODE and any(need.wants_gpu for need in self._gang.needs)
        parts = self._room.layout.part_inside(level, self._gang.required)
        for row in rows:
            part = parts[row].tolist() if by_part else []
            looks = (self._free.looks(row), int(self._may[row]), self._tree.classes(row))
            if looks in seen:
                continue
            seen.add(looks)
            for number in sorted(set(part) - {-1}) if by_part else [-1]:
                columns = [k for k, own in enumerate(part) if own == number] if by_part else None
                yield str(self._room.nodes[row].id), [self._leaf(row, columns)]

    def _leaves(self, rows: Ints) -> list[Holder]:
        """What each of these nodes holds; of those that look alike no more than there are tasks."""
        self._work.spend(len(rows))
        count: dict[object, int] = {}
        leaves = []
        for row in rows.tolist():
            looks = (self._free.looks(row), int(self._may[row]))
            count[looks] = count.get(looks, 0) + 1
            if count[looks] <= self._gang.tasks or not self._tree.is_flat:
                leaves.append(self._leaf(row))
        return leaves

    def _may_suffice(self, leaves: Sequence[Holder]) -> bool:
        """A look at sums: of each role alone, of all tasks, of what they take of GPUs, CPU and memory."""
        self._work.spend(len(leaves) * len(self._weights))
        for by_role in self._weights:
            by_item = tuple(by_role[axis] for axis in self._axis)
            wanted = sum(map(mul, by_role, self._wanted))
            known: dict[int, int] = {}
            for leaf in leaves:
                key = id(leaf.tops)
                if key not in known:
                    weights = by_item if leaf.origin is None else by_role
                    known[key] = max([sum(map(mul, weights, top)) for top in leaf.tops], default=0)
                wanted -= known[key]
                if wanted <= 0:
                    break
            if wanted > 0:
                return False
        return True

    # --- nodes ------------------------------------------------------------------------------------------

    def _none(self) -> Ints:
        return np.zeros(len(self._room.nodes), dtype=np.int64)

    def _able_for(self, item: Item) -> Flags:
        """Nodes that hold one task of the item."""
        own = [slots(self._room, item.need, kinds, self._mask) > 0 for kinds in item.models]
        found: Flags = np.logical_or.reduce(own)
        return found

    def _leaf(self, row: int, columns: Sequence[int] | None = None) -> Holder:
        """What a node holds, or these GPUs of it."""
        bits = int(self._may[row])
        key = (self._free.looks(row), bits, None if columns is None else tuple(columns))
        known = self._known.get(key)
        if known is None:
            machine = self._free.machine(row, tuple(bool(bits >> k & 1) for k in range(len(self._items))), columns)
            known = self._known[key] = (machine, self._packer.tops(machine))
        return self._tree.leaf(known[1], row, known[0])

    # --- seats ------------------------------------------------------------------------------------------

    def _placed(self, holder: Holder) -> list[TaskPlacement]:
        """The seats of all tasks, node by node."""
        needs = [[self._gang.needs[k] for k in own] for own in self._roles]
        members = [iter([(need, need.first_index + k) for need in own for k in range(need.count)]) for own in needs]
        found: list[TaskPlacement] = []
        for leaf, vector in self._tree.parts(holder, self._wanted):
            if leaf.machine is not None:
                for k, gpus in self._on_node(leaf.row, leaf.machine, vector):
                    need, index = next(members[self._axis[k]])
                    found.append(self._place(leaf.row, need, index, gpus))
        return found

    def _place(self, row: int, need: Need, index: int, gpus: tuple[GpuShare, ...]) -> TaskPlacement:
        return TaskPlacement(
            role=need.role,
            index=index,
            node=self._room.nodes[row].id,
            gpus=gpus,
            cpu_milli=need.cpu_milli,
            memory_mib=need.memory_mib,
            devices=need.devices,
        )

    def _on_node(self, row: int, machine: Machine, vector: Vector) -> list[tuple[int, tuple[GpuShare, ...]]]:
        """Which GPUs each task takes: linked ones as every placer takes them, or else any that do."""
        if _by_part(self._gang):
            return self._packer.seats(machine, vector)
        view = NodeView(self._room, row)
        columns = [card.column for part in machine.parts for card in part]
        found: list[tuple[int, tuple[GpuShare, ...]]] = []
        for k in sorted(range(len(vector)), key=lambda k: size_of(self._items[k].need)):
            item = self._items[k]
            for _ in range(vector[k]):
                places = (view.seat(item.need, kinds, 0, within=columns) for kinds in item.models)
                place = next((place for place in places if place is not None), None)
                if place is None:
                    return self._packer.seats(machine, vector)
                found.append((k, place.gpus))
        return found


class _Free:
    """What is free on nodes, as far as the gang can use it."""

    def __init__(self, room: Room, gang: Gang, items: Sequence[Item], names: Sequence[str]) -> None:
        """On the nodes of this room."""
        self._room, self._gang = room, gang
        self._kinds = {kind for item in items for kinds in item.models for kind in kinds}
        wanted = {name: sum(need.count * need.devices.get(name, 0) for need in gang.needs) for name in names}
        self._rest = [
            _up_to(room.cpu, sum(need.count * need.cpu_milli for need in gang.needs)),
            _up_to(room.memory, sum(need.count * need.memory_mib for need in gang.needs)),
            _up_to(room.places, gang.tasks),
            *[_up_to(room.devices[name], wanted[name]) for name in names],
        ]
        """CPU, memory, places and devices by node."""
        self._look = _Numbers(room)
        self._parts: dict[object, tuple[tuple[Card, ...], ...]] = {}

    def looks(self, row: int) -> tuple[object, ...]:
        """Equal for nodes on which the same is free."""
        return (self._look[row], self._slots(row), *[own[row] for own in self._rest])

    def _slots(self, row: int) -> tuple[int, ...]:
        return () if self._room.slots is None else tuple(self._room.slots[row].tolist())

    def machine(self, row: int, may: tuple[bool, ...], columns: Sequence[int] | None) -> Machine:
        """A node, or these GPUs of it."""
        slots = self._slots(row)
        key = (self._look[row], slots, None if columns is None else tuple(columns))
        parts = self._parts.get(key)
        if parts is None:
            parts = self._parts[key] = self._cards(row, slots, columns)
        cpu, memory, places, *devices = [own[row] for own in self._rest]
        return Machine(cpu, memory, places, tuple(devices), parts, may)

    def _cards(self, row: int, slots: Sequence[int], columns: Sequence[int] | None) -> tuple[tuple[Card, ...], ...]:
        layout = self._room.layout
        kinds, _, uncut = layout.cards(row)
        milli, memory = self._room.milli[row].tolist(), self._room.gpu_memory[row].tolist()
        level = self._gang.slice_level
        part = layout.part(level)[row].tolist() if _by_part(self._gang) else [0] * len(kinds)
        found: dict[int, list[Card]] = {}
        for k in range(len(kinds)) if columns is None else columns:
            if kinds[k] in self._kinds and part[k] >= 0:
                is_whole = milli[k] == GPU_MILLI and memory[k] == uncut[k]
                card = Card(kinds[k], milli[k], memory[k], slots[k] if slots else 0, is_whole, k)
                found.setdefault(part[k], []).append(card)
        return tuple(tuple(cards) for _, cards in sorted(found.items()))


def _by_part(gang: Gang) -> bool:
    """True when slices stay inside islands, switches or sockets."""
    return bool(gang.slice_tasks) and gang.slice_level in CLOSE


class _Numbers:
    """A number per node that is equal where the same is free on equal GPUs."""

    def __init__(self, room: Room) -> None:
        """Worked out where it is asked for."""
        self._room = room
        self._known: dict[Look, int] = {}

    def __getitem__(self, row: int) -> int:
        """The number of this row."""
        return self._known.setdefault(self._room.look_at(row), len(self._known))


def _up_to(free: Ints, wanted: int) -> list[int]:
    """What is free, but no more than could be used."""
    found: list[int] = free.clip(0, wanted).tolist()
    return found


def _weights(needs: Sequence[Need]) -> list[Vector]:
    """What sums are told in: tasks of one role, all tasks, GPUs, CPU, memory."""
    single = [tuple(int(k == number) for k in range(len(needs))) for number in range(len(needs))]
    gpus = tuple(need.gpus * GPU_MILLI or need.milli for need in needs)
    rest = [tuple(need.cpu_milli for need in needs), tuple(need.memory_mib for need in needs)]
    return [*single, (1,) * len(needs), gpus, *rest]


def items_of(gang: Gang, choice: Choice) -> tuple[list[Item], Vector, list[list[int]]]:
    """What is counted for a gang, what of it each item counts for, and the numbers of the roles behind those.

    Roles that ask the same are one. Where slices have to be whole, each role is told apart, and by model.
    """
    roles: list[list[int]] = []
    if gang.slice_tasks:
        items: list[Item] = []
        axis: list[int] = []
        for k, (need, models) in enumerate(zip(gang.needs, choice, strict=True)):
            roles.append([k])
            for kinds in models:
                items.append(Item(need, (kinds,), need.count))
                axis.append(k)
        return items, tuple(axis), roles
    known: dict[object, int] = {}
    for k, (need, models) in enumerate(zip(gang.needs, choice, strict=True)):
        number = known.setdefault((need.of_one, need.accepts, need.gpu_memory_most_mib, models), len(roles))
        if number == len(roles):
            roles.append([])
        roles[number].append(k)
    items = [Item(gang.needs[own[0]], choice[own[0]], sum(gang.needs[k].count for k in own)) for own in roles]
    return items, tuple(range(len(items))), roles


def size_of(need: Need) -> tuple[int, int, int, int, str]:
    """Sorts large tasks before small ones."""
    return (-need.gpus, -int(need.is_share), -need.cpu_milli, -need.memory_mib, need.role)
