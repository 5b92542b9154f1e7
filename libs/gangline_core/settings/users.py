"""Do the users of a group together have limits above what their group may use?

What a group may use is the least that it and the groups above it are limited to, dimension by dimension. Users without
an own limit in a dimension do not count in it: the group's limit holds for them.
"""

from collections.abc import Iterable, Iterator, Mapping

from gangline_core.groups import ROOT, Group, User, UserClass, ancestors, with_class
from gangline_core.settings.amounts import Problem, folded, named, said, sums
from gangline_core.state import State

Bound = tuple[int, str]
"""An amount, and the group that is limited to it."""


def of_group(state: State, group: Group) -> Problem | None:
    """What is wrong with the users of this group, and of those below it, once the group is as it is here."""
    members: dict[str, list[User]] = {}
    for user in _whole(state, state.kept.users.values(), state.kept.classes):
        if group.path == ROOT or user.group == group.path or user.group.startswith(f"{group.path}/"):
            members.setdefault(user.group, []).append(user)
    for path in sorted(members):
        problem = _problem(path, members[path], bounds(state, path, changed=group), of=group.path)
        if problem is not None:
            return problem
    return None


def of_user(state: State, wanted: User) -> Problem | None:
    """What is wrong with this user beside the others of the group."""
    kept = state.kept
    others = (user for user in kept.users.values() if user.group == wanted.group and user.name != wanted.name)
    together = list(_whole(state, [*others, wanted], kept.classes))
    return _problem(wanted.group, together, bounds(state, wanted.group), of=wanted.group)


def of_class(state: State, wanted: UserClass) -> Problem | None:
    """What is wrong with the groups in which users of this class are, once the class is as it is here."""
    kept = state.kept
    classes = {**kept.classes, wanted.name: wanted}
    for path in sorted({user.group for user in kept.users.values() if user.of_class == wanted.name}):
        together = list(_whole(state, (user for user in kept.users.values() if user.group == path), classes))
        problem = _problem(path, together, bounds(state, path), of=path)
        if problem is not None:
            return problem
    return None


def bounds(state: State, path: str, *, changed: Group | None = None) -> dict[str, Bound]:
    """Per dimension the least limit on a group's way up, with a group counted as it would be `changed`."""
    found: dict[str, Bound] = {}
    for above in ancestors(path):
        group = changed if changed is not None and changed.path == above else state.kept.groups.get(above)
        for dimension, amount in folded(group.limit).items() if group is not None else ():
            if dimension not in found or amount < found[dimension][0]:
                found[dimension] = (amount, above)
    return found


def _whole(state: State, users: Iterable[User], classes: Mapping[str, UserClass]) -> Iterator[User]:
    """These users with what their classes give them."""
    return (with_class(user, classes.get(user.of_class)) for user in users)


def _problem(path: str, users: Iterable[User], most: Mapping[str, Bound], *, of: str) -> Problem | None:
    whose = "its users' limits" if path == of else f"the limits of the users of {named(path)}"
    for dimension, amount in sorted(sums(user.limit for user in users).items()):
        if dimension in most and amount > most[dimension][0]:
            limit, holder = most[dimension]
            why = f"the limit of {named(holder)} is {said(dimension, limit)}"
            return Problem("invalid", f"{whose} come to {said(dimension, amount)} together; {why}", "limit")
    return None
