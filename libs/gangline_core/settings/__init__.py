"""What administrators and heads may set: each change is checked as a whole against everything it touches.

Amounts in a group form a tree that must add up: a group's guarantees cover those of its children together, a guarantee
stays below every limit above it, and the users of a group together never have a larger limit than the group. Limits of
child groups may add up to more than their parent's, because the parent's own limit holds for all of them anyway.
"""

import re
from collections.abc import Iterable

from msgspec.structs import fields as struct_fields

from gangline_core.cluster import LEVELS_INSIDE_NODE, Policy, Pool
from gangline_core.door.draft import Draft
from gangline_core.groups import ROOT, Group, User, UserClass, ancestors
from gangline_core.limits.quota import JOBS
from gangline_core.limits.rungs import MODEL_PREFIX
from gangline_core.room.cells import promise_fault
from gangline_core.room.layout import Layout
from gangline_core.settings import cells as settings_cells
from gangline_core.settings import users as settings_users
from gangline_core.settings.amounts import (
    AMOUNT_MAX,
    LEVEL_MAX,
    amounts_problem,
    folded,
    named,
    range_problem,
    said,
    sums,
)
from gangline_core.settings.amounts import Problem as Problem
from gangline_core.settings.group import bounds_problem, lending_problem, seasons_problem
from gangline_core.settings.policy import policy_problems
from gangline_core.state import State

WEIGHT_MAX = 1_000_000
DEPTH_MAX = 16
HEADS_MAX = 64
CELLS = "cells"
"""The placement that keeps guarantees of shape."""
LEVELS_MAX = 64
CANDIDATES_MAX = 100_000

HEADS_OWN = ("user_limit", "job_limit", "user_queued_jobs_max", "user_submits_per_minute", "user_priority_max")
"""What a head may change of the very group they lead; how much that group gets is decided above it."""
ADMINISTRATORS_OWN = ("level", "priority_max", "levels")
"""What only an administrator may change, because it moves jobs before those of other groups."""

_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@+-]*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


# --- groups and users ---------------------------------------------------------------------------------------


def check_group(state: State, draft: Draft, group: Group) -> Problem | None:
    """What is wrong with making or changing this group as a whole; None when nothing is."""
    return (
        _path_problem(state, group.path)
        or _group_values_problem(group)
        or _own_problem(group)
        or _above_problem(state, group)
        or _children_problem(state, group)
        or _unknown_level(state, group)
        or settings_users.of_group(state, group)
        or settings_cells.of_group(state, group)
    )


def check_group_alone(group: Group) -> Problem | None:
    """What is wrong with a group whatever other groups there are; None when nothing is."""
    if group.path != ROOT and not all(_SEGMENT.fullmatch(segment) for segment in group.path.split("/")):
        return Problem("invalid", f"{group.path!r} is no group path such as research/vision", "path")
    return _group_values_problem(group) or _own_problem(group)


def _unknown_level(state: State, group: Group) -> Problem | None:
    """A queue level that its jobs may have and that no pool has: with nothing but such ones no job could ever enter."""
    known = {level for pool in state.kept.pools.values() for level in pool.pool.levels}
    unknown = next((level for level in group.levels if level not in known), None)
    return None if unknown is None else Problem("invalid", f"no pool has a level {unknown}", "levels")


def check_user(state: State, draft: Draft, user: User) -> Problem | None:
    """What is wrong with making this user a member of the group, or with changing them; None when nothing is."""
    group = state.kept.groups.get(user.group)
    if group is None:
        return Problem("not_found", f"there is no group {user.group or '(none)'}", "group")
    if not _SEGMENT.fullmatch(user.name):
        return Problem("invalid", f"{user.name!r} cannot be a user's name", "name")
    problem = (
        amounts_problem("limit", user.limit)
        or range_problem("level", user.level, -LEVEL_MAX, LEVEL_MAX)
        or range_problem("queued_jobs_max", user.queued_jobs_max, 0, AMOUNT_MAX)
        or range_problem("submits_per_minute", user.submits_per_minute, 0, AMOUNT_MAX)
        or range_problem("priority_max", user.priority_max or 0, -LEVEL_MAX, LEVEL_MAX)
    )
    if problem is not None:
        return problem
    if user.of_class and user.of_class not in state.kept.classes:
        return Problem("invalid", f"there is no class {user.of_class}", "of_class")
    return settings_users.of_user(state, user)


def check_class(state: State, user_class: UserClass) -> Problem | None:
    """What is wrong with making or changing this class of users; None when nothing is."""
    if not _NAME.fullmatch(user_class.name):
        return Problem("invalid", f"{user_class.name!r} cannot be a class's name", "name")
    problem = (
        amounts_problem("limit", user_class.limit)
        or range_problem("level", user_class.level, -LEVEL_MAX, LEVEL_MAX)
        or range_problem("queued_jobs_max", user_class.queued_jobs_max, 0, AMOUNT_MAX)
        or range_problem("submits_per_minute", user_class.submits_per_minute, 0, AMOUNT_MAX)
        or range_problem("priority_max", user_class.priority_max or 0, -LEVEL_MAX, LEVEL_MAX)
    )
    if problem is not None:
        return problem
    return settings_users.of_class(state, user_class)


def _path_problem(state: State, path: str) -> Problem | None:
    if path == ROOT:
        return None
    segments = path.split("/")
    if not all(_SEGMENT.fullmatch(segment) for segment in segments):
        return Problem("invalid", f"{path!r} is no group path such as research/vision", "path")
    if len(segments) > DEPTH_MAX:
        return Problem("invalid", f"{path} is {len(segments)} levels deep; at most {DEPTH_MAX} are allowed", "path")
    parent = path.rpartition("/")[0]
    if parent not in state.kept.groups:
        return Problem("not_found", f"there is no group {parent} to hold {path}; make it first", "path")
    return None


def _group_values_problem(group: Group) -> Problem | None:
    for field in ("guaranteed", "limit", "user_limit", "job_limit"):
        problem = amounts_problem(field, getattr(group, field))
        if problem is not None:
            return problem
    if JOBS in group.guaranteed or JOBS in group.job_limit:
        field = "guaranteed" if JOBS in group.guaranteed else "job_limit"
        return Problem(
            "invalid", "a number of jobs can be limited, but neither guaranteed nor asked for by a job", field
        )
    if len(group.heads) > HEADS_MAX or len(set(group.heads)) < len(group.heads):
        return Problem("invalid", f"must be at most {HEADS_MAX} different users", "heads")
    if not all(_SEGMENT.fullmatch(head) for head in group.heads):
        return Problem("invalid", "must be names of users", "heads")
    return (
        range_problem("weight", group.weight, 0, WEIGHT_MAX)
        or range_problem("level", group.level, -LEVEL_MAX, LEVEL_MAX)
        or range_problem("queued_jobs_max", group.queued_jobs_max, 0, AMOUNT_MAX)
        or range_problem("submits_per_minute", group.submits_per_minute, 0, AMOUNT_MAX)
        or range_problem("time_limit_s_max", group.time_limit_s_max, 0, AMOUNT_MAX)
        or range_problem("budget_gpu_hours", group.budget_gpu_hours, 0, AMOUNT_MAX)
        or bounds_problem(group)
        or lending_problem(group)
        or seasons_problem(group)
    )


def _own_problem(group: Group) -> Problem | None:
    """The group's own numbers contradict each other."""
    limit, guaranteed = folded(group.limit), folded(group.guaranteed)
    of_models = sum(amount for name, amount in guaranteed.items() if name.startswith(MODEL_PREFIX))
    for field, amounts in (
        ("guaranteed", guaranteed),
        ("guaranteed", {"gpu_milli": of_models}),
        ("user_limit", folded(group.user_limit)),
    ):
        for dimension, amount in amounts.items():
            if amount > limit.get(dimension, amount):
                why = f"the group's own limit is {said(dimension, limit[dimension])}"
                return _too_much(field, dimension, amount, why)
    return None


def _above_problem(state: State, group: Group) -> Problem | None:
    """A guarantee that the groups above cannot keep."""
    if group.path == ROOT:
        return None
    for path in ancestors(group.path)[1:]:
        above = state.kept.groups[path]
        for dimension, amount in group.guaranteed.items():
            most = above.limit.get(dimension)
            if most is not None and amount > most:
                return _too_much(
                    "guaranteed", dimension, amount, f"the limit of {named(path)} is {said(dimension, most)}"
                )
    parent = state.kept.groups[group.path.rpartition("/")[0]]
    family = [one for one in _children_of(state, parent.path) if one.path != group.path]
    return _promised_problem(parent, [*family, group])


def _children_problem(state: State, group: Group) -> Problem | None:
    """What the group's children were promised is more than it now has."""
    return _promised_problem(group, _children_of(state, group.path))


def _promised_problem(parent: Group, children: Iterable[Group]) -> Problem | None:
    """Children are together guaranteed more than their parent is, or may have.

    The root needs no guarantee of its own: without one it stands for the whole cluster.
    """
    is_bounded = parent.path != ROOT or bool(parent.guaranteed)
    limit, guaranteed = folded(parent.limit), folded(parent.guaranteed)
    for dimension, amount in sorted(sums(child.guaranteed for child in children).items()):
        if amount > limit.get(dimension, amount):
            why = f"the limit of {named(parent.path)} is {said(dimension, limit[dimension])}"
            return _too_much("guaranteed", dimension, amount, f"all children counted; {why}")
        if is_bounded and amount > (promised := guaranteed.get(dimension, 0)):
            why = f"the guarantee of {named(parent.path)}, which they share, is {said(dimension, promised)}"
            return _too_much("guaranteed", dimension, amount, f"all children counted; {why}")
    return None


# --- pools and policies -------------------------------------------------------------------------------------


def check_pool(state: State, pool: Pool) -> Problem | None:
    """What is wrong with making or changing this pool; None when nothing is."""
    if not _NAME.fullmatch(pool.name):
        return Problem("invalid", f"{pool.name!r} cannot be a pool's name", "name")
    if not 1 <= len(pool.levels) <= LEVELS_MAX:
        return Problem("invalid", f"must be 1 to {LEVELS_MAX} queue levels", "levels")
    for level, band in pool.levels.items():
        if not _NAME.fullmatch(level):
            return Problem("invalid", f"{level!r} cannot be a level's name", "levels")
        problem = range_problem(f"levels.{level}", band, -LEVEL_MAX, LEVEL_MAX)
        if problem is not None:
            return problem
    for level, label in pool.topology.items():
        if level in LEVELS_INSIDE_NODE or not _NAME.fullmatch(level):
            return Problem("invalid", f"{level!r} cannot be a topology level above the node", "topology")
        if not label:
            return Problem("invalid", f"level {level} needs the node label that names its domains", f"topology.{level}")
    for job in sorted(state.waiting.get(pool.name, {})):
        level = state.kept.jobs[job].spec.level
        if level not in pool.levels:
            return Problem("conflict", f"job {job} waits in level {level}; it must stay until no job does", "levels")
    return _cells_problem(state, pool)


def _cells_problem(state: State, pool: Pool) -> Problem | None:
    """Why the pool's guarantees of shape cannot be kept."""
    if not pool.cells and not pool.pinned:
        return None
    known = state.kept.pools.get(pool.name)
    if known is None or known.policy.placement != CELLS:
        return Problem("conflict", f"only the placement {CELLS!r} keeps cells; set the pool's policy first", "cells")
    if known.policy.schedulers > 1:
        return Problem("conflict", "several schedulers cannot keep cells; set the policy's `schedulers` to 1", "cells")
    for group in sorted(pool.cells):
        if group not in state.kept.groups:
            return Problem("not_found", f"there is no group {group!r}", f"cells.{group}")
    for name, pin in sorted(pool.pinned.items()):
        if not _NAME.fullmatch(name):
            return Problem("invalid", f"{name!r} cannot be the name of a cell", "pinned")
        if pin.group not in state.kept.groups:
            return Problem("not_found", f"there is no group {pin.group!r}", f"pinned.{name}.group")
    layout = Layout(state.nodes_of(pool.name))
    for node in layout.nodes:
        layout.put(node)
    fault = promise_fault(layout, pool)
    if fault is not None:
        return Problem("invalid", fault, "cells" if pool.cells else "pinned")
    return settings_cells.of_pool(state, pool)


def check_policy(state: State, policy: Policy, pool: str = "") -> Problem | None:
    """The first thing that is wrong with a policy, for this pool if it is named; None when nothing is."""
    return next(iter(check_all_of_policy(state, policy, pool)), None)


def check_all_of_policy(state: State, policy: Policy, pool: str = "") -> list[Problem]:
    """Everything that is wrong with a policy, for this pool if it is named."""
    known = state.kept.pools.get(pool)
    found: list[Problem] = []
    if known is not None and (known.pool.cells or known.pool.pinned) and policy.placement != CELLS:
        owed = ", ".join(sorted({*known.pool.cells, *(pin.group for pin in known.pool.pinned.values())}))
        found.append(Problem("conflict", f"the pool owes cells to {owed}, which only {CELLS!r} keeps", "placement"))
    return [*found, *policy_problems(policy, known.pool if known is not None else None)]


# --- rights -------------------------------------------------------------------------------------------------


def changed_fields(known: Group, wanted: Group) -> set[str]:
    """Names of what a change would change, the version apart."""
    names = {field.name for field in struct_fields(Group)} - {"version", "path"}
    return {name for name in names if getattr(known, name) != getattr(wanted, name)}


# --- inside -------------------------------------------------------------------------------------------------


def _too_much(field: str, dimension: str, amount: int, why: str) -> Problem:
    return Problem("invalid", f"comes to {said(dimension, amount)}; {why}", f"{field}.{dimension}")


def _children_of(state: State, path: str) -> list[Group]:
    return [
        group for name, group in sorted(state.kept.groups.items()) if name != ROOT and name.rpartition("/")[0] == path
    ]
