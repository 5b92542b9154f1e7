"""From one request to its facts and its answer, by the core's rules. Pure."""

from msgspec.structs import replace

from gangline_admission import acts
from gangline_admission.verdict import Verdict, checked, denied, stale
from gangline_core import settings
from gangline_core.door.admission import Draft, judge_submit
from gangline_core.facts import (
    DrainSet,
    GroupSet,
    NodeAssigned,
    PolicySet,
    PoolSet,
    TokenIssued,
    TokenRevoked,
    UserSet,
)
from gangline_core.groups import user_key
from gangline_core.ids import NodeId
from gangline_core.state import State
from gangline_wire import requests as r
from gangline_wire.bounds import beyond

WAS_REFUSED = "this very request was refused before, when something kept it out that does not any more; send it anew"


def judge(state: State, draft: Draft, request: r.Request, at: int) -> Verdict:
    """Judge one request on the state and on what earlier requests of the same batch drafted."""
    act = acts.ACTS.get(type(request))
    if act is not None:
        return act(state, draft, request, at)
    match request:
        case r.SubmitJobs():
            return _submit(state, draft, request, at)
        case r.SetGroup():
            return _group(state, draft, request)
        case r.SetUser():
            return _user(state, draft, request)
        case r.SetPool():
            return _pool(state, request)
        case r.SetPolicy():
            return _policy(state, draft, request)
        case r.SetDrain():
            return _drain(state, request)
        case r.AssignNode():
            return _assign(state, request)
        case r.IssueToken():
            return Verdict(reply=r.Done(), facts=(TokenIssued(token=request.token, by=request.by),))
        case r.RevokeToken():
            if request.digest not in state.kept.tokens:
                return denied("not_found", "there is no such token")
            return Verdict(reply=r.Done(), facts=(TokenRevoked(digest=request.digest, by=request.by),))
        case _:
            raise ValueError(f"nobody judges {type(request).__name__}")


def _submit(state: State, draft: Draft, request: r.SubmitJobs, at: int) -> Verdict:
    for index, spec in enumerate(request.jobs):
        # Pods and other objects become specs, too; what cannot be counted with must not come into the log.
        if (fault := beyond(spec)) is not None:
            return denied("invalid", f"{fault[0]} of job {index} {fault[1]}", fault[0])
    judgement = judge_submit(
        state,
        Draft() if request.dry_run else draft,
        specs=request.jobs,
        submit_id=request.submit_id,
        by=request.by,
        trace=request.trace,
        at=at,
        hidden=request.hidden,
        ask=request.ask,
    )
    if judgement.was_refused:
        return denied("conflict", WAS_REFUSED)
    if judgement.refusals:
        refusals = tuple(r.Refusal(index=i, reason=reason, field=field) for i, reason, field in judgement.refusals)
        return Verdict(reply=r.Refused(refusals=refusals), facts=() if request.dry_run else judgement.facts)
    reply = r.Admitted(jobs=judgement.jobs, repeated=judgement.repeated)
    if request.dry_run or judgement.repeated:
        return Verdict(reply=reply)
    secrets = {job: values for job, values in zip(judgement.jobs, request.secrets, strict=False) if values}
    return Verdict(reply=reply, facts=judgement.facts, secrets=secrets)


def _group(state: State, draft: Draft, request: r.SetGroup) -> Verdict:
    known = state.kept.groups.get(request.group.path)
    version = known.version if known else 0
    if request.if_version not in (-1, version):
        return stale(version)
    group = replace(request.group, version=state.kept.next_version(version, request.group.path))
    fact = GroupSet(group=group, by=request.by, why=request.why)
    return checked(settings.check_group(state, draft, group), fact, version=group.version, dry_run=request.dry_run)


def _user(state: State, draft: Draft, request: r.SetUser) -> Verdict:
    holder = user_key(request.user.group, request.user.name)
    known = state.kept.users.get(holder)
    version = known.version if known else 0
    if request.if_version not in (-1, version):
        return stale(version)
    user = replace(request.user, version=state.kept.next_version(version, holder))
    fact = UserSet(user=user, by=request.by, why=request.why)
    return checked(settings.check_user(state, draft, user), fact, version=user.version, dry_run=request.dry_run)


def _pool(state: State, request: r.SetPool) -> Verdict:
    known = state.kept.pools.get(request.pool.name)
    version = known.pool.version if known else 0
    if request.if_version not in (-1, version):
        return stale(version)
    pool = replace(request.pool, version=version + 1)
    fact = PoolSet(pool=pool, by=request.by, why=request.why)
    return checked(settings.check_pool(state, pool), fact, version=pool.version, dry_run=request.dry_run)


def _policy(state: State, draft: Draft, request: r.SetPolicy) -> Verdict:
    pool = state.kept.pools.get(request.pool)
    if pool is None:
        return denied("not_found", f"there is no pool {request.pool}")
    if request.if_version not in (-1, pool.policy.version):
        return stale(pool.policy.version)
    policy = replace(request.policy, version=pool.policy.version + 1)
    fact = PolicySet(pool=request.pool, policy=policy, by=request.by, why=request.why)
    problem = settings.check_policy(state, policy, request.pool)
    return checked(problem, fact, version=policy.version, dry_run=request.dry_run)


def _drain(state: State, request: r.SetDrain) -> Verdict:
    node = state.kept.nodes.get(NodeId(request.node))
    if node is None:
        return denied("not_found", f"there is no node {request.node}")
    if node.drained == request.drained and (request.drained or not node.quarantine):
        return Verdict(reply=r.Done())
    fact = DrainSet(node=node.id, drained=request.drained, by=request.by, why=request.why)
    return Verdict(reply=r.Done(), facts=(fact,))


def _assign(state: State, request: r.AssignNode) -> Verdict:
    node = state.kept.nodes.get(NodeId(request.node))
    if node is None:
        return denied("not_found", f"there is no node {request.node}")
    if request.pool and request.pool not in state.kept.pools:
        return denied("not_found", f"there is no pool {request.pool}")
    if request.pool == node.pool or (not request.pool and not node.home):
        return Verdict(reply=r.Done())
    fact = NodeAssigned(node=node.id, pool=request.pool, by=request.by, why=request.why)
    return Verdict(reply=r.Done(), facts=(fact,))
