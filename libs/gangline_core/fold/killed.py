"""Supervisors that something on their machine ends: the job begins anew, and is held when that goes on and on.

It may be the program (`kill -9 $PPID`), or the machine (memory that runs out, somebody who tidies up): nobody can tell.
So it costs no retry, and at the end the job is held and not failed. Telemetry closes a node on which that befalls
several jobs; what befell a job there was not its own doing, and counts no more.
"""

from msgspec.structs import replace

from gangline_core.fold.life import move_job, order_stop
from gangline_core.fold.repair import lose
from gangline_core.ids import NodeId
from gangline_core.job import Job, JobState, Move, Outcome, Task
from gangline_core.killed import KILLED_MAX, RAN_WELL_MS, Killed
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.state import State
from gangline_core.step import Step


def killed(state: State, task: Task, step: Step) -> None:
    """A member is gone with its supervisor, which its agent saw go."""
    before = state.kept.jobs[task.job]
    row = _counted_already(before, task) or Killed(nodes=(*_row(before, task, step.at), task.node), at=step.at)
    reason = _reason(row)
    lose(state, task, reason, step)
    job = state.kept.jobs[task.job]
    if before.outcome is not None or (job.outcome is None and not job.spec.repair_s):
        # Counted once for each attempt, and not where the others go on without it.
        return
    job = replace(job, killed=row)
    state.put_job(job)
    if len(row.nodes) < KILLED_MAX:
        return
    if job.outcome == Outcome.REQUEUED:
        # It stops already, and goes on from there to another end.
        state.drop_claim(job.id)
        state.put_job(replace(job, outcome=Outcome.SUSPENDED))
    else:
        order_stop(state, job.id, Outcome.SUSPENDED, reason, step)


def _counted_already(job: Job, task: Task) -> Killed | None:
    """The row as it is, for a member that was there when it grew: all that go at once count once."""
    return job.killed if job.killed is not None and task.placed_ms < job.killed.at else None


def _row(job: Job, task: Task, at: int) -> tuple[NodeId, ...]:
    """Where it befell the job before, unless it ran well since."""
    if job.killed is None or at - (task.started_ms or task.placed_ms) >= RAN_WELL_MS:
        return ()
    began_ms = max(job.killed.at, job.started_ms)
    is_long_ago = job.state in (JobState.RUNNING, JobState.RESIZING) and at - began_ms >= RAN_WELL_MS
    return () if is_long_ago else job.killed.nodes


def excuse(state: State, node: NodeId, step: Step) -> None:
    """A node is closed for what befell jobs there: that counts against none, and who is held for it is tried anew."""
    for job in list(state.kept.jobs.values()):
        if job.killed is not None and node in job.killed.nodes and not job.ended_ms:
            _excuse(state, job, node, step)


def _excuse(state: State, job: Job, node: NodeId, step: Step) -> None:
    assert job.killed is not None
    was_too_often = len(job.killed.nodes) >= KILLED_MAX
    nodes = tuple(other for other in job.killed.nodes if other != node)
    job = replace(job, killed=replace(job.killed, nodes=nodes) if nodes else None)
    state.put_job(job)
    if not was_too_often or job.reason is None or job.reason.code != ReasonCode.KILLED:
        return
    if job.state == JobState.SUSPENDED:
        move_job(state, replace(job, reason=None, queued_ms=step.at), Move.RELEASE, step)
    elif job.outcome == Outcome.SUSPENDED:
        state.put_job(replace(job, outcome=Outcome.REQUEUED))


def _reason(row: Killed) -> Reason:
    names = ", ".join(dict.fromkeys(row.nodes))
    return Reason(ReasonCode.KILLED, {"times": len(row.nodes), "most": KILLED_MAX, "nodes": names})
