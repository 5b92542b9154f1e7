"""Sums over the samples of one window: counts, means, deviations and maxima, absent values left out. Pure."""

from math import isqrt

from msgspec import Struct

from gangline_wire.samples import GpuSample, NodeSample, SliceSample


class Sum(Struct):
    """Count, sum and sum of squares of what was there; absent values do not count."""

    count: int = 0
    total: int = 0
    squares: int = 0

    def add(self, value: int | None) -> None:
        """Take in a value, or leave out what is absent."""
        if value is not None:
            self.count += 1
            self.total += value
            self.squares += value * value

    @property
    def mean(self) -> int | None:
        """The mean; None when nothing was there."""
        return self.total // self.count if self.count else None

    @property
    def deviation(self) -> int | None:
        """The standard deviation; None when nothing was there."""
        if not self.count:
            return None
        return isqrt(max(0, self.squares * self.count - self.total * self.total)) // self.count


class Part(Struct):
    """One card, one slice of a card, or one task."""

    busy: Sum
    """Percent of a card or slice; thousandths of CPUs of a task."""
    tensor: Sum
    memory_max: int = -1

    def reach(self, memory_mib: int | None) -> None:
        """Remember the most memory."""
        if memory_mib is not None and memory_mib > self.memory_max:
            self.memory_max = memory_mib


class NodeSums(Struct, kw_only=True):
    """One node since the last summary."""

    samples: int = 0
    gpu: Sum
    """Mean over the node's GPUs, per sample."""
    each: Sum
    """Every GPU for itself, for the mean of all."""
    cpu: Sum
    memory: Sum
    gpu_memory_mib: int | None = None
    cards: dict[int, Part]
    slices: dict[str, Part]
    """By UUID."""
    tasks: dict[str, Part]


def fresh() -> NodeSums:
    """Nothing heard yet."""
    return NodeSums(gpu=Sum(), each=Sum(), cpu=Sum(), memory=Sum(), cards={}, slices={}, tasks={})


def hear(sums: NodeSums, sample: NodeSample) -> None:
    """Take in one node's sample."""
    sums.samples += 1
    sums.cpu.add(sample.cpu_percent)
    if sample.memory_used_mib is not None and sample.memory_total_mib:
        sums.memory.add(100 * sample.memory_used_mib // sample.memory_total_mib)
    here, used = Sum(), None
    for gpu in sample.gpus:
        here.add(gpu.utilisation_percent)
        sums.each.add(gpu.utilisation_percent)
        if gpu.memory_used_mib is not None:
            used = (used or 0) + gpu.memory_used_mib
        _of_card(sums, gpu)
    sums.gpu.add(here.mean)
    sums.gpu_memory_mib = sums.gpu_memory_mib if used is None else used
    for task in sample.tasks:
        part = _part(sums.tasks, task.task)
        part.busy.add(task.cpu_milli)
        part.reach(task.memory_mib)


def _of_card(sums: NodeSums, gpu: GpuSample) -> None:
    part = sums.cards.get(gpu.index)
    if part is None:
        part = sums.cards[gpu.index] = Part(busy=Sum(), tensor=Sum())
    part.busy.add(gpu.utilisation_percent)
    part.tensor.add(gpu.tensor_active_percent)
    part.reach(gpu.memory_used_mib)
    for one in gpu.slices:
        _of_slice(sums, one)


def _of_slice(sums: NodeSums, one: SliceSample) -> None:
    part = _part(sums.slices, one.uuid)
    part.busy.add(one.sm_active_percent)
    part.tensor.add(one.tensor_active_percent)
    part.reach(one.memory_used_mib)


def _part(parts: dict[str, Part], name: str) -> Part:
    found = parts.get(name)
    if found is None:
        found = parts[name] = Part(busy=Sum(), tensor=Sum())
    return found
