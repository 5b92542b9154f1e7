"""From a request about settings or access to its facts and its answer, by the core's rules. Pure."""

from msgspec.structs import replace

from gangline_admission.verdict import Verdict, changed, denied, stale
from gangline_core import settings
from gangline_core.door.draft import Draft
from gangline_core.door.removal import check_group_removal, check_user_removal, closing, is_idle
from gangline_core.facts import (
    Fact,
    GroupRemoved,
    GroupSet,
    PolicySet,
    PoolSet,
    PricesSet,
    TokenIssued,
    TokenRevoked,
    UserRemoved,
    UserSet,
    WindowRemoved,
    WindowSet,
)
from gangline_core.groups import user_key
from gangline_core.settings.dated import check_prices, check_window
from gangline_core.settings.document_change import check, facts, version_of
from gangline_core.state import State
from gangline_wire import requests as r


def set_group(state: State, draft: Draft, request: r.SetGroup, at: int) -> Verdict:
    """Make or change a group."""
    known = state.kept.groups.get(request.group.path)
    before = known.version if known else 0
    group = replace(request.group, version=state.kept.next_version(before, request.group.path))
    fact = GroupSet(group=group, by=request.by, why=request.why)
    problem = settings.check_group(state, draft, group)
    return changed(request, fact, problem=problem, before=before, version=group.version)


def set_user(state: State, draft: Draft, request: r.SetUser, at: int) -> Verdict:
    """Make or change a user of a group."""
    holder = user_key(request.user.group, request.user.name)
    known = state.kept.users.get(holder)
    before = known.version if known else 0
    user = replace(request.user, version=state.kept.next_version(before, holder))
    fact = UserSet(user=user, by=request.by, why=request.why)
    problem = settings.check_user(state, draft, user)
    return changed(request, fact, problem=problem, before=before, version=user.version)


def set_pool(state: State, draft: Draft, request: r.SetPool, at: int) -> Verdict:
    """Make or change a pool."""
    known = state.kept.pools.get(request.pool.name)
    before = known.pool.version if known else 0
    pool = replace(request.pool, version=before + 1)
    fact = PoolSet(pool=pool, by=request.by, why=request.why)
    return changed(request, fact, problem=settings.check_pool(state, pool), before=before, version=pool.version)


def set_policy(state: State, draft: Draft, request: r.SetPolicy, at: int) -> Verdict:
    """Change how a pool decides."""
    pool = state.kept.pools.get(request.pool)
    if pool is None:
        return denied("not_found", f"there is no pool {request.pool}")
    before = pool.policy.version
    policy = replace(request.policy, version=before + 1)
    fact = PolicySet(pool=request.pool, policy=policy, by=request.by, why=request.why)
    problem = settings.check_policy(state, policy, request.pool)
    return changed(request, fact, problem=problem, before=before, version=policy.version)


def set_window(state: State, draft: Draft, request: r.SetWindow, at: int) -> Verdict:
    """Set dated capacity aside, or change it."""
    known = state.kept.windows.get(request.window.name)
    before = known.version if known else 0
    wanted = replace(request.window, version=before + 1)
    fact = WindowSet(window=wanted, by=request.by, why=request.why)
    return changed(request, fact, problem=check_window(state, wanted, at), before=before, version=wanted.version)


def remove_window(state: State, draft: Draft, request: r.RemoveWindow, at: int) -> Verdict:
    """Give dated capacity back."""
    if request.name not in state.kept.windows:
        return denied("not_found", f"there is no window {request.name}")
    return Verdict(reply=r.Done(), facts=(WindowRemoved(name=request.name, by=request.by, why=request.why),))


def set_prices(state: State, draft: Draft, request: r.SetPrices, at: int) -> Verdict:
    """Change the price list."""
    before = state.kept.prices_version
    milli = {model.lower(): price for model, price in request.milli.items()}
    fact = PricesSet(milli=milli, by=request.by, why=request.why, version=before + 1)
    return changed(request, fact, problem=check_prices(request.milli), before=before, version=before + 1)


def apply_all(state: State, draft: Draft, request: r.ApplySettings, at: int) -> Verdict:
    """Make all settings as a document says: one append, or nothing."""
    version = version_of(state)
    if request.if_version not in (-1, version):
        return stale(version)
    wrong = check(state, request.document, at)
    if wrong:
        first = wrong[0]
        name = f"{first.kind} {first.name}".strip()
        return denied("invalid", f"{name}: {first.problem.message}", first.problem.field)
    written = facts(state, request.document, by=request.by, why=request.why)
    return Verdict(reply=r.Done(), facts=() if request.dry_run else written)


def remove_group(state: State, draft: Draft, request: r.RemoveGroup, at: int) -> Verdict:
    """Take a group out now, or close it and everything below until the last job has ended."""
    problem = check_group_removal(state, request.path, drain=request.drain)
    if problem is not None:
        return denied(problem.kind, problem.message, problem.field)
    version = state.kept.groups[request.path].version
    is_leaf = not any(name.startswith(f"{request.path}/") for name in state.kept.groups)
    facts: tuple[Fact, ...] = (GroupRemoved(path=request.path, by=request.by, why=request.why),)
    if not (is_leaf and is_idle(state, request.path)):
        facts = tuple(GroupSet(group=group, by=request.by, why=request.why) for group in closing(state, request.path))
    return changed(request, *facts, before=version, version=version)


def remove_user(state: State, draft: Draft, request: r.RemoveUser, at: int) -> Verdict:
    """End a membership now, or when the user's last job in the group has ended."""
    problem = check_user_removal(state, request.group, request.user, drain=request.drain)
    if problem is not None:
        return denied(problem.kind, problem.message, problem.field)
    holder = user_key(request.group, request.user)
    known = state.kept.users[holder]
    fact: Fact = UserRemoved(group=request.group, user=request.user, by=request.by, why=request.why)
    if not is_idle(state, holder):
        user = replace(known, closing=True, version=known.version + 1)
        fact = UserSet(user=user, by=request.by, why=request.why)
    return changed(request, fact, before=known.version, version=known.version)


def issue_token(state: State, draft: Draft, request: r.IssueToken, at: int) -> Verdict:
    """Make a token known by its hash."""
    return Verdict(reply=r.Done(), facts=(TokenIssued(token=request.token, by=request.by),))


def revoke_token(state: State, draft: Draft, request: r.RevokeToken, at: int) -> Verdict:
    """Make a token useless."""
    if request.digest not in state.kept.tokens:
        return denied("not_found", "there is no such token")
    return Verdict(reply=r.Done(), facts=(TokenRevoked(digest=request.digest, by=request.by),))
