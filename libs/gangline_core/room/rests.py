"""What those who go for a claim leave beside what it takes: a second may wait for that, so that nobody more goes."""

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.facts import Claim, TaskPlacement
from gangline_core.ids import NodeId, TaskId
from gangline_core.job import GpuShare, Task
from gangline_core.room.capacity import REST_RANK


class _Coming:
    """What comes to one node and has not been met yet by those who go."""

    def __init__(self) -> None:
        """Nothing."""
        self.cpu_milli = self.memory_mib = 0
        self.devices: dict[str, int] = {}
        self.gpus: dict[int, GpuShare] = {}

    def add(self, place: TaskPlacement) -> None:
        """This member comes as well."""
        self.cpu_milli += place.cpu_milli
        self.memory_mib += place.memory_mib
        for name, amount in place.devices.items():
            self.devices[name] = self.devices.get(name, 0) + amount
        for share in place.gpus:
            known = self.gpus.get(share.index, GpuShare(share.index, 0, 0))
            self.gpus[share.index] = GpuShare(
                share.index, known.milli + share.milli, known.memory_mib + share.memory_mib, known.slots | share.slots
            )

    def beside(self, part: Task) -> Task:
        """What is left of a part when as much of it as can be is what comes."""
        cpu_milli, memory_mib = min(self.cpu_milli, part.cpu_milli), min(self.memory_mib, part.memory_mib)
        self.cpu_milli -= cpu_milli
        self.memory_mib -= memory_mib
        devices: dict[str, int] = {}
        for name, amount in part.devices.items():
            taken = min(self.devices.get(name, 0), amount)
            if taken:
                self.devices[name] -= taken
            if amount > taken:
                devices[name] = amount - taken
        return replace(
            part,
            rank=REST_RANK,
            cpu_milli=part.cpu_milli - cpu_milli,
            memory_mib=part.memory_mib - memory_mib,
            devices=devices,
            gpus=tuple(left for share in part.gpus if (left := self._beside_share(share)) is not None),
        )

    def _beside_share(self, share: GpuShare) -> GpuShare | None:
        coming = self.gpus.get(share.index)
        if coming is None:
            return share
        met = GpuShare(
            share.index,
            min(coming.milli, share.milli),
            min(coming.memory_mib, share.memory_mib),
            coming.slots & share.slots,
        )
        self.gpus[share.index] = _less(coming, met)
        left = _less(share, met)
        return left if left.milli or left.memory_mib or left.slots else None


def _less(share: GpuShare, part: GpuShare) -> GpuShare:
    return GpuShare(
        share.index, share.milli - part.milli, share.memory_mib - part.memory_mib, share.slots & ~part.slots
    )


class Rest(Struct, frozen=True):
    """What one who goes leaves, which may be nothing."""

    part: Task
    """The room, as if that were a task."""
    amounts: dict[str, int]
    """What it gives back below limits: no more than it does beyond what the claim takes there."""

    @property
    def is_nothing(self) -> bool:
        """True when a second claim has nothing of it."""
        part = self.part
        return not (self.amounts or part.gpus or part.cpu_milli or part.memory_mib or part.devices)


class Rests:
    """What those who go for claims of one round leave beside all that these take."""

    def __init__(self) -> None:
        """Nobody goes yet."""
        self._left: dict[TaskId, Rest] = {}

    def all(self) -> list[Rest]:
        """Everything that is left, in the order of the tasks' names."""
        return [self._left[name] for name in sorted(self._left)]

    def take(self, names: Iterable[TaskId]) -> list[Rest]:
        """What is left of these, which is the next claim's now; what that leaves in turn it says itself."""
        return [self._left.pop(name) for name in names if name in self._left]

    def leave(self, claim: Claim, going: Iterable[Rest], taken: Mapping[str, int]) -> None:
        """These go for a claim that counts with so much; without those of its own job, whose sizes say who has them.

        Whoever comes may stand on what is free already: what is left is what is free later and is not now. A place for
        a task is not among it, for that may be needed for those who come.
        """
        nodes: dict[NodeId, _Coming] = {}
        for place in claim.placement.tasks:
            nodes.setdefault(place.node, _Coming()).add(place)
        counts = {dimension.lower(): amount for dimension, amount in taken.items()}
        for one in going:
            amounts: dict[str, int] = {}
            for dimension, amount in one.amounts.items():
                met = min(amount, counts.get(dimension.lower(), 0))
                if met:
                    counts[dimension.lower()] -= met
                if amount > met:
                    amounts[dimension] = amount - met
            rest = Rest(nodes.get(one.part.node, _Coming()).beside(one.part), amounts)
            if one.part.job != claim.job and not rest.is_nothing:
                self._left[one.part.id] = rest
