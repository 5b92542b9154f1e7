"""Who may say what happened on a machine: the carrier that it belongs to, and nobody else.

Agents stand on machines of others, and one that was taken over writes whatever it likes on its own lane. So what a
carrier says counts only for its own nodes and for tasks there; a node changes its carrier only once it was lost.
"""

import re

from gangline_core import facts as f
from gangline_core.cluster import Node
from gangline_core.ids import JobId, NodeId, TaskId, token
from gangline_core.state import State

POOL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
"""As the door asks of pools: lanes are named after them."""
GPUS_MAX = 4_096
"""GPUs of one machine."""
AMOUNT_MAX = 1 << 53
"""Amounts beyond this are none."""
NODE_UID = "gangline.dev/node-uid"
"""Label by which a cluster's service says which object of the cluster a node is; whatever labels that has itself."""
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


def odd(node: Node) -> str | None:
    """What a machine cannot be like; None for machines that may be."""
    if not POOL_NAME.fullmatch(node.pool):
        return f"pool {node.pool!r} of node {node.id} is no name: letters, digits, - and _"
    indexes = [gpu.index for gpu in node.gpus]
    if len(set(indexes)) != len(indexes) or any(not 0 <= index < GPUS_MAX for index in indexes):
        return f"GPUs of node {node.id} are numbered oddly"
    amounts = (node.cpu_milli, node.memory_mib, *node.devices.values(), *(gpu.memory_mib for gpu in node.gpus))
    if any(abs(amount) > AMOUNT_MAX for amount in amounts):
        return f"amounts of node {node.id} are beyond counting"
    return None


def _not_its_own(state: State, lane: str, fact: f.NodeSeen) -> str | None:
    if (why := odd(fact.node)) is not None:
        return why
    if lane_of(fact.node.agent) != lane:
        return f"node {fact.node.id} is said to be of agent {fact.node.agent}"
    known = state.kept.nodes.get(fact.node.id)
    if known is None or known.lost or known.agent == fact.node.agent or _is_renamed(known, fact.node):
        return None
    return f"node {fact.node.id} is of agent {known.agent}, which is there"


def _is_renamed(known: Node, node: Node) -> bool:
    """True for a node of a cluster that was given another name: it is the same object there."""
    are_clusters = all(one.agent.startswith("kubernetes.") for one in (known, node))
    return are_clusters and bool(uid := known.labels.get(NODE_UID)) and node.labels.get(NODE_UID) == uid


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
