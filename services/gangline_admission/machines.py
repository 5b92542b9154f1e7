"""From a request about machines to its facts and its answer, by the core's rules. Pure."""

from gangline_admission.verdict import Verdict, denied
from gangline_core.door.draft import Draft
from gangline_core.door.removal import check_node_removal
from gangline_core.facts import DrainSet, NodeAssigned, NodeForgotten
from gangline_core.ids import NodeId
from gangline_core.state import State
from gangline_wire import requests as r


def drain(state: State, draft: Draft, request: r.SetDrain, at: int) -> Verdict:
    """Let a node take no new work, or again some."""
    node = state.kept.nodes.get(NodeId(request.node))
    if node is None:
        return denied("not_found", f"there is no node {request.node}")
    if node.drained == request.drained and (request.drained or not node.quarantine):
        return Verdict(reply=r.Done())
    fact = DrainSet(node=node.id, drained=request.drained, by=request.by, why=request.why)
    return Verdict(reply=r.Done(), facts=(fact,))


def assign(state: State, draft: Draft, request: r.AssignNode, at: int) -> Verdict:
    """Let a node serve another pool."""
    node = state.kept.nodes.get(NodeId(request.node))
    if node is None:
        return denied("not_found", f"there is no node {request.node}")
    if request.pool and request.pool not in state.kept.pools:
        return denied("not_found", f"there is no pool {request.pool}")
    if request.pool == node.pool or (not request.pool and not node.home):
        return Verdict(reply=r.Done())
    fact = NodeAssigned(node=node.id, pool=request.pool, by=request.by, why=request.why)
    return Verdict(reply=r.Done(), facts=(fact,))


def forget(state: State, draft: Draft, request: r.ForgetNode, at: int) -> Verdict:
    """Take a lost node off the books, and with it what nobody saw end there, where somebody says that it has."""
    name = NodeId(request.node)
    problem = check_node_removal(state, name, gone=request.gone)
    if problem is not None:
        return denied(problem.kind, problem.message, problem.field)
    tasks = tuple(sorted(state.node_tasks[name]))
    return Verdict(reply=r.Done(), facts=(NodeForgotten(node=name, by=request.by, why=request.why, tasks=tasks),))
