"""How big a waiting job starts and where: the largest allowed size for which there is both quota and room."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.cluster import Pool, model_of
from gangline_core.foresight.affinity import Tiers
from gangline_core.ids import JobId
from gangline_core.job import Job
from gangline_core.limits.budgets import cost_alike
from gangline_core.limits.model_limits import broken_models, may_mix, with_less, without_used
from gangline_core.limits.quota import JOBS, Ledger, job_amounts, minimum_sizes
from gangline_core.placement import Placer
from gangline_core.placement.fit import whole_free
from gangline_core.placement.gang import Gang, Need, Seats, gang_of
from gangline_core.placement.models import Kinds, acceptable
from gangline_core.reasons import Reason
from gangline_core.reserving.closures import Closures
from gangline_core.room.capacity import Layout, Room
from gangline_core.room.holds import placed_amounts
from gangline_core.spec import JobSpec, Role
from gangline_core.state import State

NARROWED = -(1 << 40)
"""Asks of jobs that are looked at as if they asked for one model alone are numbered from here downwards."""
ASKED_MAX = 4_096
"""Asks that are kept from round to round."""
MODELS_TRIED_MAX = 8
"""Models that are given up one after the other because their limits are used up."""


class Found(Struct, frozen=True):
    """Seats for a job, its sizes, and what it counts against quotas there."""

    sizes: dict[str, int]
    seats: Seats
    amounts: dict[str, int]


def whole_room(room: Room, gang: Gang) -> Room:
    """All of it."""
    return room


def no_doubt(room: Room, gang: Gang) -> Reason | None:
    """Whoever has room is placed."""
    return None


class Seating(Struct):
    """What seating looks at; the room and the ledger are left as they were."""

    state: State
    pool: Pool
    placer: Placer
    ledger: Ledger
    closures: Closures
    asks: dict[tuple[object, ...], "Ask"] = {}
    """What equal jobs of equal sizes ask for, worked out once; numbers are given once, so it holds in later rounds."""
    wanted: dict[tuple[object, ...], "Wanted"] = {}
    """The same at the sizes that users want at start, with those."""
    alone: dict[tuple[object, ...], "Ask"] = {}
    """The same of jobs whose numbers (below 0) mean something in this round only."""
    counted: dict[tuple[object, ...], dict[str, int]] = {}
    """What single tasks count against quotas, worked out once for equal ones."""
    smallest: dict[JobId, tuple[JobSpec, "Ask"]] = {}
    """What jobs ask for at their smallest."""
    narrowed: tuple[JobId, int] | None = None
    """A job that is looked at as if it asked for one model alone, and the number of that ask."""
    numbers: dict[tuple[JobId, str], int] = {}
    view: Callable[[Room, Gang], Room] = whole_room
    """What of a room a gang may use at all."""
    doubt: Callable[[Room, Gang], Reason | None] = no_doubt
    """Why the placer leaves a gang waiting that has room."""

    def ask(self, job: Job, sizes: Mapping[str, int]) -> "Ask":
        """What the job asks for at these sizes."""
        closed = self.closures.nodes(job.spec)
        number = self.number(job)
        asks = self.asks if number > 0 else self.alone
        liked = self.liked(job)
        key = (number, closed, liked, *sizes.values())
        found = asks.get(key)
        if found is None:
            gang = gang_of(job.spec, sizes, self.pool)
            if liked:
                gang = replace(
                    gang, needs=tuple(need if need.models else replace(need, liked=liked) for need in gang.needs)
                )
            if closed:
                gang = replace(gang, excluded=(*gang.excluded, *closed))
            found = asks[key] = Ask(gang=gang, amounts=job_amounts(job.spec, sizes))
        return found

    def at_start(self, job: Job) -> "Wanted":
        """The sizes that the user wants at start and what the job asks for then; only read them."""
        number = self.number(job)
        key = (number, self.closures.nodes(job.spec), self.liked(job))
        found = self.wanted.get(key) if number > 0 else None
        if found is None:
            sizes = wanted_sizes(job.spec)
            found = Wanted(sizes, self.ask(job, sizes), sizes == minimum_sizes(job.spec))
            if number > 0:
                self.wanted[key] = found
            if found.is_least:
                self.smallest[job.id] = (job.spec, found.ask)
        return found

    def amounts(self, ask: "Ask", seats: Seats) -> dict[str, int]:
        """What a job counts against quotas on these seats; only read it."""
        if len(seats.tasks) != 1:
            return {**placed_amounts(self.state, seats.tasks), JOBS: 1}
        place = seats.tasks[0]
        model = model_of(self.state.kept.nodes[place.node], place.gpus[0].index) if place.gpus else ""
        held = [(share.milli, share.memory_mib) for share in place.gpus]
        key = (id(ask), model, *held)
        found = self.counted.get(key)
        if found is None:
            found = self.counted[key] = {**placed_amounts(self.state, seats.tasks), JOBS: 1}
        return found

    def number(self, job: Job) -> int:
        """Equal for jobs that fare the same in the same room; where groups are owed cells, whose job it is counts."""
        if self.narrowed is not None and self.narrowed[0] == job.id:
            return self.narrowed[1]
        numbers = self.state.shapes if self.pool.cells or self.pool.pinned else self.state.asks
        return numbers.get(job.id, -job.id)

    def liked(self, job: Job) -> Tiers:
        """On which GPU models jobs like this one were faster, so that it is tried there first.

        None where the pool's models cost differently, as that choice is its user's.
        """
        kept, pool = self.state.kept, self.pool.name
        if not (kept.affinities.tiers or job.spec.attributes) or not kept.pools[pool].policy.model_affinity:
            return ()
        if not cost_alike(kept.prices, self.state.room(pool).layout.by_number):
            return ()
        return kept.affinities.of(job.spec)

    @contextmanager
    def only(self, job: Job, model: str) -> Iterator[None]:
        """Meanwhile the job asks for this model alone, which is another ask than its own."""
        number = self.numbers.setdefault((job.id, model), NARROWED - len(self.numbers))
        self.narrowed = (job.id, number)
        try:
            yield
        finally:
            self.narrowed = None

    def least(self, job: Job) -> "Ask":
        """What the job asks for at its smallest."""
        known = self.smallest.get(job.id)
        if known is None or known[0] is not job.spec:
            known = self.smallest[job.id] = (job.spec, self.ask(job, minimum_sizes(job.spec)))
        return known[1]


class Asked(Struct, frozen=True):
    """What jobs of one pool ask for, kept from round to round while the pool and its nodes are the same."""

    pool: Pool
    asks: dict[tuple[object, ...], "Ask"] = {}
    wanted: dict[tuple[object, ...], "Wanted"] = {}

    @classmethod
    def of(cls, layout: Layout, pool: Pool) -> "Asked":
        """What is known of this pool on these nodes."""
        found = layout.remember(("asked",), lambda: cls(pool))
        if found.pool is not pool or len(found.asks) > ASKED_MAX:
            found = layout.remembered["asked",] = cls(pool)
        return found


class Ask(Struct, frozen=True):
    """A gang, and what it counts against quotas as far as known before it is placed."""

    gang: Gang
    amounts: dict[str, int]


class Wanted(NamedTuple):
    """What a job asks for at the sizes that its user wants at start."""

    sizes: dict[str, int]
    ask: Ask
    is_least: bool
    """No smaller size is allowed."""


class Seated(NamedTuple):
    """A gang on seats that break a limit."""

    sizes: Mapping[str, int]
    ask: Ask
    gang: Gang
    seats: Seats


def wanted_sizes(spec: JobSpec) -> dict[str, int]:
    """The sizes the user wants at start."""
    return {role.name: role.count for role in spec.roles}


def find_seats(seating: Seating, job: Job, room: Room) -> Found | Reason | None:
    """Seats for a job at the largest allowed size that works; else the limit that refuses it, or None for no room."""

    sizes, ask, is_least = seating.at_start(job)
    best = _seat(seating, job, room, sizes, ask)
    if is_least or isinstance(best, Found):
        return best

    def attempt(smaller: Mapping[str, int]) -> Found | Reason | None:
        return _seat(seating, job, room, smaller, seating.ask(job, smaller))

    return _smaller(job.spec, attempt)


def _smaller(spec: JobSpec, attempt: Callable[[Mapping[str, int]], Found | Reason | None]) -> Found | Reason | None:
    """The largest allowed sizes above the smallest that work, role by role."""
    sizes = minimum_sizes(spec)
    best = attempt(sizes)
    if not isinstance(best, Found):
        return best
    for role in spec.roles:
        options = [size for size in allowed_sizes(role) if sizes[role.name] < size <= role.count]
        low, high = 0, len(options)
        while low < high:
            middle = (low + high + 1) // 2
            trial = attempt({**sizes, role.name: options[middle - 1]})
            if isinstance(trial, Found):
                best, low = trial, middle
            else:
                high = middle - 1
        if low:
            sizes = {**sizes, role.name: options[low - 1]}
    return best


def allowed_sizes(role: Role) -> list[int]:
    """Every size the role may have, ascending."""
    if role.sizes:
        return sorted(size for size in role.sizes if role.allows(size))
    return list(range(role.min_count, role.max_count + 1))


def seat(seating: Seating, job: Job, room: Room, sizes: Mapping[str, int]) -> Found | Reason | None:
    """Seats for a job of exactly these sizes; the limit that refuses it, or None for no room."""
    return _seat(seating, job, room, sizes, seating.ask(job, sizes))


def _seat(seating: Seating, job: Job, room: Room, sizes: Mapping[str, int], ask: Ask) -> Found | Reason | None:
    reason = seating.ledger.fault(job, ask.amounts)
    if reason is not None:
        return reason
    gang = ask.gang
    for _ in range(MODELS_TRIED_MAX):
        seats = seating.placer(room, gang)
        if seats is None:
            return reason
        amounts = seating.amounts(ask, seats)
        # Mostly it takes what it asked for, of which the limits had room above.
        reason = seating.ledger.fault(job, amounts) if amounts != ask.amounts else None
        if reason is None:
            return Found(sizes=dict(sizes), seats=seats, amounts=amounts)
        if (mixed := _below_limits(seating, job, room, Seated(sizes, ask, gang, seats))) is not None:
            return mixed
        narrower = without_used(seating.state, room, gang, seats)
        if narrower is None:
            return reason
        gang = narrower
    return reason


def _below_limits(seating: Seating, job: Job, room: Room, seated: Seated) -> Found | None:
    """Seats for a gang that broke limits of GPU models, with no more of these models than the limits allow."""
    for largest_first in (True, False):
        seats, own = seated.seats, room
        for _ in range(MODELS_TRIED_MAX):
            allowed = broken_models(seating.ledger, job, seating.amounts(seated.ask, seats))
            if not may_mix(seated.gang, allowed):
                break
            own = with_less(seating.state, own, seats, allowed, largest_first=largest_first)
            again = seating.placer(own, seated.gang)
            if again is None:
                break
            seats, amounts = again, seating.amounts(seated.ask, again)
            if seating.ledger.fault(job, amounts) is None:
                return Found(sizes=dict(seated.sizes), seats=seats, amounts=amounts)
    return None


def unless_hopeless(placer: Placer) -> Placer:
    """The placer, which is not even asked where a cheap look at the sums says that there is nothing to find."""

    asked: dict[int, tuple[Gang, Layout, int, list[tuple[Need, Kinds]]]] = {}

    def place(room: Room, gang: Gang) -> Seats | None:
        layout, known = room.layout, asked.get(id(gang))
        if known is None or known[1] is not layout or known[2] != layout.version:
            known = asked[id(gang)] = (gang, layout, layout.version, _wanted_gpus(room, gang))
        total = room.total
        for need, kinds in known[3]:
            if sum([total[kind] for kind in kinds]) < need.count * need.gpus:
                return None
            # Of several GPUs at once, each task needs its own on one node.
            if need.gpus > 1 and int((whole_free(room, kinds) // need.gpus).sum()) < need.count:
                return None
        return placer(room, gang)

    return place


def _wanted_gpus(room: Room, gang: Gang) -> list[tuple[Need, Kinds]]:
    """The needs that ask for whole GPUs, each with the kinds that it accepts."""
    return [
        (need, room.layout.remember(("any_kind", need.accepts), partial(_any_kind, room, need)))
        for need in gang.needs
        if need.gpus
    ]


def _any_kind(room: Room, need: Need) -> Kinds:
    return tuple(kind for kinds in acceptable(room.layout, need).values() for kind in kinds)
