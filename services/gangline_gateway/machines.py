"""How machines are shown, drained and forgotten, and the totals over everything."""

from collections import Counter

from msgspec.structs import replace

from gangline_core.cluster import Node, free_gpu_milli
from gangline_core.ids import NodeId
from gangline_core.job import LIVE, JobState
from gangline_core.state import State
from gangline_gateway.access import visible_job
from gangline_gateway.call import WHY_FIELDS, Answer, Call, fields_of, read_why
from gangline_gateway.cursor import make_cursor, read_cursor
from gangline_gateway.problems import ProblemError, invalid, not_found
from gangline_gateway.settings import why_of
from gangline_gateway.show import node_view
from gangline_wire.fields import text
from gangline_wire.requests import AssignNode, ForgetNode, SetDrain
from gangline_wire.views import ClusterView, DoneView, ModelCount, NodesView, NodeView

PAGE_DEFAULT = 500
ASSIGNMENT_FIELDS = {"pool": ("pool", text), **WHY_FIELDS}


async def list_nodes(call: Call) -> NodesView:
    """GET /v1/nodes: nodes in id order."""
    pool = call.text("pool")
    limit = call.count("limit", PAGE_DEFAULT, least=1, limit="page_jobs")
    after = read_cursor(call.text("cursor"), caller=call.caller.digest, question=f"nodes&pool={pool}")
    nodes = call.state.kept.nodes.values()
    fitting = sorted((node for node in nodes if node.id > after and pool in ("", node.pool)), key=lambda node: node.id)
    page = fitting[:limit]
    following = ""
    if len(fitting) > limit:
        following = make_cursor(page[-1].id, caller=call.caller.digest, question=f"nodes&pool={pool}")
    return NodesView(nodes=tuple(node_view(call.state, node) for node in page), next=following)


async def get_node(call: Call) -> NodeView:
    """GET /v1/nodes/{id}."""
    node = _node(call)
    state = call.state
    jobs = sorted({state.kept.tasks[name].job for name in state.use[node.id].tasks})
    seen = tuple(job for job in jobs if visible_job(state, call.caller, job) is not None)
    return replace(node_view(state, node), jobs=seen)


async def drain_node(call: Call) -> Answer:
    """POST /v1/nodes/{id}/drain: no new work; what runs goes on."""
    return await _set_drain(call, drained=True)


async def resume_node(call: Call) -> Answer:
    """POST /v1/nodes/{id}/resume."""
    return await _set_drain(call, drained=False)


async def assign_node(call: Call) -> Answer:
    """POST /v1/nodes/{id}/assign: the node serves another pool, or again the one that its agent names."""
    if not call.caller.is_admin:
        raise ProblemError("forbidden", "Only administrators assign nodes to pools.")
    node = _node(call)
    fields = fields_of(await call.document(), ASSIGNMENT_FIELDS)
    if "pool" not in fields:
        raise invalid("pool", 'is missing; "" gives the node back to the pool that its agent names')
    pool = fields["pool"]
    if pool and pool not in call.state.kept.pools:
        known = ", ".join(sorted(call.state.kept.pools))
        raise invalid(
            "pool", f"there is no pool {pool}; known are {known}; a policy file makes one, `pools: {{{pool}: {{}}}}`"
        )
    request = AssignNode(node=node.id, pool=pool, by=call.caller.user, why=fields.get("why", ""))
    reply = await call.desk.asker.change(request)
    return Answer(DoneView(seq=reply.seq))


async def forget_node(call: Call) -> Answer:
    """DELETE /v1/nodes/{id}: a lost node is taken off the books; `gone` says that nothing runs there any more."""
    if not call.caller.is_admin:
        raise ProblemError("forbidden", "Only administrators forget nodes.")
    node = _node(call)
    request = ForgetNode(node=node.id, by=call.caller.user, why=why_of(call), gone=call.flag("gone"))
    reply = await call.desk.asker.change(request)
    return Answer(DoneView(seq=reply.seq))


async def _set_drain(call: Call, *, drained: bool) -> Answer:
    if not call.caller.is_admin:
        raise ProblemError("forbidden", "Only administrators drain and resume nodes.")
    node = _node(call)
    why = read_why(await call.document(may_be_empty=True))
    request = SetDrain(node=node.id, drained=drained, by=call.caller.user, why=why)
    reply = await call.desk.asker.change(request)
    return Answer(DoneView(seq=reply.seq))


def _node(call: Call) -> Node:
    node = call.state.kept.nodes.get(NodeId(call.part("id")))
    if node is None:
        raise not_found("such node")
    return node


async def get_cluster(call: Call) -> ClusterView:
    """GET /v1/cluster: counts only, the same for every caller."""
    state = call.state
    kept = state.kept
    models = _models(state)
    jobs = Counter(job.state.value for job in kept.jobs.values())
    return ClusterView(
        nodes=len(kept.nodes),
        nodes_ready=sum(node.takes_work for node in kept.nodes.values()),
        gpus=models,
        gpus_total=sum(count.total for count in models),
        gpus_used_milli=sum(count.used_milli for count in models),
        gpus_sick=sum(count.sick for count in models),
        jobs=dict(sorted(jobs.items())),
        waiting=sum(len(waiting) for waiting in state.waiting.values()),
        running=sum(jobs.get(live.value, 0) for live in LIVE if live != JobState.STOPPING),
        rounds={name: pool.rounds for name, pool in sorted(kept.pools.items())},
        pools=tuple(pool.pool for _, pool in sorted(kept.pools.items())),
        seq=kept.seq,
        at=kept.at,
    )


def _models(state: State) -> tuple[ModelCount, ...]:
    total: Counter[str] = Counter()
    used: Counter[str] = Counter()
    sick: Counter[str] = Counter()
    free: Counter[str] = Counter()
    tainted: Counter[str] = Counter()
    for node in state.kept.nodes.values():
        milli = state.use[node.id].gpu_milli
        room = free_gpu_milli(node, state.use[node.id])
        for gpu in node.gpus:
            (tainted if node.taints else free)[gpu.model] += room.get(gpu.index, 0)
            total[gpu.model] += 1
            used[gpu.model] += milli[gpu.index] if gpu.index < len(milli) else 0
            sick[gpu.model] += not gpu.healthy or node.lost
    return tuple(
        ModelCount(
            model=model,
            total=total[model],
            used_milli=used[model],
            sick=sick[model],
            free_milli=free[model],
            tainted_milli=tainted[model],
        )
        for model in sorted(total)
    )
