"""The holders with limits on a job's way from its user up to the root, and which limit of each holds at a moment.

A limit comes from the group's own number, from the season that lasts (`limits.calendar`), and from the borrow
limit (guarantee plus what may be borrowed); the smallest of them counts. Besides, what a group is guaranteed and does
not lend is kept free of everybody else.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from gangline_core.cluster import Node
from gangline_core.groups import ROOT, BudgetMode, Group, User, ancestors, user_key
from gangline_core.ids import NodeId
from gangline_core.limits.amounts import amount_of, is_counted, task_amounts
from gangline_core.limits.budgets import BUDGET, GPU_HOUR
from gangline_core.limits.calendar import Season, current
from gangline_core.spec import GPU_MILLI
from gangline_core.state import State

MODEL_PREFIX = "gpu_milli:"
"""How the dimension of one GPU model begins."""
GPU_MEMORY = "gpu_memory_mib"
DEVICE_PREFIX = "device:"
"""How the dimension of a named device begins."""


class Reserve(Struct, frozen=True):
    """What is kept free of others in one dimension below a group."""

    dimension: str
    capacity: int
    unlent: tuple[tuple[str, int], ...]
    """(group, how much of its guarantee it does not lend), those further down first (see `kept_idle`)."""


class Rung(Struct, frozen=True):
    """One holder on a job's way from its user up to the root, and what it may use."""

    holder: str
    """Group path or user_key: the name under which usage is kept."""
    group: str
    user: str
    """Empty for a group."""
    limit: dict[str, int]
    borrows: frozenset[str] = frozenset()
    """Dimensions whose limit comes from the borrow limit."""
    reserves: tuple[Reserve, ...] = ()
    owners: tuple[str, ...] = ()
    """Groups for which the limit keeps something free."""


def nothing_limits(state: State) -> bool:
    """True where nobody on anybody's way up has a limit, whatever the time."""
    if state.door.lenders or state.kept.users:
        return False
    answer: bool = state.door.remember("nothing limits", lambda: not any(map(_may_limit, state.kept.groups.values())))
    return answer


def _may_limit(group: Group) -> bool:
    return bool(group.limit or group.borrow_limit or group.user_limit or group.seasons or group.budget_gpu_hours)


def user_rung(state: State, *, group: str, user: str, now: int) -> Rung | None:
    """A user's own limits at a moment; None when there are none."""
    holder = user_key(group, user)
    known = state.kept.groups.get(group)
    if holder not in state.kept.users and (known is None or not (known.user_limit or known.seasons)):
        return None
    own = user_limit(known, state.user(holder), now)
    return Rung(holder=holder, group=group, user=user, limit=folded(own)) if own else None


def user_limit(group: Group | None, user: User | None, now: int) -> dict[str, int]:
    """A user's limit: the user's own, and the group's limit for each user where the own one is silent."""
    shared: dict[str, int] = {}
    if group is not None:
        shared = dict(group.user_limit)
        for season in current(group.seasons, now) if group.seasons else ():
            shared |= season.user_limit
    return {**shared, **user.limit} if user is not None else shared


def group_limit(group: Group, now: int) -> tuple[dict[str, int], frozenset[str]]:
    """What a group may use at a moment, and in which dimensions the borrow limit is what bounds it."""
    limit = folded(group.limit)
    for season in current(group.seasons, now) if group.seasons else ():
        limit |= folded(season.limit)
    return _bounded(group, limit)


def _bounded(group: Group, limit: dict[str, int]) -> tuple[dict[str, int], frozenset[str]]:
    if not group.borrow_limit:
        return limit, frozenset()
    promised = folded(group.guaranteed)
    borrows = set()
    for dimension, more in folded(group.borrow_limit).items():
        most = promised.get(dimension, 0) + more
        if most < limit.get(dimension, most + 1):
            limit[dimension] = most
            borrows.add(dimension)
    return limit, frozenset(borrows)


class Capacities:
    """What the whole cluster has, dimension by dimension, added up over all machines when it is first asked for."""

    def __init__(self, state: State) -> None:
        """Of machines as they are now."""
        self._state = state
        self._known: dict[str, int] = {}

    def of(self, dimension: str) -> int:
        """What all machines that take work have, whatever is free of it; of others what is used there."""
        found = self._known.get(dimension)
        if found is None:
            found = self._known[dimension] = sum(
                node_has(node, dimension) if node.takes_work else _used_on(self._state, node.id, dimension)
                for node in self._state.kept.nodes.values()
            )
        return found


def group_rungs(state: State, group: str, now: int, capacities: Capacities) -> tuple[Rung, ...]:
    """The groups with limits from this one up to the root, nearest first."""
    above = [state.kept.groups[path] for path in ancestors(group) if path in state.kept.groups]
    if state.door.lenders or any(known.seasons for known in above):
        return tuple(_group_rungs(state, group, now, capacities))
    # Nothing but the groups' own numbers counts.
    return state.door.remember(("rungs", group), lambda: tuple(_group_rungs(state, group, now, capacities)))


def _group_rungs(state: State, group: str, now: int, capacities: Capacities) -> Iterator[Rung]:
    path = ancestors(group)
    lenders = [state.kept.groups[lender] for lender in sorted(state.door.lenders)] if state.door.lenders else []
    for holder in path:
        known = state.kept.groups.get(holder)
        if known is None:
            continue
        limit, borrows = group_limit(known, now)
        if known.budget_gpu_hours and known.budget_mode == BudgetMode.SAFE:
            limit[BUDGET] = known.budget_gpu_hours * GPU_HOUR
        reserves = tuple(_reserves(capacities, known, path, lenders, limit)) if lenders else ()
        if limit or reserves:
            yield Rung(holder=holder, group=holder, user="", limit=limit, borrows=borrows, reserves=reserves)


def most_limits(state: State, *, group: str, user: str) -> Iterator[tuple[str, dict[str, int]]]:
    """(holder's name, the largest limit that ever holds for it): what breaks one of these never fits."""
    known_user = state.user(user_key(group, user))
    own = state.kept.groups.get(group)
    most_user = _largest(own.user_limit, [s.user_limit for s in own.seasons]) if own is not None else {}
    if known_user is not None:
        most_user = {**most_user, **folded(known_user.limit)}
    if most_user:
        yield f"user {user}", most_user
    for path in ancestors(group):
        known = state.kept.groups.get(path)
        if known is not None and (known.limit or known.borrow_limit):
            most, _ = _bounded(known, _largest(known.limit, [season.limit for season in known.seasons]))
            yield (f"group {path}" if path else "the whole cluster"), most


def _largest(own: Mapping[str, int], others: Iterable[Mapping[str, int]]) -> dict[str, int]:
    most = folded(own)
    for other in others:
        for dimension, amount in folded(other).items():
            if dimension in most:
                most[dimension] = max(most[dimension], amount)
    return most


def _reserves(
    capacities: Capacities, above: Group, path: tuple[str, ...], lenders: Iterable[Group], limit: Mapping[str, int]
) -> Iterator[Reserve]:
    """What groups below this one, other than those on the way, keep to themselves of what there is for all of them."""
    unlent: dict[str, list[tuple[str, int]]] = {}
    for lender in lenders:
        if lender.path in path or above.path not in ancestors(lender.path):
            continue
        promised = folded(lender.guaranteed)
        for dimension, most in folded(lender.lend_limit).items():
            kept = promised.get(dimension, 0) - most
            if kept > 0:
                unlent.setdefault(dimension, []).append((lender.path, kept))
    for dimension, kept_by in sorted(unlent.items()):
        has = [limit[dimension]] if dimension in limit else []
        if above.path == ROOT:
            has.append(capacities.of(dimension))
        if has:
            kept_by.sort(key=lambda one: (-one[0].count("/"), one[0]))
            yield Reserve(dimension=dimension, capacity=min(has), unlent=tuple(kept_by))


def kept_idle(unlent: Iterable[tuple[str, int]], used: Mapping[str, int]) -> int:
    """What these groups keep to themselves and do not use, those further down first.

    Of a group and those below it the more counts: what it keeps itself, or what they keep together.
    """
    idle: dict[str, int] = {}
    for owner, amount in unlent:
        below = sum(idle.pop(path) for path in list(idle) if path.startswith(f"{owner}/"))
        idle[owner] = max(below, amount - used[owner])
    return sum(idle.values())


def _used_on(state: State, node: NodeId, dimension: str) -> int:
    tasks = (state.kept.tasks[name] for name in state.node_tasks.get(node, ()))
    return sum(amount_of(task_amounts(task), dimension) for task in tasks if is_counted(task))


def node_has(node: Node, dimension: str) -> int:
    """What a machine has of a dimension, its sick GPUs left out."""
    gpus = [gpu for gpu in node.gpus if gpu.healthy]
    if dimension.startswith(MODEL_PREFIX):
        return GPU_MILLI * sum(gpu.model.lower() == dimension.removeprefix(MODEL_PREFIX) for gpu in gpus)
    if dimension.startswith(DEVICE_PREFIX):
        name = dimension.removeprefix(DEVICE_PREFIX)
        return sum(count for device, count in node.devices.items() if device.lower() == name)
    return {
        "gpu_milli": GPU_MILLI * len(gpus),
        "gpu_memory_mib": sum(gpu.memory_mib for gpu in gpus),
        "cpu_milli": node.cpu_milli,
        "memory_mib": node.memory_mib,
    }.get(dimension, 0)


def seasons_of(state: State) -> list[Season]:
    """All seasons of all groups."""
    return [season for group in state.kept.groups.values() for season in group.seasons]


def folded(amounts: Mapping[str, int]) -> dict[str, int]:
    """The same amounts with model and device names in lower case."""
    return {dimension.lower(): amount for dimension, amount in amounts.items()}


def lowered(amounts: Mapping[str, int]) -> Mapping[str, int]:
    """The same without a copy where nobody changes it: other names are in lower case anyhow."""
    return folded(amounts) if ":" in "".join(amounts) else amounts
