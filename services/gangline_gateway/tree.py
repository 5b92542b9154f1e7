"""How groups, users and their use are shown and changed."""

from gangline_core.groups import Group, User, user_key
from gangline_core.groups import user_of as holder_of
from gangline_core.limits.budget_periods import period_end_ms
from gangline_core.limits.budgets import GPU_HOUR
from gangline_core.limits.spending import Spent, spent
from gangline_core.settings import ADMINISTRATORS_OWN, HEADS_OWN, changed_fields
from gangline_core.settings.doubtful import doubts
from gangline_core.state import State
from gangline_gateway.access import is_head, leads_above, sees_group, sees_user
from gangline_gateway.call import Answer, Call
from gangline_gateway.changing import answer, ask, document_of
from gangline_gateway.problems import ProblemError, invalid, not_found
from gangline_gateway.settings import etag, group_of, read_settings, user_of
from gangline_wire.limits import most
from gangline_wire.requests import SetGroup, SetUser
from gangline_wire.views import GroupsView, GroupView, UsageLine, UsageView, UserView


async def list_groups(call: Call) -> GroupsView:
    """GET /v1/groups: parents before children."""
    used = spent(call.state, call.desk.site.now_ms())
    paths = _groups(call)
    told = paths[: most("group_users")]
    return GroupsView(groups=tuple(_group_view(call, path, used) for path in told), left_out=len(paths) - len(told))


async def get_group(call: Call) -> Answer:
    """GET /v1/groups/{path}."""
    path = group_of(call)
    if path not in call.state.kept.groups or not sees_group(call.state, call.caller, path):
        raise not_found("such group")
    view = _group_view(call, path, spent(call.state, call.desk.site.now_ms()))
    return Answer(view, headers=etag(view.version))


async def put_group(call: Call) -> Answer:
    """PUT /v1/groups/{path}: the settings as a whole."""
    path = group_of(call)
    state, caller = call.state, call.caller
    known = state.kept.groups.get(path)
    if not caller.is_admin:
        if not sees_group(state, caller, path):
            raise not_found("such group")
        if not caller.may_change or not is_head(state, caller, path):
            raise ProblemError("forbidden", "Only a head of the group or an administrator may do this.")
    settings = read_settings(await document_of(call, path=path), Group)
    if settings.path != path:
        raise invalid("path", "must be the group of the address")
    if not caller.is_admin:
        _check_head(call, known or Group(path=path), settings)
    done = await ask(call, SetGroup(group=settings, by=caller.user))
    # What others are guaranteed is not for heads to know.
    said = doubts(call.state, (settings,)) if caller.is_admin else ()
    return answer(call, done, doubts=said)


async def get_user(call: Call) -> Answer:
    """GET /v1/groups/{path}/users/{user}."""
    group, name = group_of(call), user_of(call)
    state = call.state
    key = user_key(group, name)
    user = state.kept.users.get(key)
    if user is None or not sees_user(state, call.caller, group=group, user=name):
        raise not_found("such user")
    view = UserView(
        group=group,
        user=name,
        settings=user,
        usage=dict(state.usage.get(key, {})),
        unfinished=state.unfinished.get(key, 0),
        used_gpu_hours=gpu_hours(spent(state, call.desk.site.now_ms()).total(key)),
        version=user.version,
    )
    return Answer(view, headers=etag(user.version))


async def put_user(call: Call) -> Answer:
    """PUT /v1/groups/{path}/users/{user}: makes the user a member, or changes its settings."""
    group, name = group_of(call), user_of(call)
    state, caller = call.state, call.caller
    if group not in state.kept.groups or not sees_group(state, caller, group):
        raise not_found("such group")
    if not caller.is_admin and not (caller.may_change and is_head(state, caller, group)):
        raise ProblemError("forbidden", "Only a head of the group or an administrator may do this.")
    settings = read_settings(await document_of(call, name=name, group=group), User)
    if settings.name != name or settings.group != group:
        raise invalid("name" if settings.name != name else "group", "must be the one of the address")
    known = state.kept.users.get(user_key(group, name))
    if not caller.is_admin and settings.level != (known.level if known else 0):
        raise ProblemError("forbidden", "Only administrators set levels, which move jobs before those of others.")
    return answer(call, await ask(call, SetUser(user=settings, by=caller.user)))


async def get_usage(call: Call) -> UsageView:
    """GET /v1/usage: the groups and users the caller may see."""
    state, caller = call.state, call.caller
    now = call.desk.site.now_ms()
    used = spent(state, now)
    whose = [(path, "") for path in _groups(call)]
    whose += [pair for pair in _users(state, used) if sees_user(state, caller, group=pair[0], user=pair[1])]
    told = whose[: most("group_users")]
    lines = tuple(_line(state, used, group=group, user=user) for group, user in told)
    return UsageView(at=now, lines=lines, left_out=len(whose) - len(told))


def _check_head(call: Call, before: Group, after: Group) -> None:
    """A head divides what its group has; how much that is, and who goes first, is decided above it.

    Raises:
        ProblemError: it changes more.
    """
    changed = changed_fields(before, after)
    if leads_above(call.state, call.caller, after.path):
        beyond = changed & set(ADMINISTRATORS_OWN)
    else:
        beyond = changed - set(HEADS_OWN)
    if beyond:
        raise ProblemError("forbidden", f"A head may not change {', '.join(sorted(beyond))} of this group.")


def _users(state: State, used: Spent) -> list[tuple[str, str]]:
    """Groups and users: members with settings of their own, and whoever else used or asked for anything."""
    known = {*state.kept.users, *used.charged, *used.running, *state.unfinished}
    pairs = sorted(holder_of(key) for key in known)
    return [(group, user) for group, user in pairs if user and group in state.kept.groups]


def _line(state: State, used: Spent, *, group: str, user: str) -> UsageLine:
    key = user_key(group, user) if user else group
    amount = used.total(key)
    return UsageLine(
        group=group,
        user=user,
        gpu_milli_ms=amount,
        gpu_hours=gpu_hours(amount),
        cost_gpu_hours=gpu_hours(used.cost_of(key)),
        budget_gpu_hours=0 if user else state.kept.groups[group].budget_gpu_hours,
        budget_exhausted=key in state.kept.exhausted,
        budget_used_gpu_hours=0 if user else gpu_hours(used.of_budget(group)),
        budget_renews_ms=0 if user else renews_ms(state, group),
        holds=dict(state.usage.get(key, {})),
        unfinished=state.unfinished.get(key, 0),
    )


def _groups(call: Call) -> list[str]:
    state = call.state
    return sorted(path for path in state.kept.groups if sees_group(state, call.caller, path))


def _group_view(call: Call, path: str, used: Spent) -> GroupView:
    state, caller = call.state, call.caller
    group = state.kept.groups[path]
    users = sorted(
        user.name
        for user in state.kept.users.values()
        if user.group == path and sees_user(state, caller, group=path, user=user.name)
    )
    return GroupView(
        path=path,
        settings=group,
        users=tuple(users[: most("group_users")]),
        users_left_out=max(0, len(users) - most("group_users")),
        usage=dict(state.usage.get(path, {})),
        unfinished=state.unfinished.get(path, 0),
        used_gpu_hours=gpu_hours(used.total(path)),
        cost_gpu_hours=gpu_hours(used.cost_of(path)),
        budget_exhausted=path in state.kept.exhausted,
        budget_used_gpu_hours=gpu_hours(used.of_budget(path)),
        budget_renews_ms=renews_ms(state, path),
        version=group.version,
    )


def renews_ms(state: State, path: str) -> int:
    """When the group's budget begins anew; 0 when it never does."""
    group, period = state.kept.groups[path], state.kept.renewed.get(path)
    return 0 if period is None else period_end_ms(group, period[0])


def gpu_hours(gpu_milli_ms: int) -> float:
    """As people read it, to the millionth."""
    return round(gpu_milli_ms / GPU_HOUR, 6)
