"""Who may say what happened on a machine: the carrier that it belongs to, and nobody else.

Agents stand on machines of others, and one that was taken over writes whatever it likes on its own lane. So what a
carrier says counts only for its own nodes and for tasks there; a node changes its carrier only once it was lost.
"""

from gangline_core import facts as f
from gangline_core.ids import JobId, NodeId, TaskId, token
from gangline_core.state import State

CARRIED = ("agent.", "kubernetes.")
"""Lanes of those that carry machines begin so."""


def lane_of(agent: str) -> str:
    """The lane on which a node's carrier writes: an agent's own, or the lane of its cluster, which is named so."""
    return agent if agent.startswith("kubernetes.") else f"agent.{token(agent)}"


def stranger(state: State, lane: str, fact: f.Fact) -> str | None:
    """Why this lane has no say in what the fact tells; None where it has."""
    if isinstance(fact, f.NodeSeen):
        return _not_its_own(state, lane, fact)
    if isinstance(fact, f.NodeLost):
        return _elsewhere(state, lane, fact.node)
    if isinstance(fact, f.GpusEmpty):
        return next((why for name in fact.tasks if (why := _not_there(state, lane, name))), None)
    if isinstance(fact, f.TaskStarted | f.TaskExited | f.TaskPaused | f.MemberSafe):
        return _not_there(state, lane, fact.task)
    if isinstance(fact, f.ResizeConfirmed | f.ProgressReported):
        return _no_member(state, lane, fact.job)
    return None


def _not_its_own(state: State, lane: str, fact: f.NodeSeen) -> str | None:
    if lane_of(fact.node.agent) != lane:
        return f"node {fact.node.id} is said to be of agent {fact.node.agent}"
    known = state.kept.nodes.get(fact.node.id)
    if known is None or known.lost or known.agent == fact.node.agent:
        return None
    return f"node {fact.node.id} is of agent {known.agent}, which is there"


def _elsewhere(state: State, lane: str, name: NodeId) -> str | None:
    node = state.kept.nodes.get(name)
    return None if node is None or lane_of(node.agent) == lane else f"node {name} is of agent {node.agent}"


def _not_there(state: State, lane: str, name: TaskId) -> str | None:
    task = state.kept.tasks.get(name)
    why = None if task is None else _elsewhere(state, lane, task.node)
    return why and f"task {name}: {why}"


def _no_member(state: State, lane: str, job_id: JobId) -> str | None:
    job = state.kept.jobs.get(job_id)
    if job is None or not job.tasks or any(_not_there(state, lane, name) is None for name in job.tasks):
        return None
    return f"job {job_id} has no task there"
