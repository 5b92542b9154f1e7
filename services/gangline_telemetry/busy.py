"""How busy nodes and jobs are: sums over a bounded window, from which summaries, warnings and reclaims follow. Pure."""

from collections import deque
from math import isqrt

from msgspec import Struct

from gangline_core.facts import Fact, JobReclaimed, JobUsed, UtilisationSummary
from gangline_core.ids import JobId, NodeId
from gangline_core.job import JobState
from gangline_core.state import State
from gangline_telemetry.config import Config
from gangline_wire.samples import GpuSample, NodeSample

WINDOWS_MAX = 24 * 60
"""Summaries of one job that are remembered: a day by the minute."""


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
    by_gpu: dict[int, Sum]
    memory_max: dict[int, int]


def fresh() -> NodeSums:
    """Nothing heard yet."""
    return NodeSums(gpu=Sum(), each=Sum(), cpu=Sum(), memory=Sum(), by_gpu={}, memory_max={})


class Busy:
    """Sums by node since the last summary, and the last summaries of each job."""

    def __init__(self, config: Config, now_s: float) -> None:
        """A window begins now."""
        self.config = config
        self.summed_s = now_s
        self.nodes: dict[NodeId, NodeSums] = {}
        self.jobs: dict[JobId, deque[tuple[int, int]]] = {}
        """Per job: attempt-wise summaries as (percent, GPUs counted)."""
        self._attempts: dict[JobId, int] = {}

    def hear(self, sample: NodeSample) -> None:
        """Take in one node's sample."""
        sums = self.nodes.setdefault(NodeId(sample.node), fresh())
        sums.samples += 1
        sums.cpu.add(sample.cpu_percent)
        if sample.memory_used_mib is not None and sample.memory_total_mib:
            sums.memory.add(100 * sample.memory_used_mib // sample.memory_total_mib)
        here = Sum()
        used = [gpu.memory_used_mib for gpu in sample.gpus if gpu.memory_used_mib is not None]
        sums.gpu_memory_mib = sum(used) if used else sums.gpu_memory_mib
        for gpu in sample.gpus:
            here.add(gpu.utilisation_percent)
            sums.each.add(gpu.utilisation_percent)
            self._of_gpu(sums, gpu)
        sums.gpu.add(here.mean)

    @staticmethod
    def _of_gpu(sums: NodeSums, gpu: GpuSample) -> None:
        sums.by_gpu.setdefault(gpu.index, Sum()).add(gpu.utilisation_percent)
        if gpu.memory_used_mib is not None:
            sums.memory_max[gpu.index] = max(sums.memory_max.get(gpu.index, 0), gpu.memory_used_mib)

    def summaries(self, state: State, now_s: float) -> list[Fact]:
        """Every `summary_s`: how busy nodes and jobs were since the last time."""
        if now_s - self.summed_s < self.config.summary_s:
            return []
        window_s = round(now_s - self.summed_s)
        self.summed_s = now_s
        facts: list[Fact] = [
            UtilisationSummary(
                node=node_id,
                gpu_percent=sums.each.mean,
                memory_mib=sums.gpu_memory_mib,
                samples=sums.samples,
                gpu_deviation=sums.gpu.deviation,
                cpu_percent=sums.cpu.mean,
                cpu_deviation=sums.cpu.deviation,
                memory_percent=sums.memory.mean,
                memory_deviation=sums.memory.deviation,
            )
            for node_id, sums in sorted(self.nodes.items())
            if node_id in state.kept.nodes
        ]
        facts += self._of_jobs(state, window_s)
        self.nodes.clear()
        return facts

    def _of_jobs(self, state: State, window_s: int) -> list[Fact]:
        """Jobs whose every GPU was seen running; a GPU without a value is left out, never counted as idle."""
        found: list[Fact] = []
        live = {job.id for job in state.live_jobs()}
        for gone in [job for job in self.jobs if job not in live]:
            del self.jobs[gone], self._attempts[gone]
        for job in state.live_jobs():
            if job.state not in (JobState.RUNNING, JobState.RESIZING):
                continue
            sums, most = self._job(state, job.id)
            if sums.mean is None:
                continue
            if self._attempts.get(job.id) != job.attempt:
                self._attempts[job.id], self.jobs[job.id] = job.attempt, deque(maxlen=WINDOWS_MAX)
            windows = self.jobs[job.id]
            windows.append((sums.mean, window_s))
            found.extend(self._verdict(state, job.id, windows, most))
        return found

    def _job(self, state: State, job: JobId) -> tuple[Sum, int]:
        """All values of the job's whole GPUs, and the most memory in use on one of them."""
        sums, most = Sum(), -1
        for task in state.tasks_of(state.kept.jobs[job]):
            node = self.nodes.get(task.node)
            for share in task.gpus if node is not None else ():
                seen = node.by_gpu.get(share.index) if node is not None else None
                # A share says nothing of its own: the driver measures the card.
                if seen is not None and seen.mean is not None and share.milli == 1000:
                    sums.add(seen.mean)
                    most = max(most, node.memory_max.get(share.index, -1) if node is not None else -1)
        return sums, most

    def _verdict(self, state: State, job: JobId, windows: deque[tuple[int, int]], most: int) -> list[Fact]:
        policy = state.kept.pools[state.kept.jobs[job].spec.pool].policy
        least, span_s = policy.min_utilisation_percent, policy.min_utilisation_s
        seen_s = sum(length for _, length in windows)
        percent, over_s = _mean(windows, span_s)
        is_low = bool(least) and seen_s >= span_s // 2 and percent < least
        if is_low and seen_s >= span_s:
            return [JobReclaimed(job=job, percent=percent, window_s=over_s, least=least)]
        shown, length = (percent, over_s) if is_low else windows[-1]
        return [JobUsed(job=job, gpu_percent=shown, window_s=length, memory_mib_max=most, is_low=is_low)]


def _mean(windows: deque[tuple[int, int]], span_s: int) -> tuple[int, int]:
    """Mean percent over the last summaries that make up the span, and how long they are."""
    total, length = 0, 0
    for percent, seconds in reversed(windows):
        total += percent * seconds
        length += seconds
        if length >= span_s:
            break
    return total // max(1, length), length
