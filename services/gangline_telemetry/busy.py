"""How busy nodes and jobs are: sums over a bounded window, from which summaries, warnings and reclaims follow. Pure."""

from collections import deque
from collections.abc import Iterator

from msgspec import Struct

from gangline_core.facts import Fact, JobReclaimed, JobUsed, RoundDecided, TaskStarted, UtilisationSummary
from gangline_core.ids import JobId, NodeId, TaskId
from gangline_core.job import GpuShare, Job, JobState, Task
from gangline_core.room.company import shared_cards
from gangline_core.spec import GPU_MILLI
from gangline_core.state import State
from gangline_telemetry.config import Config
from gangline_telemetry.sums import NodeSums, Part, Sum, fresh, hear
from gangline_wire.samples import NodeSample

WINDOWS_MAX = 24 * 60
"""Summaries of one job that are remembered: a day by the minute."""


class Use(Struct, kw_only=True):
    """What one job used since the last summary."""

    gpu: Sum
    tensor: Sum
    gpu_memory_max: int = -1
    cpu_milli: int = -1
    memory_mib: int = -1
    is_whole: bool = True
    """False where a GPU that could be measured was not: it may have been busy."""


class Busy:
    """Sums by node since the last summary, and the last summaries of each job."""

    def __init__(self, config: Config, now_s: float) -> None:
        """A window begins now."""
        self.config = config
        self.summed_s = now_s
        self.nodes: dict[NodeId, NodeSums] = {}
        self.jobs: dict[JobId, deque[tuple[int, int]]] = {}
        """Per job: attempt-wise summaries as (percent, seconds)."""
        self._attempts: dict[JobId, int] = {}
        self._began_s: dict[TaskId, float] = {}
        """Tasks that began in this window, and when."""

    def hear(self, sample: NodeSample) -> None:
        """Take in one node's sample."""
        sums = self.nodes.get(NodeId(sample.node))
        if sums is None:
            sums = self.nodes[NodeId(sample.node)] = fresh()
        hear(sums, sample)

    def note(self, state: State, facts: tuple[Fact, ...], now_s: float) -> None:
        """A task that begins, or goes on after a pause, is not asked for what its GPUs did before.

        They were idle then, or somebody else's.
        """
        for task in _that_begin(state, facts):
            self._began_s[task.id] = now_s
            sums = self.nodes.get(task.node) or fresh()
            for share in task.gpus:
                if share.slots:
                    sums.slices.pop(_uuid(state, task, share), None)
                elif share.milli == GPU_MILLI:
                    sums.cards.pop(share.index, None)

    def is_due(self, now_s: float) -> bool:
        """True when a window ends."""
        return now_s - self.summed_s >= self.config.summary_s

    def summaries(self, state: State, now_s: float) -> list[Fact]:
        """Every `summary_s`: how busy nodes and jobs were since the last time."""
        if not self.is_due(now_s):
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
        facts += self._of_jobs(state, now_s, window_s)
        self.nodes.clear()
        self._began_s.clear()
        return facts

    def parts_of(self, state: State, task: Task) -> Iterator[Part]:
        """What was measured of a task's GPUs in this window.

        A share of a card has nothing of its own, nor has a card on which another job works beside its owner.
        """
        yield from (part for part in self._measured(state, task) if part is not None)

    def _measured(self, state: State, task: Task) -> Iterator[Part | None]:
        """Each GPU of a task that has something of its own, or None where nothing was heard of it."""
        node = self.nodes.get(task.node) or fresh()
        shared = shared_cards(state, task)
        for share in task.gpus:
            if share.index not in shared and (share.slots or share.milli == GPU_MILLI):
                yield _slice(state, task, share, node) if share.slots else node.cards.get(share.index)

    def _of_jobs(self, state: State, now_s: float, whole_s: int) -> list[Fact]:
        """Jobs of which something was measured; a GPU without a value is left out, never counted as idle."""
        found: list[Fact] = []
        live = {job.id for job in state.live_jobs()}
        for gone in [job for job in self.jobs if job not in live]:
            del self.jobs[gone], self._attempts[gone]
        for job in state.live_jobs():
            if job.state not in (JobState.RUNNING, JobState.RESIZING):
                continue
            use = self._use(state, job)
            window_s = self._seen_s(job, now_s, whole_s)
            if not use.is_whole:
                # Nobody is stopped for what nobody saw: the time under the least begins anew.
                self.jobs.pop(job.id, None)
                self._attempts.pop(job.id, None)
            if use.gpu.mean is None:
                found += [_used(job.id, use, window_s)] if use.cpu_milli >= 0 or use.memory_mib >= 0 else []
                continue
            if not use.is_whole:
                found.append(_used(job.id, use, window_s, percent=use.gpu.mean))
                continue
            if self._attempts.get(job.id) != job.attempt:
                self._attempts[job.id], self.jobs[job.id] = job.attempt, deque(maxlen=WINDOWS_MAX)
            windows = self.jobs[job.id]
            windows.append((use.gpu.mean, window_s))
            found.append(self._verdict(state, job, windows, use))
        return found

    def _seen_s(self, job: Job, now_s: float, whole_s: int) -> int:
        """How much of the window the job ran: all of it, or since its first task began."""
        began_s = [self._began_s.get(name) for name in job.tasks]
        since_s = [one for one in began_s if one is not None]
        return max(1, round(now_s - min(since_s))) if since_s and None not in began_s else whole_s

    def _use(self, state: State, job: Job) -> Use:
        use, members = Use(gpu=Sum(), tensor=Sum()), state.tasks_of(job)
        for task in members:
            for part in self._measured(state, task):
                use.is_whole &= part is not None and part.busy.mean is not None
                if part is None:
                    continue
                use.gpu.add(part.busy.mean)
                use.tensor.add(part.tensor.mean)
                use.gpu_memory_max = max(use.gpu_memory_max, part.memory_max)
        hosts = [self._host(task) for task in members]
        # A sum that leaves members out would look like thrift.
        if all(part is not None and part.busy.mean is not None for part in hosts):
            use.cpu_milli = sum(part.busy.mean or 0 for part in hosts if part is not None)
        if all(part is not None and part.memory_max >= 0 for part in hosts):
            use.memory_mib = sum(part.memory_max for part in hosts if part is not None)
        return use

    def _host(self, task: Task) -> Part | None:
        node = self.nodes.get(task.node)
        return None if node is None else node.tasks.get(task.id)

    def _verdict(self, state: State, job: Job, windows: deque[tuple[int, int]], use: Use) -> Fact:
        policy = state.kept.pools[job.spec.pool].policy
        least, span_s = policy.min_utilisation_percent, policy.min_utilisation_s
        seen_s = sum(length for _, length in windows)
        percent, over_s = _mean(windows, span_s)
        is_low = bool(least) and seen_s >= span_s // 2 and percent < least
        if is_low and seen_s >= span_s:
            return JobReclaimed(job=job.id, percent=percent, window_s=over_s, least=least)
        shown, length = (percent, over_s) if is_low else windows[-1]
        return _used(job.id, use, length, percent=shown, is_low=is_low, summary_s=windows[-1][1] if is_low else 0)


def _that_begin(state: State, facts: tuple[Fact, ...]) -> Iterator[Task]:
    """Tasks that started, and those of jobs that go on after a pause; the facts are folded already."""
    for fact in facts:
        if isinstance(fact, TaskStarted) and fact.task in state.kept.tasks:
            yield state.kept.tasks[fact.task]
        elif isinstance(fact, RoundDecided):
            resumed = (state.kept.jobs[job] for job in fact.resumes if job in state.kept.jobs)
            for job in resumed:
                if job.state == JobState.RUNNING:
                    yield from state.tasks_of(job)


def _slice(state: State, task: Task, share: GpuShare, node: NodeSums) -> Part | None:
    """What was measured of the slice of a card that a task has."""
    return node.slices.get(_uuid(state, task, share))


def _uuid(state: State, task: Task, share: GpuShare) -> str:
    """How the driver calls the slice; empty when nobody knows."""
    known = state.kept.nodes.get(task.node)
    card = next((gpu for gpu in known.gpus if gpu.index == share.index), None) if known is not None else None
    return next((one.uuid for one in card.slices if one.mask == share.slots), "") if card is not None else ""


def _used(
    job: JobId, use: Use, window_s: int, *, percent: int = -1, is_low: bool = False, summary_s: int = 0
) -> JobUsed:
    tensor = use.tensor.mean
    return JobUsed(
        job=job,
        gpu_percent=percent,
        window_s=window_s,
        memory_mib_max=use.gpu_memory_max,
        is_low=is_low,
        tensor_percent=-1 if tensor is None else tensor,
        cpu_milli=use.cpu_milli,
        host_memory_mib=use.memory_mib,
        summary_s=summary_s,
    )


def _mean(windows: deque[tuple[int, int]], span_s: int) -> tuple[int, int]:
    """Mean percent over the last summaries that make up the span, and how long they are."""
    total, length = 0, 0
    for percent, seconds in reversed(windows):
        total += percent * seconds
        length += seconds
        if length >= span_s:
            break
    return total // max(1, length), length
