"""Taking groups and users out of the tree, and lost machines off the books.

What nothing depends on goes at once; a drain lets what runs end first.

Who is closing takes no new jobs. When the last of its jobs has ended, the fold takes it out by itself. What it used
stays in the accounts of the groups above it, and comes back if a group of the same path is ever made again, so that
nobody loses a debt by being removed and made anew.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from gangline_core.cluster import Node
from gangline_core.counted import counted
from gangline_core.groups import ROOT, Group, Token, User, user_key
from gangline_core.ids import NodeId
from gangline_core.room.away import is_unspoken_for
from gangline_core.settings.amounts import Problem
from gangline_core.state import State


def check_group_removal(state: State, path: str, *, drain: bool) -> Problem | None:
    """What is wrong with taking this group out, with its members; None when nothing is."""
    if path == ROOT:
        return Problem("invalid", "the root of the tree holds everything and stays", "path")
    if path not in state.kept.groups:
        return Problem("not_found", f"there is no group {path}", "path")
    below = [name for name in sorted(state.kept.groups) if name.startswith(f"{path}/")]
    if below and not drain:
        return Problem("conflict", f"group {below[0]} is below it; remove that first, or drain", "path")
    tied = _tied(state, {path, *below})
    if tied is not None:
        return Problem("conflict", tied, "path")
    return None if drain else _busy(state, path, f"group {path}")


def check_user_removal(state: State, group: str, name: str, *, drain: bool) -> Problem | None:
    """What is wrong with ending this membership; None when nothing is."""
    holder = user_key(group, name)
    if holder not in state.kept.users:
        return Problem("not_found", f"{name} is no listed user of group {group or '(root)'}", "user")
    return None if drain else _busy(state, holder, f"user {name} of group {group or '(root)'}")


def check_node_removal(state: State, name: NodeId, *, gone: bool) -> Problem | None:
    """What is wrong with forgetting this node; `gone` is the word that nothing runs there any more, seen or not."""
    node = state.kept.nodes.get(name)
    if node is None:
        return Problem("not_found", f"there is no node {name}", "node")
    if not node.lost and not is_unspoken_for(node):
        return Problem("conflict", _of_one_that_is_there(node), "node")
    tasks = len(state.node_tasks[name])
    if (tasks or not node.lost) and not gone:
        seen = f"nobody saw {counted(tasks, 'task')} end on node {name}" if tasks else node.quarantine
        message = f"{seen}; if nothing runs there any more, say so: `gangline forget {name} --gone`"
        return Problem("conflict", message, "gone")
    return None


def _of_one_that_is_there(node: Node) -> str:
    _, dot, cluster = node.agent.partition("kubernetes.")
    if dot:
        return (
            f"node {node.id} is there; that it is lost is the word of cluster {cluster}, whose service tells when it "
            f"is gone from there, or an administrator's once that service has been away for a minute. "
            f"`gangline drain {node.id}` keeps work from it"
        )
    return f"node {node.id} is there; stop its agent, and wait until it counts as lost"


def _busy(state: State, holder: str, what: str) -> Problem | None:
    jobs = state.unfinished.get(holder, 0)
    if not jobs and is_idle(state, holder):
        return None
    return Problem("conflict", f"{what} has {jobs} unfinished jobs; cancel them, or drain to let them end first")


def _tied(state: State, paths: set[str]) -> str | None:
    """What else in the settings counts on one of these groups."""
    for name, pool in sorted(state.kept.pools.items()):
        owed = pool.pool.cells.keys() | {pin.group for pin in pool.pool.pinned.values()}
        for group in sorted(paths & owed):
            return f"pool {name} owes cells to group {group}; take them out of the pool first"
    for name, window in sorted(state.kept.windows.items()):
        for group in sorted(paths & set(window.groups)):
            return f"window {name} is kept for group {group}; change or remove it first"
    return None


def is_idle(state: State, holder: str) -> bool:
    """True when nothing of a group or user is unfinished or holds anything."""
    return not (state.unfinished.get(holder) or state.running.get(holder) or state.usage.get(holder))


def closing(state: State, path: str) -> Iterator[Group]:
    """The group and all below it that are not closing yet, as they then are."""
    for name, group in sorted(state.kept.groups.items()):
        if (name == path or name.startswith(f"{path}/")) and not group.closing:
            yield replace(group, closing=True, version=group.version + 1)


def without(token: Token, group: str) -> Token:
    """The token when a group is gone from it; one that opens nothing any more is revoked, never wider than before."""
    left = tuple(path for path in token.groups if path != group)
    return replace(token, groups=left, revoked=token.revoked or not left)


def members_of(state: State, path: str) -> list[User]:
    """The listed users of a group."""
    return [user for _, user in sorted(state.kept.users.items()) if user.group == path]
