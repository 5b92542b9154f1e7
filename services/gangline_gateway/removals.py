"""How groups and users are taken out of the tree."""

from gangline_core.groups import user_key
from gangline_gateway.access import is_head, leads_above, sees_group, sees_user
from gangline_gateway.call import Answer, Call
from gangline_gateway.changing import answer, ask
from gangline_gateway.problems import ProblemError, not_found
from gangline_gateway.settings import group_of, user_of
from gangline_wire.requests import RemoveGroup, RemoveUser


async def delete_group(call: Call) -> Answer:
    """DELETE /v1/groups/{path}: with its members; `drain` lets its jobs, and those of what is below it, end first."""
    path = group_of(call)
    state, caller = call.state, call.caller
    if path not in state.kept.groups or not sees_group(state, caller, path):
        raise not_found("such group")
    if not caller.is_admin and not (caller.may_change and leads_above(state, caller, path)):
        raise ProblemError("forbidden", "Only a head of a group above it or an administrator may remove a group.")
    request = RemoveGroup(path=path, by=caller.user, drain=call.flag("drain"))
    return answer(call, await ask(call, request))


async def delete_user(call: Call) -> Answer:
    """DELETE /v1/groups/{path}/users/{user}: ends the membership; `drain` lets the user's jobs there end first."""
    group, name = group_of(call), user_of(call)
    state, caller = call.state, call.caller
    known = user_key(group, name) in state.kept.users
    if not known or not sees_user(state, caller, group=group, user=name):
        raise not_found("such user")
    if not caller.is_admin and not (caller.may_change and is_head(state, caller, group)):
        raise ProblemError("forbidden", "Only a head of the group or an administrator may do this.")
    request = RemoveUser(group=group, user=name, by=caller.user, drain=call.flag("drain"))
    return answer(call, await ask(call, request))
