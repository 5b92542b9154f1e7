"""What telemetry's facts do to nodes and jobs: sick and suspect GPUs, quarantine, load, use, idleness, hangs."""

from collections.abc import Callable
from sys import intern
from typing import Any

from msgspec.structs import replace

from gangline_core import facts as f
from gangline_core.cluster import Gpu, Load, Node
from gangline_core.fold.killed import excuse
from gangline_core.fold.life import order_stop, requeue
from gangline_core.fold.tasks import gpu_failed as jobs_of_failed_gpu
from gangline_core.fold.tasks import tasks_empty, tasks_lost
from gangline_core.foresight.past_use import added
from gangline_core.ids import NodeId
from gangline_core.job import LIVE, Outcome
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.room.away import is_unspoken_for
from gangline_core.room.troubles import note_closed, note_event
from gangline_core.sharing.beside import BY_USE
from gangline_core.sharing.minding import lets_in
from gangline_core.state import State
from gangline_core.step import Step


def node_lost(state: State, fact: f.NodeLost, step: Step) -> None:
    """A node was silent for too long, unless its agent wrote what whoever says so had not read: it lives."""
    node = state.kept.nodes.get(fact.node)
    if node is None or node.lost:
        return
    if state.kept.lane_seqs.get(f"agent.{node.agent}", 0) > step.seen:
        step.touched = True
        return
    _lose(state, node, step)


def _lose(state: State, node: Node, step: Step) -> None:
    state.twins.leave(node)
    state.put_node(replace(node, lost=True, twin=""))
    _give_cards(state, step)
    tasks_lost(state, node.id, step)
    step.nodes.append(node.id)


def gpu_failed(state: State, fact: f.GpuFailed, step: Step) -> None:
    """A GPU must not be used; what runs on it starts again elsewhere."""
    note_event(state.kept.troubles, fact.node, fact.gpu, event=fact.event, problem=fact.problem)
    _change_gpu(state, fact.node, fact.gpu, step, lambda gpu: replace(gpu, healthy=False, problem=fact.problem))
    jobs_of_failed_gpu(state, fact.node, fact.gpu, step)


def gpu_healthy(state: State, fact: f.GpuHealthy, step: Step) -> None:
    """A GPU may be used again."""
    note_event(state.kept.troubles, fact.node, fact.gpu, event=fact.event)
    _change_gpu(state, fact.node, fact.gpu, step, _healed)


def _healed(gpu: Gpu) -> Gpu:
    return replace(gpu, healthy=not gpu.driver_problem, problem=gpu.driver_problem, suspect="")


def gpu_suspected(state: State, fact: f.GpuSuspected, step: Step) -> None:
    """A GPU shows signs of trouble; it is shown, and used on."""
    note_event(state.kept.troubles, fact.node, fact.gpu, event=fact.event)
    _change_gpu(state, fact.node, fact.gpu, step, lambda gpu: replace(gpu, suspect=fact.problem))


def _change_gpu(state: State, node_id: NodeId, index: int, step: Step, change: Callable[[Gpu], Gpu]) -> None:
    node = state.kept.nodes.get(node_id)
    if node is None:
        return
    gpus = tuple(change(gpu) if gpu.index == index else gpu for gpu in node.gpus)
    state.put_node(replace(node, gpus=gpus))
    step.nodes.append(node_id)


def node_quarantined(state: State, fact: f.NodeQuarantined, step: Step) -> None:
    """New work keeps away from a node, or comes again; what runs there goes on."""
    node = state.kept.nodes.get(fact.node)
    if node is not None and node.quarantine != fact.problem:
        since_ms = step.at if fact.problem else 0
        node = replace(node, quarantine=fact.problem, quarantined_ms=since_ms)
        state.put_node(node)
        if fact.problem and not is_unspoken_for(node):
            note_closed(state.kept.troubles, fact.node)
            excuse(state, fact.node, step)
        step.nodes.append(fact.node)


def utilisation(state: State, fact: f.UtilisationSummary, step: Step) -> None:
    """How busy a node was."""
    state.kept.utilisation[fact.node] = (_known(fact.gpu_percent), step.at)
    state.kept.loads[fact.node] = Load(
        at=step.at,
        gpu_mean=_known(fact.gpu_percent),
        gpu_deviation=_known(fact.gpu_deviation),
        cpu_mean=_known(fact.cpu_percent),
        cpu_deviation=_known(fact.cpu_deviation),
        memory_mean=_known(fact.memory_percent),
        memory_deviation=_known(fact.memory_deviation),
        samples=fact.samples,
    )


def _known(value: int | None) -> int:
    return -1 if value is None else value


def job_used(state: State, fact: f.JobUsed, step: Step) -> None:
    """How busy a job's GPUs were."""
    job = state.job(fact.job)
    if job is not None and job.state in LIVE:
        shares = state.pool_of(job).policy.sharing in BY_USE
        before = lets_in(state, job) if shares else None
        state.kept.job_use[fact.job] = fact
        step.measured = step.measured or (shares and lets_in(state, job) != before)
        state.kept.use_records[fact.job] = added(state.kept.use_records.get(fact.job), fact)


def job_reclaimed(state: State, fact: f.JobReclaimed, step: Step) -> None:
    """A job that did not use its GPUs ends."""
    numbers: dict[str, int | str] = {"percent": fact.percent, "window_s": fact.window_s, "least": fact.least}
    order_stop(state, fact.job, Outcome.CANCELLED, Reason(ReasonCode.UNDER_USED, numbers), step)


def gang_hung(state: State, fact: f.GangHung, step: Step) -> None:
    """A gang that makes no progress starts again from its checkpoint; its retries are left alone."""
    job = state.job(fact.job)
    if job is not None and job.state in LIVE and job.attempt == fact.attempt:
        numbers: dict[str, int | str] = {"task": fact.task, "silent_s": fact.silent_s}
        if fact.sign:
            numbers["sign"] = fact.sign
        requeue(state, job.id, Reason(ReasonCode.HUNG, numbers), step)


def gpu_trespassed(state: State, fact: f.GpuTrespassed, step: Step) -> None:
    """A job on a GPU that it does not hold is shown to be so, and ends where its pool says that it must."""
    job = state.job(fact.job)
    if job is None or job.state not in LIVE or job.attempt != fact.attempt:
        return
    if state.kept.pools[job.spec.pool].policy.stop_trespassers:
        numbers: dict[str, int | str] = {"task": fact.task, "gpu": fact.gpu, "node": fact.node}
        order_stop(state, fact.job, Outcome.CANCELLED, Reason(ReasonCode.TRESPASSED, numbers), step)


def stragglers_seen(state: State, fact: f.StragglersSeen, step: Step) -> None:
    """Members that hold their gang up: shown to whoever owns it, and no reason to do anything."""
    job = state.job(fact.job)
    if job is not None and job.state in LIVE and job.attempt == fact.attempt:
        if fact.slow:
            state.kept.stragglers[fact.job] = fact
        else:
            state.kept.stragglers.pop(fact.job, None)


def gang_moved(state: State, fact: f.GangMoved, step: Step) -> None:
    """Members that were seen to work: a telemetry leader that begins misses them from then on."""
    job = state.job(fact.job)
    if job is None or job.state not in LIVE or job.attempt != fact.attempt:
        return
    known = state.kept.movers.get(fact.job)
    if known is not None and known.attempt == fact.attempt:
        moved = tuple(dict.fromkeys((*known.moved, *fact.moved)))
        worked = tuple(dict.fromkeys((*known.worked, *fact.worked)))
        fact = replace(fact, moved=moved, worked=worked)
    state.kept.movers[fact.job] = fact


def as_seen(node: Node, known: Node | None) -> Node:
    """A node as its agent describes it, with what administrators and telemetry hold against it and its GPUs."""
    if known is None:
        return node
    marks = {gpu.index: gpu for gpu in known.gpus if not gpu.healthy or gpu.suspect}
    gpus = tuple(_marked(gpu, marks[gpu.index]) if gpu.index in marks else gpu for gpu in node.gpus)
    pool, home = (known.pool, node.pool) if known.home else (node.pool, "")
    return replace(
        node,
        drained=known.drained,
        drain_why=known.drain_why,
        gpus=gpus,
        quarantine=known.quarantine,
        quarantined_ms=known.quarantined_ms,
        pool=pool,
        home=home,
    )


def put_seen(state: State, node: Node, step: Step) -> None:
    """Enter a node that is there, with the node that has one of its cards already, if any."""
    known = state.kept.nodes.get(node.id)
    if known is not None:
        state.twins.leave(known)
    node = replace(node, twin=state.twins.first(node))
    state.put_node(node)
    state.twins.enter(node)
    _give_cards(state, step)


def _give_cards(state: State, step: Step) -> None:
    """Nodes take work again whose cards are nobody else's any more."""
    for name in sorted(state.twins.waiting):
        node = state.kept.nodes[name]
        other = state.twins.first(node)
        if other != node.twin:
            node = replace(node, twin=other)
            state.twins.leave(node)
            state.put_node(node)
            state.twins.enter(node)
            step.nodes.append(name)


def _marked(gpu: Gpu, known: Gpu) -> Gpu:
    """What telemetry holds against it stays; what its driver did is as the driver now says."""
    if known.is_failed:
        return replace(gpu, healthy=False, problem=known.problem, suspect=known.suspect)
    return replace(gpu, suspect=known.suspect)


def node_assigned(state: State, fact: f.NodeAssigned, step: Step) -> None:
    """The node serves this pool; what waits in the old one and in the new one is looked at again."""
    node = state.kept.nodes.get(fact.node)
    if node is None:
        return
    home = node.home or node.pool
    # Snapshots leave out what is the default itself, not what is equal to it: one text must be one object.
    pool = intern(fact.pool or home)
    if pool in state.kept.pools:
        state.put_node(replace(node, pool=pool, home=home if fact.pool else ""))
        step.nodes.append(fact.node)


def node_forgotten(state: State, fact: f.NodeForgotten, step: Step) -> None:
    """An administrator said that a machine is gone; it stays where that was told too late, or not of all of it."""
    node = state.kept.nodes.get(fact.node)
    held = state.node_tasks.get(fact.node, {})
    if node is None or not (node.lost or is_unspoken_for(node)) or not held.keys() <= set(fact.tasks):
        return
    if not node.lost:
        # Its cluster's service, whose word that would have been, is gone itself.
        _lose(state, node, step)
    tasks_empty(state, sorted(held), step)
    state.twins.leave(node)
    state.forget_node(node.id)
    del state.node_tasks[node.id]
    step.nodes.append(fact.node)


HANDLERS: dict[type[f.Fact], Callable[[State, Any, Step], None]] = {
    f.NodeAssigned: node_assigned,
    f.NodeForgotten: node_forgotten,
    f.NodeLost: node_lost,
    f.GpuFailed: gpu_failed,
    f.GpuHealthy: gpu_healthy,
    f.GpuSuspected: gpu_suspected,
    f.NodeQuarantined: node_quarantined,
    f.UtilisationSummary: utilisation,
    f.JobUsed: job_used,
    f.JobReclaimed: job_reclaimed,
    f.GangHung: gang_hung,
    f.StragglersSeen: stragglers_seen,
    f.GangMoved: gang_moved,
    f.GpuTrespassed: gpu_trespassed,
}
"""The facts that this file folds."""
