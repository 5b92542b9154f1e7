"""From a request to take out a group, a user or a lost node to its facts and its answer, by the core's rules. Pure."""

from msgspec.structs import replace

from gangline_admission.verdict import Verdict, denied, stale
from gangline_core.door.admission import Draft
from gangline_core.door.removal import check_group_removal, check_node_removal, check_user_removal, closing, is_idle
from gangline_core.facts import Fact, GroupRemoved, GroupSet, NodeForgotten, UserRemoved, UserSet
from gangline_core.groups import user_key
from gangline_core.ids import NodeId
from gangline_core.state import State
from gangline_wire import requests as r


def remove_group(state: State, draft: Draft, request: r.RemoveGroup, at: int) -> Verdict:
    """Take a group out now, or close it and everything below until the last job has ended."""
    problem = check_group_removal(state, request.path, drain=request.drain)
    if problem is not None:
        return denied(problem.kind, problem.message, problem.field)
    known = state.kept.groups[request.path]
    if request.if_version not in (-1, known.version):
        return stale(known.version)
    is_leaf = not any(name.startswith(f"{request.path}/") for name in state.kept.groups)
    facts: tuple[Fact, ...] = (GroupRemoved(path=request.path, by=request.by, why=request.why),)
    if not (is_leaf and is_idle(state, request.path)):
        facts = tuple(GroupSet(group=group, by=request.by, why=request.why) for group in closing(state, request.path))
    return Verdict(reply=r.Done(version=known.version), facts=() if request.dry_run else facts)


def remove_user(state: State, draft: Draft, request: r.RemoveUser, at: int) -> Verdict:
    """End a membership now, or when the user's last job in the group has ended."""
    problem = check_user_removal(state, request.group, request.user, drain=request.drain)
    if problem is not None:
        return denied(problem.kind, problem.message, problem.field)
    holder = user_key(request.group, request.user)
    known = state.kept.users[holder]
    if request.if_version not in (-1, known.version):
        return stale(known.version)
    fact: Fact = UserRemoved(group=request.group, user=request.user, by=request.by, why=request.why)
    if not is_idle(state, holder):
        user = replace(known, closing=True, version=known.version + 1)
        fact = UserSet(user=user, by=request.by, why=request.why)
    return Verdict(reply=r.Done(version=known.version), facts=() if request.dry_run else (fact,))


def forget_node(state: State, draft: Draft, request: r.ForgetNode, at: int) -> Verdict:
    """Take a lost node off the books, and with it what nobody saw end there, where somebody says that it has."""
    name = NodeId(request.node)
    problem = check_node_removal(state, name, gone=request.gone)
    if problem is not None:
        return denied(problem.kind, problem.message, problem.field)
    tasks = tuple(sorted(state.node_tasks[name]))
    return Verdict(reply=r.Done(), facts=(NodeForgotten(node=name, by=request.by, why=request.why, tasks=tasks),))
