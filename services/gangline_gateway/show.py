"""How folded values are shown: views of jobs, tasks, reasons and nodes. Pure."""

from gangline_core.cluster import Load, Node, NodeUse
from gangline_core.door.array_record import array_text
from gangline_core.door.arrays import as_written, counts, ranges_by_state
from gangline_core.foresight.right_size import right_size
from gangline_core.job import SLURM_CODES, Job, Task
from gangline_core.reasons import Reason, hint, sentence
from gangline_core.spec import gpu_milli_wanted, task_count
from gangline_core.state import State
from gangline_wire.views import (
    ArrayView,
    GpuView,
    JobView,
    LoadView,
    NodeView,
    ProgressView,
    ReasonView,
    ResizeView,
    TaskView,
    UseView,
)


def reason_view(state: State, reason: Reason, *, job: int) -> ReasonView:
    """A reason with its sentence and hint."""
    written = as_written(state, reason)
    return ReasonView(
        code=reason.code.value, sentence=sentence(written), numbers=reason.numbers, hint=hint(written, job=job)
    )


def job_view(state: State, job: Job, tasks: tuple[Task, ...] | None = None) -> JobView:
    """A job in a list; with `tasks` (which may be empty) also what only the answer to one job has."""
    spec = job.spec
    return JobView(
        id=job.id,
        name=spec.name,
        state=job.state.value,
        slurm=SLURM_CODES[job.state],
        group=spec.group,
        user=spec.user,
        pool=spec.pool,
        level=spec.level,
        priority=spec.priority,
        service_class=spec.service_class.value,
        gpu_milli=gpu_milli_wanted(spec),
        size=task_count(spec),
        submitted_ms=job.submitted_ms,
        queued_ms=job.queued_ms,
        started_ms=job.started_ms,
        first_started_ms=job.first_started_ms,
        ended_ms=job.ended_ms,
        exit_code=job.exit_code,
        attempt=job.attempt,
        retries_used=job.retries_used,
        preemptions=job.preemptions,
        losses=job.losses,
        waited_ms=job.waited_ms,
        sizes=job.sizes,
        labels=spec.labels,
        reason=None if job.reason is None else reason_view(state, job.reason, job=job.id),
        tasks=() if tasks is None else tuple(task_view(state, task) for task in tasks),
        spec=None if tasks is None else spec,
        array=array_view(state, job, in_full=tasks is not None),
        array_job=job.array,
        array_index=job.array_index,
        not_before_ms=spec.not_before_ms,
        deadline_ms=spec.deadline_ms,
        time_limit_s=spec.time_limit_s,
        use=use_view(state, job),
        resize=resize_view(job),
        progress=progress_view(state, job),
        stragglers=_stragglers(state, job),
        missing=job.missing,
        missing_ms=job.missing_ms if job.missing else 0,
        lowered_for=job.lowered_for,
        gpu_milli_held=sum(task.gpu_milli for task in state.tasks_of(job)),
    )


def use_view(state: State, job: Job) -> UseView | None:
    """How busy its GPUs and processes were."""
    use = state.kept.job_use.get(job.id)
    if use is None:
        return None
    tasks = state.tasks_of(job)
    gpus = [(task.node, share.index) for task in tasks for share in task.gpus]
    nodes = state.kept.nodes
    memory = {gpu.memory_mib for node, index in gpus if node in nodes for gpu in nodes[node].gpus if gpu.index == index}
    return UseView(
        gpu_percent=_known(use.gpu_percent),
        window_s=use.window_s,
        memory_mib_max=_known(use.memory_mib_max),
        is_low=use.is_low,
        advice=right_size(use, gpus=len(gpus), gpu_memory_mib=min(memory, default=0)),
        tensor_percent=_known(use.tensor_percent),
        cpu_milli=_known(use.cpu_milli),
        cpu_milli_held=sum(task.cpu_milli for task in tasks),
        memory_mib=_known(use.host_memory_mib),
        memory_mib_held=sum(task.memory_mib for task in tasks),
    )


def _known(value: int) -> int | None:
    return None if value < 0 else value


def _stragglers(state: State, job: Job) -> dict[str, int]:
    seen = state.kept.stragglers.get(job.id)
    return {} if seen is None or seen.attempt != job.attempt else {str(task): n for task, n in seen.slow.items()}


def resize_view(job: Job) -> ResizeView | None:
    """How its change of size goes."""
    resize = job.resize
    if resize is None:
        return None
    return ResizeView(
        number=resize.number,
        stage=resize.stage.value,
        before=resize.before,
        after=resize.after,
        why=resize.why,
        began_ms=resize.began_ms,
        cost_ms=job.resize_cost_ms,
    )


def progress_view(state: State, job: Job) -> ProgressView | None:
    """What it said of itself."""
    said = state.kept.progress.get(job.id)
    if said is None:
        return None
    return ProgressView(
        percent=None if said.permille < 0 else said.permille / 10,
        remaining_s=None if said.remaining_s < 0 else said.remaining_s,
        step=None if said.step < 0 else said.step,
        checkpoint_step=None if said.checkpoint_step < 0 else said.checkpoint_step,
        told_ms=max(0, said.told_ms),
    )


def array_view(state: State, job: Job, *, in_full: bool) -> ArrayView | None:
    """What there is to say of an array as a whole; None for any other job."""
    array = state.kept.arrays.get(job.id)
    if array is None or array.spec.array is None:
        return None
    return ArrayView(
        indexes=array_text(array.spec.array),
        size=array.size,
        at_most=array.at_most,
        counts={one.value: number for one, number in counts(state, array).items()},
        elements=ranges_by_state(state, array) if in_full else {},
    )


def task_view(state: State, task: Task) -> TaskView:
    """One live member of a job."""
    return TaskView(
        id=task.id,
        role=task.role,
        index=task.index,
        rank=task.rank,
        node=task.node,
        state=task.state.value,
        gpus=tuple(share.index for share in task.gpus),
        gpu_milli=task.gpu_milli,
        gpu_model=task.gpu_model,
        gpu_fence=_gpu_fence(state, task),
        cpu_milli=task.cpu_milli,
        memory_mib=task.memory_mib,
        stop=task.stop,
        started_ms=task.started_ms,
        exit_code=task.exit_code,
    )


def _gpu_fence(state: State, task: Task) -> str:
    """Pods see the devices of their container; what an agent starts is told its GPUs by a variable and no more."""
    node = state.kept.nodes.get(task.node)
    if not task.gpus or node is None:
        return ""
    return "container" if node.is_watched else "not enforced"


def node_state(node: Node) -> str:
    """One word for how a node is."""
    if node.lost:
        return "lost"
    if node.problem or node.quarantine or node.twin:
        return "sick"
    return "drained" if node.drained else "ready"


def _load(load: Load | None) -> LoadView | None:
    if load is None:
        return None
    return LoadView(
        at_ms=load.at,
        gpu_mean=_known(load.gpu_mean),
        gpu_deviation=_known(load.gpu_deviation),
        cpu_mean=_known(load.cpu_mean),
        cpu_deviation=_known(load.cpu_deviation),
        memory_mean=_known(load.memory_mean),
        memory_deviation=_known(load.memory_deviation),
        samples=load.samples,
    )


def _missing(node: Node, use: NodeUse) -> str:
    """GPUs that tasks hold although the node does not report them any more; empty when there are none."""
    reported = {gpu.index for gpu in node.gpus}
    held = [index for index, milli in enumerate(use.gpu_milli) if milli and index not in reported]
    return f"GPUs {', '.join(map(str, held))} are in use but not reported" if held else ""


def _twin(node: Node) -> str:
    """That the machine is there under another name; empty when it is not."""
    return f"has a card of node {node.twin}, which is there: it takes work when that one is gone" if node.twin else ""


def node_view(state: State, node: Node) -> NodeView:
    """A node and what is taken of it."""
    use = state.use[node.id]
    percent, _ = state.kept.utilisation.get(node.id, (-1, 0))
    return NodeView(
        id=node.id,
        pool=node.pool,
        home=node.home,
        state=node_state(node),
        agent=node.agent,
        cpu_milli=node.cpu_milli,
        cpu_milli_used=use.cpu_milli,
        memory_mib=node.memory_mib,
        memory_mib_used=use.memory_mib,
        gpus=tuple(
            GpuView(
                index=gpu.index,
                model=gpu.model,
                memory_mib=gpu.memory_mib,
                milli_used=use.gpu_milli[gpu.index] if gpu.index < len(use.gpu_milli) else 0,
                memory_mib_used=use.gpu_memory_mib[gpu.index] if gpu.index < len(use.gpu_memory_mib) else 0,
                healthy=gpu.healthy,
                problem=gpu.problem or gpu.suspect,
                uuid=gpu.uuid,
                socket=gpu.socket,
                island=gpu.island,
                switch=gpu.switch,
                mig=gpu.mig,
                paths=gpu.paths,
                slices=tuple(f"{one.profile}@{one.start}" for one in gpu.slices),
            )
            for gpu in node.gpus
        ),
        devices=node.devices,
        devices_used=dict(use.devices),
        labels=node.labels,
        taints=tuple(f"{taint.key}={taint.value}" if taint.value else taint.key for taint in node.taints),
        task_count=len(use.tasks),
        why=node.problem or node.quarantine or _twin(node) or node.drain_why or _missing(node, use),
        utilisation_percent=None if percent < 0 else percent,
        load=_load(state.kept.loads.get(node.id)),
        seen_ms=node.seen_ms,
    )
