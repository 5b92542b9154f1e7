"""One job's work on the simulated machines: what is done, what is safe, and what its stops and starts cost."""

from collections.abc import Iterable

from gangline_core.cluster import model_of
from gangline_core.ids import NodeId
from gangline_core.job import Job, Task
from gangline_core.pauses.pausing import companions
from gangline_core.sharing.stages import speed_permille, stages_of
from gangline_core.spec import GPU_MILLI
from gangline_core.state import State
from gangline_lab.sim.conditions import Conditions
from gangline_lab.sim.contention import contended_permille
from gangline_lab.sim.courses import Course, Held, advance, time_left_ms
from gangline_lab.sim.workload import Work


class Run:
    """A job's work, from its first start to its end. Changed only by the machines."""

    __slots__ = (
        "costs_ms",
        "course",
        "done",
        "gpu_milli",
        "held",
        "in_vain",
        "lost_ms",
        "part_milli",
        "ready_ms",
        "safe",
        "since_ms",
        "starts",
        "stretches",
        "useful_gpu_ms",
        "version",
        "work",
    )

    def __init__(self, course: Course, work: Work) -> None:
        """Nothing is done yet."""
        self.course = course
        self.work = work
        self.done = 0
        self.safe = 0
        """Units that a failure cannot take."""
        self.held: Held | None = None
        """What it holds while it runs."""
        self.gpu_milli = 0
        self.since_ms = 0
        """Up to when `done` is counted."""
        self.ready_ms = 0
        """When the present start's cost is paid."""
        self.part_milli = 1000
        """Speed that neighbours leave it, in thousandths."""
        self.starts = 0
        self.version = 0
        """Changes whenever an end foreseen before is no longer true."""
        self.costs_ms = 0
        self.lost_ms = 0
        """Run time whose work was lost, to be done again."""
        self.in_vain = 0
        """Runs in a row of which nothing was kept."""
        self.useful_gpu_ms = 0
        """GPU thousandths times ms in which work went on."""
        self.stretches: list[tuple[int, int, int]] = []
        """When that was, from and until, and the GPU thousandths; together they are `useful_gpu_ms`."""

    def start(self, held: Held, gpu_milli: int, *, now: int, cost_ms: int) -> None:
        """The job holds this and pays its start before work goes on."""
        # Stopping and changing size both leave a checkpoint of what is done now.
        self.safe = self.done
        self.held, self.gpu_milli = held, gpu_milli
        self.since_ms, self.ready_ms = now, now + cost_ms
        self.starts += 1
        self.version += 1

    def count(self, now: int) -> None:
        """Bring `done` up to this time."""
        if self.held is None or now <= self.since_ms:
            return
        waited = max(0, min(now, self.ready_ms) - self.since_ms)
        worked = max(0, now - max(self.since_ms, self.ready_ms))
        self.costs_ms += waited
        self.useful_gpu_ms += worked * self.gpu_milli
        self._note(now - worked, now)
        if worked:
            self.done = advance(self.course, self.held, done=self.done, ms=worked, part_milli=self.part_milli)
        self.since_ms = now

    def _note(self, begin: int, end: int) -> None:
        last = self.stretches[-1] if self.stretches else (0, 0, 0)
        if last[1] == begin and last[2] == self.gpu_milli:
            begin = self.stretches.pop()[0]
        if end > begin:
            self.stretches.append((begin, end, self.gpu_milli))

    def done_by(self, now: int) -> int:
        """Units done by this time."""
        if self.held is None:
            return self.done
        worked = max(0, now - max(self.since_ms, self.ready_ms))
        return advance(self.course, self.held, done=self.done, ms=worked, part_milli=self.part_milli)

    def ends_ms(self) -> int:
        """When the work will be done if nothing changes; `count` first."""
        if self.held is None:
            raise ValueError("a job that holds nothing does not end")
        return max(self.since_ms, self.ready_ms) + self.left_ms(self.held)

    def left_ms(self, held: Held) -> int:
        """How long what is left to do takes on these GPUs."""
        return time_left_ms(self.course, held, done=self.done, part_milli=self.part_milli)

    def stop(self, now: int, *, keeps: bool, checkpoint_ms: int) -> None:
        """The job holds nothing any more; what no checkpoint has is lost unless it `keeps` everything."""
        begun_ms = self.ready_ms
        self.count(now)
        if keeps or self.held is None:
            self.safe = self.done
            self.in_vain = 0
        else:
            self._lose(now, begun_ms, checkpoint_ms)
        self.held = None
        self.version += 1

    def _lose(self, now: int, begun_ms: int, checkpoint_ms: int) -> None:
        held = self.held
        worked = max(0, now - begun_ms)
        kept_ms = worked // checkpoint_ms * checkpoint_ms if checkpoint_ms else 0
        if kept_ms and held is not None:
            self.safe = advance(self.course, held, done=self.safe, ms=kept_ms, part_milli=self.part_milli)
        self.in_vain = 0 if kept_ms else self.in_vain + 1
        lost = worked - kept_ms
        self.lost_ms += lost
        self.useful_gpu_ms -= lost * self.gpu_milli
        while lost and self.stretches:
            begin, end, milli = self.stretches.pop()
            if end - begin > lost:
                self.stretches.append((begin, end - lost, milli))
            lost = max(0, lost - (end - begin))
        self.done = min(self.safe, self.done)


def held_by(state: State, tasks: Iterable[Task]) -> Held:
    """What these tasks hold, in the order of ranks."""
    size = gpus = 0
    per_node: dict[str, int] = {}
    model = ""
    for task in tasks:
        size += 1
        gpus += len(task.gpus)
        per_node[task.node] = per_node.get(task.node, 0) + len(task.gpus)
        if task.gpus and not model:
            model = model_of(state.kept.nodes[task.node], task.gpus[0].index)
    return Held(size=size, gpus=gpus, per_node=tuple(per_node.values()), model=model)


def neighbours_leave(state: State, job: Job, conditions: Conditions) -> int:
    """Thousandths of its speed that what runs beside it leaves a job."""
    part = 1.0
    wish = conditions.colocation
    tasks = state.tasks_of(job)
    together = interleaved_permille(state, job) if wish.stages else None
    if wish.contended:
        together = contended_permille(state, job)
    if together is not None:
        part *= together / 1000
    elif wish.shared_gpu != 1.0 and any(_shares(state, task) for task in tasks):
        part *= wish.shared_gpu
    nodes = {task.node for task in tasks}
    if wish.distributed != 1.0 and len(nodes) > 1 and any(_meets(state, job, node) for node in nodes):
        part *= wish.distributed
    return round(1000 * part)


def interleaved_permille(state: State, job: Job) -> int | None:
    """The speed of a job that interleaves its stages with those with whom it shares its GPUs; None where none does."""
    others = companions(state, job.id) if state.kept.packs else ()
    own, theirs = stages_of(job.spec), [stages_of(state.kept.jobs[other].spec) for other in others]
    known = [one for one in theirs if one is not None]
    if own is None or not known or len(known) < len(theirs):
        return None
    return speed_permille(own, [own, *known])


def _shares(state: State, task: Task) -> bool:
    use = state.use[task.node]
    return any(share.milli < GPU_MILLI and use.gpu_milli[share.index] > share.milli for share in task.gpus)


def _meets(state: State, job: Job, node: NodeId) -> bool:
    """True when another job on several nodes has a task here."""
    others = {state.kept.tasks[name].job for name in state.node_tasks[node]} - {job.id}
    for other in others:
        known = state.job(other)
        if known is not None and len({task.node for task in state.tasks_of(known)}) > 1:
            return True
    return False
