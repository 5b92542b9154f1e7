"""What one machine holds of tasks of several sorts, exactly, and on which of its GPUs they then are.

Cards that look alike are one sort of container. A whole GPU counts for the set of kinds from which a task takes all of
its own; a card that is shared holds some mix of shares, a card that is cut some mix of slices at their legal starts.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

from gangline_core.job import GpuShare
from gangline_core.placement.devices import share_of
from gangline_core.placement.gang import Need
from gangline_core.placement.models import Kinds
from gangline_core.placement.together import Limit, Stack, Vector, Work, cut, largest_of
from gangline_core.room.layout import Layout
from gangline_core.room.mig import geometry, slice_memory_mib
from gangline_core.spec import GPU_MILLI


class Item(NamedTuple):
    """Tasks that nobody can tell apart, of one role or of several that ask the same."""

    need: Need
    models: tuple[Kinds, ...]
    """Kinds that a task may use; its GPUs are all of one of these."""
    tasks: int


class Card(NamedTuple):
    """One GPU as far as a task can tell, and where it is."""

    kind: int
    milli: int
    memory_mib: int
    slots: int
    is_whole: bool
    column: int


class Machine(NamedTuple):
    """What is free on a node, with its usable GPUs by the part inside which tasks have to stay."""

    cpu_milli: int
    memory_mib: int
    places: int
    devices: tuple[int, ...]
    parts: tuple[tuple[Card, ...], ...]
    may: tuple[bool, ...]
    """Which items may be here at all."""

    @property
    def looks(self) -> tuple[object, ...]:
        """Equal for machines that hold the same."""
        parts = tuple(sorted(tuple(sorted(card[:-1] for card in part)) for part in self.parts))
        return (self.cpu_milli, self.memory_mib, self.places, self.devices, parts, self.may)


class Packer:
    """Machines and the items of one gang."""

    def __init__(
        self,
        layout: Layout,
        items: Sequence[Item],
        device_names: Sequence[str],
        *,
        work: Work,
        unit: int = 1,
        by_part: bool = False,
        most: int = 0,
    ) -> None:
        """Machines hold multiples of `unit` tasks, their parts too if `by_part`, and `most` in all where it is set."""
        self._layout, self.items, self._work = layout, items, work
        self._unit, self._by_part = unit, by_part
        self._sets = sorted({kinds for item in items if item.need.gpus for kinds in item.models})
        self._whole = [
            (k, self._sets.index(kinds)) for k, item in enumerate(items) if item.need.gpus for kinds in item.models
        ]
        """Each item of whole GPUs with each set of kinds that it may use."""
        self._shares = [k for k, item in enumerate(items) if item.need.is_share]
        self._on_gpus = [item.need.wants_gpu for item in items]
        self._limits = self._weights(device_names)
        self._most = most
        self._known: dict[object, list[Vector]] = {}
        self._parts: dict[object, list[Vector]] = {}
        self._cards: dict[object, list[Vector]] = {}

    def _weights(self, device_names: Sequence[str]) -> list[Vector]:
        """What tasks take of CPU, memory, places and each device."""
        needs = [item.need for item in self.items]
        return [
            tuple(need.cpu_milli for need in needs),
            tuple(need.memory_mib for need in needs),
            tuple(1 for _ in needs),
            *(tuple(need.devices.get(name, 0) for need in needs) for name in device_names),
        ]

    def tops(self, machine: Machine) -> list[Vector]:
        """The largest vectors of items that the machine holds."""
        looks = machine.looks
        found = self._known.get(looks)
        if found is None:
            found = self._known[looks] = self._tops(machine)
        return found

    def _tops(self, machine: Machine) -> list[Vector]:
        on_gpus = self._stack(machine).largest() if self._sets or self._shares else [(0,) * len(self.items)]
        caps = tuple(item.tasks if own else 0 for item, own in zip(self.items, machine.may, strict=True))
        rest = [
            tuple(
                min(cap, number) if gpu else cap for number, cap, gpu in zip(vector, caps, self._on_gpus, strict=True)
            )
            for vector in on_gpus
        ]
        if self._by_part:
            # Who has no GPU stands in no part of a machine.
            rest = [tuple(n if gpu else 0 for n, gpu in zip(v, self._on_gpus, strict=True)) for v in rest]
        return cut(rest, self._limits_of(machine), self._work, unit=self._unit)

    def _limits_of(self, machine: Machine) -> list[Limit]:
        free = (machine.cpu_milli, machine.memory_mib, machine.places, *machine.devices)
        limits = [(weights, max(0, left)) for weights, left in zip(self._limits, free, strict=True)]
        if self._most:
            limits.append((self._limits[2], self._most))
        return limits

    def _stack(self, machine: Machine) -> Stack:
        """What the GPUs of all parts hold together."""
        caps = [item.tasks if gpu else 0 for item, gpu in zip(self.items, self._on_gpus, strict=True)]
        stack = Stack(caps, self._work)
        for part in machine.parts:
            stack.add(self._part(part))
        return stack

    # --- the GPUs of one part ---------------------------------------------------------------------------

    def _part(self, cards: Sequence[Card]) -> list[Vector]:
        """The largest vectors of items for which these GPUs suffice."""
        key = tuple(sorted(card[:-1] for card in cards))
        found = self._parts.get(key)
        if found is None:
            vectors: list[Vector] = []
            for top in self._of_cards(cards).largest():
                vectors.extend(self._items_on(top))
            found = self._parts[key] = cut(vectors, (), self._work, unit=self._unit if self._by_part else 1)
        return found

    def _items_on(self, top: Vector) -> Iterable[Vector]:
        """Vectors of items for so many whole GPUs of each set, and so many shares of each item."""
        if len(self._whole) < 2:
            vector = [0] * len(self.items)
            for k, number in self._whole:
                vector[k] = min(self.items[k].tasks, top[number] // self.items[k].need.gpus)
            for place, k in enumerate(self._shares):
                vector[k] = top[len(self._sets) + place]
            yield tuple(vector)
            return
        gpus = [self.items[k].need.gpus for k, _ in self._whole]
        tasks = tuple(min(self.items[k].tasks, top[s] // own) for (k, s), own in zip(self._whole, gpus, strict=True))
        limits = [
            (tuple(own if s == number else 0 for (_, s), own in zip(self._whole, gpus, strict=True)), top[number])
            for number in range(len(self._sets))
        ]
        for pairs in cut([tasks], limits, self._work):
            vector = [0] * len(self.items)
            for (k, _), number in zip(self._whole, pairs, strict=True):
                vector[k] = min(self.items[k].tasks, vector[k] + number)
            for place, k in enumerate(self._shares):
                vector[k] = top[len(self._sets) + place]
            yield tuple(vector)

    def _of_cards(self, cards: Sequence[Card]) -> Stack:
        """So many whole GPUs of each set, and so many shares of each item."""
        whole = [sum(card.is_whole and card.kind in kinds for card in cards) for kinds in self._sets]
        needed = [0] * len(self._sets)
        for k, number in self._whole:
            needed[number] += self.items[k].tasks * self.items[k].need.gpus
        caps = list(map(min, whole, needed))
        tops = [self._card(card) for card in cards]
        for place, k in enumerate(self._shares):
            at = len(self._sets) + place
            held = sum(max((top[at] for top in own), default=0) for own in tops)
            caps.append(min(held, self.items[k].tasks))
        stack = Stack(caps, self._work)
        for own in tops:
            stack.add(own)
        return stack

    def _card(self, card: Card) -> list[Vector]:
        key = card[:-1]
        found = self._cards.get(key)
        if found is None:
            found = self._cards[key] = largest_of(self._uses(card), self._work)
        return found

    def _uses(self, card: Card) -> Iterable[Vector]:
        """What one GPU may be used for."""
        zeros = (0,) * len(self._sets)
        nothing = (0,) * len(self._shares)
        if card.is_whole:
            for number, kinds in enumerate(self._sets):
                if card.kind in kinds:
                    yield tuple(int(k == number) for k in range(len(self._sets))) + nothing
        sizes = [self.size_on(k, card.kind) for k in self._shares]
        tops = tuple(self._alone(k, size, card) for k, size in zip(self._shares, sizes, strict=True))
        if not any(tops):
            yield zeros + nothing
            return
        vectors: Iterable[Vector] = [tops]
        mig = self._layout.kinds[card.kind].mig
        if mig:
            names = tuple(self.items[k].need.mig for k in self._shares)
            vectors = [tuple(map(min, tops, own)) for own in slice_mixes(mig, names, max(0, card.slots))]
        limits = [
            (tuple(0 if size is None else size[0] for size in sizes), max(0, card.milli)),
            (tuple(0 if size is None else size[1] for size in sizes), max(0, card.memory_mib)),
        ]
        for vector in cut(vectors, limits, self._work):
            yield zeros + vector

    def size_on(self, k: int, kind: int) -> tuple[int, int] | None:
        """Thousandths and MiB that a share takes of a GPU of this kind; None where it may not be."""
        item = self.items[k]
        if not any(kind in kinds for kinds in item.models):
            return None
        known = self._layout.kinds[kind]
        if item.need.mig:
            return item.need.milli, slice_memory_mib(known.mig, item.need.mig, known.memory_mib)
        return share_of(item.need, known.memory_mib)

    def _alone(self, k: int, size: tuple[int, int] | None, card: Card) -> int:
        """How many such shares the GPU would hold if it held no others."""
        if size is None:
            return 0
        free = zip((card.milli, card.memory_mib), size, strict=True)
        return min([self.items[k].tasks, *(max(0, left) // taken for left, taken in free if taken)])

    # --- which GPUs -------------------------------------------------------------------------------------

    def seats(self, machine: Machine, wanted: Vector) -> list[tuple[int, tuple[GpuShare, ...]]]:
        """Which GPUs each task of a vector takes that the machine holds: the items, each with its GPUs."""
        found: list[tuple[int, tuple[GpuShare, ...]]] = []
        on_gpus = tuple(n if gpu else 0 for n, gpu in zip(wanted, self._on_gpus, strict=True))
        if any(on_gpus):
            parts = self._stack(machine).split(on_gpus)
            for cards, part in zip(machine.parts, parts, strict=True):
                found.extend(self._seats_on(cards, part))
        for k, number in enumerate(wanted):
            if not self._on_gpus[k]:
                found.extend([(k, ())] * number)
        return found

    def _seats_on(self, cards: Sequence[Card], wanted: Vector) -> Iterable[tuple[int, tuple[GpuShare, ...]]]:
        if not any(wanted):
            return
        stack = self._of_cards(cards)
        for top in stack.largest():
            pairs = self._pairs(top, wanted)
            if pairs is not None:
                break
        else:
            raise GpusMissingError
        taken = [0] * len(self._sets)
        for (k, number), tasks in zip(self._whole, pairs, strict=True):
            taken[number] += tasks * self.items[k].need.gpus
        uses = stack.split((*taken, *(wanted[k] for k in self._shares)))
        pools: list[list[Card]] = [[] for _ in self._sets]
        for card, use in zip(cards, uses, strict=True):
            for number, own in enumerate(use[: len(self._sets)]):
                # Cards come in order of their columns, and tasks take neighbours.
                pools[number].extend([card] * own)
            yield from self._shares_on(card, use[len(self._sets) :])
        for (k, number), tasks in zip(self._whole, pairs, strict=True):
            need = self.items[k].need
            for _ in range(tasks):
                chosen, pools[number] = pools[number][: need.gpus], pools[number][need.gpus :]
                yield k, tuple(self._whole_gpu(need, card) for card in chosen)

    def _pairs(self, top: Vector, wanted: Vector) -> Vector | None:
        """How many tasks of each item take their whole GPUs from each set; None where there are too few."""
        left = list(top[: len(self._sets)])
        if any(top[len(self._sets) + place] < wanted[k] for place, k in enumerate(self._shares)):
            return None
        found = [0] * len(self._whole)

        def give(place: int, missing: int) -> bool:
            if place == len(self._whole):
                return not missing
            k, number = self._whole[place]
            is_first = place == 0 or self._whole[place - 1][0] != k
            if is_first and missing:
                return False
            missing = wanted[k] if is_first else missing
            gpus = self.items[k].need.gpus
            for tasks in range(min(missing, left[number] // gpus), -1, -1):
                self._work.spend(1)
                found[place] = tasks
                left[number] -= tasks * gpus
                if give(place + 1, missing - tasks):
                    return True
                left[number] += tasks * gpus
            return False

        return tuple(found) if give(0, 0) else None

    def _whole_gpu(self, need: Need, card: Card) -> GpuShare:
        total = self._layout.kinds[card.kind].memory_mib
        return GpuShare(index=card.column, milli=GPU_MILLI, memory_mib=min(need.gpu_memory_most_mib or total, total))

    def _shares_on(self, card: Card, use: Vector) -> Iterable[tuple[int, tuple[GpuShare, ...]]]:
        mig = self._layout.kinds[card.kind].mig
        if not any(use):
            return
        names = tuple(self.items[k].need.mig for k in self._shares)
        masks = slice_masks(mig, names, use, max(0, card.slots)) if mig else None
        for place, k in enumerate(self._shares):
            size = self.size_on(k, card.kind) if use[place] else None
            for number in range(use[place]):
                slots = masks[place][number] if masks is not None else 0
                milli, memory = size or (0, 0)
                yield k, (GpuShare(index=card.column, milli=milli, memory_mib=memory, slots=slots),)


class GpusMissingError(Exception):
    """A machine was asked for seats that it does not hold."""


# --- cards that are cut -------------------------------------------------------------------------------------


@cache
def slice_mixes(mig: str, names: tuple[str, ...], free: int) -> tuple[Vector, ...]:
    """Every mix of so many slices of each profile that the free slots hold, apart from those inside larger ones."""
    return tuple(sorted(_mixes(mig, names, free), reverse=True))


@cache
def _mixes(mig: str, names: tuple[str, ...], free: int) -> frozenset[Vector]:
    known = geometry(mig)
    found: set[Vector] = set()
    for place, name in enumerate(names):
        profile = known.profiles.get(name)
        for mask in profile.masks if profile is not None else ():
            if free & mask == mask:
                for rest in _mixes(mig, names, free - mask):
                    found.add(tuple(number + (k == place) for k, number in enumerate(rest)))
    return frozenset(found or {(0,) * len(names)})


def slice_masks(mig: str, names: tuple[str, ...], use: Vector, free: int) -> list[list[int]] | None:
    """Slots for so many slices of each profile; None where the free ones do not hold them."""
    known = geometry(mig)
    place = next((k for k, number in enumerate(use) if number), None)
    if place is None:
        return [[] for _ in names]
    left = tuple(number - (k == place) for k, number in enumerate(use))
    for mask in known.profiles[names[place]].masks:
        if free & mask == mask:
            found = slice_masks(mig, names, left, free - mask)
            if found is not None:
                found[place].append(mask)
                return found
    return None
