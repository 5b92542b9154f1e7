"""Which few running jobs would have to move so that a waiting one could start, and what that would cost: a proposal.

A move is a job, or some of its tasks (see `movers`), that goes on elsewhere in room that is free. Nothing is moved by
this: the plan is shown to whoever asks why the job waits. Fewest moves come first, then the least work lost if no
checkpoint is made. Where few jobs could move every set of them is tried, else those that free room for a task on a
node, fewest and cheapest first.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, islice, product

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.cluster import LEVELS_INSIDE_NODE
from gangline_core.facts import TaskPlacement
from gangline_core.foresight.forecast import used_by
from gangline_core.ids import JobId, NodeId
from gangline_core.job import Job, JobState
from gangline_core.limits.quota import JOBS
from gangline_core.making_room.movers import Mover, movers
from gangline_core.placement.gang import Gang, Need, Where
from gangline_core.room.capacity import Room
from gangline_core.room.holds import placed_amounts
from gangline_core.spec import GPU_MILLI
from gangline_core.state import State
from gangline_core.table import Table

MOVES_MAX = 4
"""Most jobs that a plan moves."""
FEW_MAX = 8
"""Of so many jobs that could move every set is tried."""
MOVED_TOGETHER_MAX = 3
"""Most jobs that leave one node, where there are more."""
MOVABLE_MAX = 12
"""Jobs of one node that are thought of then, cheapest first."""
PLANS_TRIED_MAX = 400
"""Sets of jobs that are tried."""
SETS_LISTED_MAX = 20_000
"""Sets of jobs that are listed, to try the cheapest."""
SEATINGS_MAX = 2_000
"""How often gangs are seated for one plan."""
DETOURS_MAX = 40
"""How often they are for one set of jobs, nodes being closed where a later gang finds no place."""
DOMAINS_MAX = 64
"""How often they are, all at once, those that must stay in a domain inside one and another."""

Chosen = tuple[Mover, ...]


class Moved(Struct, frozen=True):
    """One job that would go on elsewhere."""

    job: JobId
    from_nodes: tuple[NodeId, ...]
    to_nodes: tuple[NodeId, ...]
    lost_gpu_ms: int
    """GPU time since its start, which is lost unless it checkpoints."""
    tasks: int = 0
    """Tasks that move."""
    of_tasks: int = 0
    """Tasks that the job has."""


class MovePlan(Struct, frozen=True):
    """Moves after which the job would fit, and where it would go."""

    moves: tuple[Moved, ...]
    nodes: tuple[NodeId, ...]

    @property
    def lost_gpu_ms(self) -> int:
        """GPU time lost if nobody checkpoints."""
        return sum(move.lost_gpu_ms for move in self.moves)


def plan_moves(state: State, job: Job, now: int) -> MovePlan | None:
    """The fewest moves that would let a waiting job start at its smallest; None when none do, or none are needed."""
    if job.state != JobState.WAITING:
        return None
    table = Table(state, job.spec.pool, now)
    gang = table.seating.least(job).gang
    if _milli_wanted(gang) > int(table.room.milli.clip(0).sum()):
        return None
    if table.seating.placer(table.room, gang) is not None:
        return None
    able = movers(table, job)
    sets = _all_sets(able) if len(able) <= FEW_MAX else _sets_by_node(table.room, gang, able)
    planner = _Planner(table, job, gang)
    for chosen in islice(sets, PLANS_TRIED_MAX):
        plan = planner.plan(chosen)
        if plan is not None or planner.is_spent:
            return plan
    return None


def _milli_wanted(gang: Gang) -> int:
    return sum(need.count * (need.gpus * GPU_MILLI or need.milli) for need in gang.needs)


# --- which sets -------------------------------------------------------------------------------------------------


def _all_sets(able: dict[int, list[Mover]]) -> Iterator[Chosen]:
    """Every set of jobs that could move, in all of their parts, fewest and cheapest first."""
    for size in range(1, min(MOVES_MAX, len(able)) + 1):
        sets = (some for jobs in combinations(able.values(), size) for some in product(*jobs))
        yield from sorted(islice(sets, SETS_LISTED_MAX), key=_cost)


def _cost(chosen: Chosen) -> tuple[int, int, int, list[int], list[str]]:
    """Fewest jobs, then least work lost, then fewest tasks; equal sets in the order of jobs and tasks."""
    tasks = sum(len(mover.tasks) for mover in chosen)
    names = [str(task.id) for mover in chosen for task in mover.tasks]
    return len(chosen), sum(mover.lost for mover in chosen), tasks, [mover.job.id for mover in chosen], names


def _sets_by_node(room: Room, gang: Gang, able: dict[int, list[Mover]]) -> Iterator[Chosen]:
    """Sets of jobs whose leaving frees what a task needs on a node; of several nodes where the gang has many tasks."""
    singles: list[Chosen] = []
    mask = gang.mask(room.layout)
    for node, own in sorted(_by_node(able).items()):
        row = room.layout.row.get(node)
        if row is not None and mask[row]:
            singles.extend(_sets_on(room, gang, row, sorted(own, key=lambda mover: (mover.lost, mover.job.id))))
    singles.sort(key=_cost)
    yield from singles[:PLANS_TRIED_MAX]
    if gang.tasks < 2:
        return
    together: dict[JobId, Mover] = {}
    nodes: set[NodeId] = set()
    for some in singles:
        here = {task.node for mover in some for task in mover.tasks}
        if nodes.isdisjoint(here) and len(together) + len(some) <= MOVES_MAX:
            nodes |= here
            together |= {mover.job.id: mover for mover in some}
            yield tuple(together.values())


def _by_node(able: dict[int, list[Mover]]) -> dict[NodeId, list[Mover]]:
    """Per node who could leave it, each job in the smallest part that frees all that it has there."""
    found: dict[NodeId, list[Mover]] = {}
    for parts in able.values():
        for node in {task.node: None for task in parts[0].tasks}:
            here = {task.id for task in parts[0].tasks if task.node == node}
            whole = [mover for mover in parts if here <= {task.id for task in mover.tasks}]
            found.setdefault(node, []).append(min(whole, key=lambda mover: len(mover.tasks)))
    return found


def _sets_on(room: Room, gang: Gang, row: int, own: list[Mover]) -> Iterator[Chosen]:
    """Sets of those who could leave one node after which it holds one task of some role that it does not hold now."""
    del own[MOVABLE_MAX:]
    before = room.milli[row].tolist()
    freed = [_freed_cards(mover, room.nodes[row].id, len(before)) for mover in own]
    for size in range(1, MOVED_TOGETHER_MAX + 1):
        for some in combinations(range(len(own)), size):
            after = [sum(milli) for milli in zip(before, *(freed[k] for k in some), strict=True)]
            if any(_opens(need, before, after) for need in gang.needs):
                yield tuple(own[k] for k in some)


def _freed_cards(mover: Mover, node: NodeId, cards: int) -> list[int]:
    """GPU thousandths that leaving frees on each card of a node."""
    freed = [0] * cards
    for task in mover.tasks:
        for share in task.gpus if task.node == node else ():
            freed[share.index] += share.milli
    return freed


def _opens(need: Need, before: list[int], after: list[int]) -> bool:
    """True when one more task could fit the cards, as far as their thousandths tell."""
    if need.gpus:
        return after.count(GPU_MILLI) // need.gpus > before.count(GPU_MILLI) // need.gpus
    return not need.is_share or max(after, default=0) >= max(need.milli, 1)


# --- whether a set will do ---------------------------------------------------------------------------------------


class _Planner:
    """Tries sets of movers for one waiting job."""

    def __init__(self, table: Table, job: Job, gang: Gang) -> None:
        """The job at its smallest is this gang."""
        self._table, self._job, self._gang = table, job, gang
        self._place = table.seating.placer
        self._seatings = 0

    @property
    def is_spent(self) -> bool:
        """True when enough has been tried."""
        return self._seatings >= SEATINGS_MAX

    def plan(self, chosen: Chosen) -> MovePlan | None:
        """The plan in which these leave, the gang takes its seats, and each of them finds another place."""
        room = self._table.room.copy()
        for mover in chosen:
            for task in mover.tasks:
                room.give(task)
        if self._seat(room, self._gang) is None:
            return None
        ordered = sorted(chosen, key=lambda mover: (-_milli_wanted(mover.gang), mover.job.id))
        gangs = [self._gang, *(mover.gang for mover in ordered)]
        found = self._seat_all(room, gangs)
        if found is None or not self._within_limits(ordered, found):
            return None
        moves = tuple(_moved(mover, tasks) for mover, tasks in zip(ordered, found[1:], strict=True))
        return MovePlan(moves=moves, nodes=tuple(dict.fromkeys(one.node for one in found[0])))

    def _seat(self, room: Room, gang: Gang) -> tuple[TaskPlacement, ...] | None:
        self._seatings += 1
        seats = self._place(room, gang)
        return None if seats is None else seats.tasks

    def _seat_all(self, room: Room, gangs: Sequence[Gang]) -> list[tuple[TaskPlacement, ...]] | None:
        """Seats for all of these gangs: first one after the other as they come, then those that are bound first."""
        limit = self._seatings + DETOURS_MAX
        found = self._one_by_one(room, gangs, limit)
        if found is not None:
            return found
        order = sorted(range(len(gangs)), key=lambda k: _is_free(gangs[k]))
        free = sum(_is_free(gang) for gang in gangs)
        again = self._one_by_one(room, [gangs[k] for k in order], limit + DETOURS_MAX, together=free)
        if again is None:
            return self._domain_by_domain(room, gangs)
        return [tasks for _, tasks in sorted(zip(order, again, strict=True))]

    def _domain_by_domain(self, room: Room, gangs: Sequence[Gang]) -> list[tuple[TaskPlacement, ...]] | None:
        """Seats for all of them at once, each gang that must stay in one domain of a level put into each in turn."""
        if all(map(_is_free, gangs)):
            return None
        ways = [[gang] if _is_free(gang) else list(_inside_each(room, gang)) for gang in gangs]
        for inside in islice(product(*ways), DOMAINS_MAX):
            found = self._together(room, inside)
            if found is not None:
                return found
        return None

    def _one_by_one(
        self, room: Room, gangs: Sequence[Gang], limit: int, *, together: int = 0
    ) -> list[tuple[TaskPlacement, ...]] | None:
        """Seats for all of these gangs in turn; where a later one finds none, the first is kept off nodes that it took.

        The last `together` of them are seated at once.
        """
        if together and len(gangs) == together:
            return self._together(room, gangs)
        if not gangs:
            return []
        open_to = [gangs[0]]
        for gang in open_to:
            if self._seatings >= limit:
                return None
            tasks = self._seat(room, gang)
            if tasks is None:
                continue
            for one in tasks:
                room.take(one)
            rest = self._one_by_one(room, gangs[1:], limit, together=together)
            for one in tasks:
                room.give(one)
            if rest is not None:
                return [tasks, *rest]
            for node in dict.fromkeys(one.node for one in tasks):
                closed = replace(gang, excluded=tuple(sorted({*gang.excluded, node})))
                if closed not in open_to:
                    open_to.append(closed)
        return None

    def _together(self, room: Room, gangs: Sequence[Gang]) -> list[tuple[TaskPlacement, ...]] | None:
        """Seats for all of them as one gang of many roles, where nothing but room decides where their tasks go."""
        if not all(_is_free(gang) and gang.excluded == gangs[0].excluded for gang in gangs):
            return None
        needs: list[Need] = []
        for number, gang in enumerate(gangs):
            own = Where(selector=tuple(sorted(gang.selector.items())), tolerations=gang.tolerations)
            needs += [
                replace(need, role=f"{number}/{need.role}", where=need.where or own, first_index=k * 10_000)
                for k, need in enumerate(gang.needs)
            ]
        one = replace(
            gangs[0], needs=tuple(needs), selector={}, tolerations=(), required="", preferred="", same_model=False
        )
        tasks = self._seat(room, one)
        if tasks is None:
            return None
        return [tuple(t for t in tasks if t.role.startswith(f"{number}/")) for number in range(len(gangs))]

    def _within_limits(self, chosen: Sequence[Mover], found: Sequence[tuple[TaskPlacement, ...]]) -> bool:
        """True when limits let the job start there, and the others be on the models on which they would be."""
        table, state = self._table, self._table.state
        if table.ledger.fault(self._job, {**placed_amounts(state, found[0]), JOBS: 1}) is not None:
            return False
        for mover, tasks in zip(chosen, found[1:], strict=True):
            before, after = used_by(mover.tasks), placed_amounts(state, tasks)
            more = {name: amount - before.get(name, 0) for name, amount in after.items()}
            if table.ledger.fault(mover.job, {name: amount for name, amount in more.items() if amount > 0}) is not None:
                return False
        return True


def _is_free(gang: Gang) -> bool:
    """True when nothing but room decides where each of its tasks goes."""
    if gang.is_shaped or gang.pinned or (gang.same_model and gang.tasks > 1):
        return False
    if not gang.required or (gang.tasks == 1 and gang.required == LEVELS_INSIDE_NODE[-1]):
        return True
    return gang.tasks == 1 and gang.needs[0].gpus <= 1 and gang.required in LEVELS_INSIDE_NODE


def _inside_each(room: Room, gang: Gang) -> Iterator[Gang]:
    """The gang inside each domain of its level, where nothing else binds it."""
    loose = replace(gang, required="", preferred="")
    label = dict(gang.levels).get(gang.required)
    if not _is_free(loose):
        return
    if gang.required == LEVELS_INSIDE_NODE[-1]:
        for node in room.nodes:
            yield _narrowed(loose, only=node.id)
    elif label is not None:
        asked = {dict(need.where.selector if need.where else gang.selector.items()).get(label) for need in gang.needs}
        for name in room.layout.domains(label)[1]:
            if asked <= {None, name}:
                yield _narrowed(loose, label=(label, name))


def _narrowed(gang: Gang, *, only: NodeId | None = None, label: tuple[str, str] | None = None) -> Gang:
    """The gang with all of its roles on one node only, or on nodes that have this label as well."""
    own = Where(selector=tuple(sorted(gang.selector.items())), tolerations=gang.tolerations)
    needs = []
    for need in gang.needs:
        where = need.where or own
        pairs = where.selector if label is None else tuple(sorted({*where.selector, label}))
        needs.append(replace(need, where=replace(where, selector=pairs, only=only or where.only)))
    return replace(gang, needs=tuple(needs))


def _moved(mover: Mover, tasks: tuple[TaskPlacement, ...]) -> Moved:
    return Moved(
        job=mover.job.id,
        from_nodes=tuple(dict.fromkeys(task.node for task in mover.tasks)),
        to_nodes=tuple(dict.fromkeys(one.node for one in tasks)),
        lost_gpu_ms=mover.lost // GPU_MILLI,
        tasks=len(mover.tasks),
        of_tasks=len(mover.job.tasks),
    )
