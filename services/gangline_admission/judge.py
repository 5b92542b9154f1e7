"""From one request to its facts and its answer, by the core's rules. Pure."""

from msgspec import Struct
from msgspec.structs import replace

from gangline_core import settings
from gangline_core.admission import Draft, judge_submit
from gangline_core.facts import (
    CancelRequested,
    DrainSet,
    Fact,
    GroupSet,
    HoldSet,
    PolicySet,
    PoolSet,
    TokenIssued,
    TokenRevoked,
    UserSet,
)
from gangline_core.groups import user_key
from gangline_core.ids import JobId, NodeId
from gangline_core.job import ENDS, JobState
from gangline_core.state import State
from gangline_wire import requests as r


class Verdict(Struct, frozen=True):
    """Facts to append (none when refused or a dry run), the answer, and sealed values per admitted job."""

    reply: r.Reply
    facts: tuple[Fact, ...] = ()
    secrets: dict[JobId, dict[str, str]] = {}


def judge(state: State, draft: Draft, request: r.Request, at: int) -> Verdict:
    """Judge one request on the state and on what earlier requests of the same batch drafted."""
    match request:
        case r.SubmitJobs():
            return _submit(state, draft, request, at)
        case r.CancelJob():
            return _cancel(state, request)
        case r.SetHold():
            return _hold(state, request)
        case r.SetGroup():
            return _group(state, draft, request)
        case r.SetUser():
            return _user(state, draft, request)
        case r.SetPool():
            fact = PoolSet(pool=request.pool, by=request.by)
            return _checked(settings.check_pool(state, request.pool), fact, version=0)
        case r.SetPolicy():
            return _policy(state, draft, request)
        case r.SetDrain():
            return _drain(state, request)
        case r.IssueToken():
            return Verdict(reply=r.Done(), facts=(TokenIssued(token=request.token, by=request.by),))
        case r.RevokeToken():
            if request.digest not in state.kept.tokens:
                return _denied("not_found", "there is no such token")
            return Verdict(reply=r.Done(), facts=(TokenRevoked(digest=request.digest, by=request.by),))


def _submit(state: State, draft: Draft, request: r.SubmitJobs, at: int) -> Verdict:
    judgement = judge_submit(
        state,
        Draft() if request.dry_run else draft,
        specs=request.jobs,
        submit_id=request.submit_id,
        by=request.by,
        trace=request.trace,
        at=at,
        hidden=request.hidden,
    )
    if judgement.refusals:
        refusals = tuple(r.Refusal(index=i, reason=reason, field=field) for i, reason, field in judgement.refusals)
        return Verdict(reply=r.Refused(refusals=refusals), facts=() if request.dry_run else judgement.facts)
    reply = r.Admitted(jobs=judgement.jobs, repeated=judgement.repeated)
    if request.dry_run or judgement.repeated:
        return Verdict(reply=reply)
    secrets = {job: values for job, values in zip(judgement.jobs, request.secrets, strict=False) if values}
    return Verdict(reply=reply, facts=judgement.facts, secrets=secrets)


def _cancel(state: State, request: r.CancelJob) -> Verdict:
    job = state.job(JobId(request.job))
    if job is None:
        return _denied("not_found", f"there is no job {request.job}")
    if job.state in ENDS:
        return _denied("conflict", f"job {job.id} has already {job.state}")
    return Verdict(reply=r.Done(), facts=(CancelRequested(job=job.id, by=request.by, why=request.why),))


def _hold(state: State, request: r.SetHold) -> Verdict:
    job = state.job(JobId(request.job))
    if job is None:
        return _denied("not_found", f"there is no job {request.job}")
    if job.state in ENDS:
        return _denied("conflict", f"job {job.id} has already {job.state}")
    is_held = job.state in (JobState.HELD, JobState.SUSPENDED)
    if request.held == is_held and job.state != JobState.STOPPING:
        return Verdict(reply=r.Done())
    return Verdict(reply=r.Done(), facts=(HoldSet(job=job.id, held=request.held, by=request.by),))


def _group(state: State, draft: Draft, request: r.SetGroup) -> Verdict:
    known = state.kept.groups.get(request.group.path)
    version = known.version if known else 0
    if request.if_version not in (-1, version):
        return _stale(version)
    group = replace(request.group, version=version + 1)
    fact = GroupSet(group=group, by=request.by, why=request.why)
    return _checked(settings.check_group(state, draft, group), fact, version=group.version, dry_run=request.dry_run)


def _user(state: State, draft: Draft, request: r.SetUser) -> Verdict:
    known = state.kept.users.get(user_key(request.user.group, request.user.name))
    version = known.version if known else 0
    if request.if_version not in (-1, version):
        return _stale(version)
    user = replace(request.user, version=version + 1)
    fact = UserSet(user=user, by=request.by, why=request.why)
    return _checked(settings.check_user(state, draft, user), fact, version=user.version, dry_run=request.dry_run)


def _policy(state: State, draft: Draft, request: r.SetPolicy) -> Verdict:
    pool = state.kept.pools.get(request.pool)
    if pool is None:
        return _denied("not_found", f"there is no pool {request.pool}")
    if request.if_version not in (-1, pool.policy.version):
        return _stale(pool.policy.version)
    policy = replace(request.policy, version=pool.policy.version + 1)
    fact = PolicySet(pool=request.pool, policy=policy, by=request.by, why=request.why)
    return _checked(settings.check_policy(state, policy), fact, version=policy.version, dry_run=request.dry_run)


def _drain(state: State, request: r.SetDrain) -> Verdict:
    node = state.kept.nodes.get(NodeId(request.node))
    if node is None:
        return _denied("not_found", f"there is no node {request.node}")
    if node.drained == request.drained:
        return Verdict(reply=r.Done())
    fact = DrainSet(node=node.id, drained=request.drained, by=request.by, why=request.why)
    return Verdict(reply=r.Done(), facts=(fact,))


def _checked(problem: settings.Problem | None, fact: Fact, *, version: int, dry_run: bool = False) -> Verdict:
    if problem is not None:
        return _denied(problem.kind, problem.message, problem.field)
    return Verdict(reply=r.Done(version=version), facts=() if dry_run else (fact,))


def _stale(version: int) -> Verdict:
    return _denied("conflict", f"somebody else changed it; the present version is {version}")


def _denied(kind: str, message: str, field: str = "") -> Verdict:
    return Verdict(reply=r.Denied(kind=kind, message=message, field=field))
