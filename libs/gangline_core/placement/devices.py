"""Which GPUs of one node a task takes: whole ones by links, shares by what is left on a card, slices by their slots."""

from collections.abc import Sequence

from gangline_core.facts import TaskPlacement
from gangline_core.job import GpuShare
from gangline_core.placement.gang import Need
from gangline_core.room.capacity import NO_KIND, Room
from gangline_core.room.cards import share_taken
from gangline_core.room.links import Links, best_joined, links_of
from gangline_core.room.looks import note
from gangline_core.room.mig import best_start, slice_memory_mib
from gangline_core.spec import GPU_MILLI


class NodeView:
    """What is free on one node, as plain numbers that seating may use up."""

    def __init__(self, room: Room, row: int) -> None:
        """The node of this row."""
        layout = room.layout
        self.layout = layout
        self.row = row
        self.node = layout.nodes[row]
        self.cpu_milli = int(room.cpu[row])
        self.memory_mib = int(room.memory[row])
        self.places = int(room.places[row])
        self.devices = {name: int(free[row]) for name, free in room.devices.items()}
        self.kind, self.total, self.uncut = layout.cards(row)
        self.milli: list[int] = room.milli[row].tolist()
        self.gpu_memory: list[int] = room.gpu_memory[row].tolist()
        self.slots: list[int] = [] if room.slots is None else room.slots[row].tolist()

    def part(self, level: str, required: str = "") -> list[int]:
        """Per GPU the number of its part at a level inside nodes, and inside the required level."""
        found: list[int] = self.layout.part_inside(level, required)[self.row].tolist()
        return found

    @property
    def island(self) -> list[int]:
        """Per GPU its NVLink island."""
        return self.part("nvlink")

    @property
    def links(self) -> Links:
        """What the ways between its GPUs carry; empty where nobody told, or all carry the same."""
        gpus = self.node.gpus
        return links_of(gpus) if gpus and gpus[0].paths else ()

    @property
    def socket(self) -> list[int]:
        """Per GPU its CPU socket."""
        return self.part("socket")

    def columns(self, part: Sequence[int], number: int) -> list[int]:
        """GPU indexes whose island (or socket) has this number."""
        return [k for k, own in enumerate(part) if own == number]

    def whole_in(self, part: Sequence[int], number: int) -> int:
        """Whole free GPUs of an island (or socket)."""
        return sum(1 for k in self.columns(part, number) if self.is_whole(k))

    def seat(
        self,
        need: Need,
        kinds: Sequence[int],
        index: int,
        *,
        within: Sequence[int] | None = None,
        emptiest: bool = False,
    ) -> TaskPlacement | None:
        """Seat one task, on these GPU indexes only if given; None when it does not fit."""
        if need.cpu_milli > max(0, self.cpu_milli) or need.memory_mib > max(0, self.memory_mib) or self.places < 1:
            return None
        if need.devices and any(amount > self.devices.get(name, 0) for name, amount in need.devices.items()):
            return None
        columns = range(len(self.kind)) if within is None else within
        gpus = self._gpus(need, kinds, columns, emptiest)
        if gpus is None:
            return None
        self._use(need, gpus)
        return TaskPlacement(
            role=need.role,
            index=index,
            node=self.node.id,
            gpus=gpus,
            cpu_milli=need.cpu_milli,
            memory_mib=need.memory_mib,
            devices=need.devices,
        )

    def gpus_for(
        self, need: Need, kinds: Sequence[int], within: Sequence[int] | None = None, *, emptiest: bool = False
    ) -> tuple[GpuShare, ...] | None:
        """The GPUs that one task takes, as far as they decide; None when none do."""
        return self._gpus(need, kinds, range(len(self.kind)) if within is None else within, emptiest)

    def is_whole(self, k: int) -> bool:
        """True when nothing is taken of this GPU."""
        return self.kind[k] != NO_KIND and self.milli[k] == GPU_MILLI and self.gpu_memory[k] == self.uncut[k]

    def _gpus(
        self, need: Need, kinds: Sequence[int], columns: Sequence[int], emptiest: bool
    ) -> tuple[GpuShare, ...] | None:
        if need.gpus:
            free = [k for k in columns if self.kind[k] in kinds and self.is_whole(k)]
            if len(free) < need.gpus:
                return None
            chosen = self._choose(free, need.gpus)
            most = need.gpu_memory_most_mib or max(self.total)
            return tuple(GpuShare(index=k, milli=GPU_MILLI, memory_mib=min(most, self.total[k])) for k in chosen)
        if need.is_share:
            find = self._slice if need.mig else self._share
            share = find(need, kinds, columns, emptiest)
            return None if share is None else (share,)
        return ()

    def _choose(self, free: list[int], count: int) -> list[int]:
        if len(free) == count:
            return free
        parts = (self.part("nvlink"), self.part("switch"), self.part("socket"))
        if count > 1 and (links := self.links):
            return choose_whole(free, *parts, count=count, links=links)
        if all(part[k] == part[free[0]] for part in parts for k in free):
            return free[:count]
        return choose_whole(free, *parts, count=count)

    def _share(self, need: Need, kinds: Sequence[int], columns: Sequence[int], emptiest: bool) -> GpuShare | None:
        best: tuple[int, int, int] | None = None
        found: GpuShare | None = None
        for k in columns:
            if self.kind[k] not in kinds:
                continue
            milli, memory = share_of(need, self.total[k])
            if milli > self.milli[k] or memory > self.gpu_memory[k]:
                continue
            sign = -1 if emptiest else 1
            left = (sign * (self.milli[k] - milli), sign * (self.gpu_memory[k] - memory), k)
            if best is None or left < best:
                best, found = left, GpuShare(index=k, milli=milli, memory_mib=memory)
        return found

    def _slice(self, need: Need, kinds: Sequence[int], columns: Sequence[int], emptiest: bool) -> GpuShare | None:
        """A slice of the card with fewest (or most) free slots that has one, where most else still fits beside it."""
        best: tuple[int, int] | None = None
        found: GpuShare | None = None
        for k in columns:
            if self.kind[k] not in kinds:
                continue
            card = self.layout.kinds[self.kind[k]]
            slots = best_start(card.mig, need.mig, max(0, self.slots[k]))
            memory = slice_memory_mib(card.mig, need.mig, self.total[k])
            if slots is None or need.milli > self.milli[k] or memory > self.gpu_memory[k]:
                continue
            free = self.slots[k].bit_count()
            rank = (-free if emptiest else free, k)
            if best is None or rank < best:
                best, found = rank, GpuShare(index=k, milli=need.milli, memory_mib=memory, slots=slots)
        return found

    def _use(self, need: Need, gpus: tuple[GpuShare, ...]) -> None:
        self.cpu_milli -= need.cpu_milli
        self.memory_mib -= need.memory_mib
        self.places -= 1
        for name, amount in need.devices.items():
            self.devices[name] -= amount
        for share in gpus:
            self.milli[share.index] -= share.milli
            self.gpu_memory[share.index] -= share.memory_mib
            if share.slots:
                self.slots[share.index] -= share.slots


def seat_alone(
    room: Room,
    row: int,
    need: Need,
    kinds: tuple[int, ...],
    *,
    index: int,
    within: tuple[int, ...] = (),
    emptiest: bool = False,
) -> TaskPlacement | None:
    """The seat that a view of the node gives the first task; nodes that look alike are viewed once."""
    cpu_milli, memory_mib = need.cpu_milli, need.memory_mib
    if cpu_milli > max(0, room.cpu.item(row)) or memory_mib > max(0, room.memory.item(row)):
        return None
    if room.places.item(row) < 1 or any(
        amount > (int(room.devices[name][row]) if name in room.devices else 0)
        for name, amount in (need.devices.items() if need.devices else ())
    ):
        return None
    node = room.layout.nodes[row]
    if not need.wants_gpu:
        gpus: tuple[GpuShare, ...] | None = ()
    elif room.slots is not None or (need.gpus > 1 and node.gpus and node.gpus[0].paths):
        gpus = NodeView(room, row).gpus_for(need, kinds, within or None, emptiest=emptiest)
    else:
        chosen = room.look_at(row).chosen
        asked = (need.on_card, kinds, within, emptiest)
        try:
            gpus = chosen[asked]
        except KeyError:
            gpus = NodeView(room, row).gpus_for(need, kinds, within or None, emptiest=emptiest)
            note(chosen, asked, gpus)
    if gpus is None:
        return None
    return TaskPlacement(
        role=need.role,
        index=index,
        node=node.id,
        gpus=gpus,
        cpu_milli=cpu_milli,
        memory_mib=memory_mib,
        devices=need.devices,
    )


def share_of(need: Need, card_mib: int) -> tuple[int, int]:
    """Thousandths and MiB that a share takes of a card of this size (see `cards.share_taken`)."""
    if need.beside:
        return 0, need.gpu_memory_mib
    return share_taken(need.milli, need.gpu_memory_mib, card_mib)


def choose_whole(
    free: Sequence[int],
    island: Sequence[int],
    switch: Sequence[int],
    socket: Sequence[int],
    *,
    count: int,
    links: Links = (),
) -> list[int]:
    """`count` of these free GPUs: inside one island if any can, one switch, one socket; always the tightest that can.

    Where it is told what links carry, those of the tightest island that are joined best.

    Where no single part can, whole parts are used up first and the rest comes from the tightest one, so that linked
    GPUs stay together for those who come later.
    """
    linked = _tightest(free, island, count) if links else None
    if linked is not None:
        return best_joined(linked, links, count)
    left = list(free)
    for part in (island, switch, socket):
        if len(left) == count:
            return left
        left = _tightest(left, part, count) or left
    return _fill(left, (island, socket, switch), count)


def _tightest(free: Sequence[int], part: Sequence[int], count: int) -> list[int] | None:
    """The free GPUs of the smallest part that has enough of them."""
    able = [members for members in _grouped(free, part) if len(members) >= count]
    return min(able, key=lambda members: (len(members), members[0])) if able else None


def _fill(free: list[int], parts: Sequence[Sequence[int]], count: int) -> list[int]:
    """`count` GPUs: whole parts, largest first, and the rest from the tightest part that has it, chosen likewise."""
    if not parts or len(free) == count:
        return free[:count]
    groups = _grouped(free, parts[0])
    chosen: list[int] = []
    while len(chosen) < count:
        left = count - len(chosen)
        able = [members for members in groups if len(members) >= left]
        if able:
            members = min(able, key=lambda group: (len(group), group[0]))
            chosen.extend(_fill(members, parts[1:], left))
        else:
            members = max(groups, key=lambda group: (len(group), -group[0]))
            chosen.extend(members)
        groups.remove(members)
    return sorted(chosen)


def _grouped(free: Sequence[int], part: Sequence[int]) -> list[list[int]]:
    groups: dict[int, list[int]] = {}
    for k in free:
        groups.setdefault(part[k], []).append(k)
    return list(groups.values())
