"""Live jobs of a pool that could go at all, read once in a round: in which order they are asked, and who are alike.

Many waiting jobs ask after the same live ones, so what is equal for whole kinds of them has a number: whose job it is
and how important (`kind`), and what it holds (`size`).
"""

from collections.abc import Iterable, Iterator
from functools import cached_property, partial
from operator import attrgetter

from msgspec import Struct

from gangline_core.foresight.forecast import held_by
from gangline_core.groups import holders, user_of
from gangline_core.ids import JobId
from gangline_core.job import Job, JobState
from gangline_core.limits.amounts import amount_of
from gangline_core.limits.quota import JOBS, Ledger
from gangline_core.making_room.branches import Branches, way_to
from gangline_core.making_room.losses import (
    LiveJob,
    effective_priority,
    is_left_to_work,
    is_sealed,
    is_shielded,
    live_job,
)
from gangline_core.pauses.packing import guests_of
from gangline_core.spec import ServiceClass
from gangline_core.table import Table

LAST_MS = 1 << 62
"""More important than this nobody is."""
JUST_LIVE = {JOBS}
"""What a job counts that holds nothing."""
Cost = tuple[int, int, int, int, int]


class Standing(Struct):
    """A live job, and what it holds as soon as somebody asked."""

    job: Job
    is_firm: bool
    """It is not opportunistic."""
    priority: int
    kind: int
    """Equal for jobs of one user that are equally important."""
    victim: LiveJob | None = None
    size: int = -1
    """Equal for jobs that hold the same amounts."""
    cost: Cost = (0, 0, 0, 0, 0)
    place: tuple[bool, int, int] = (True, 0, 0)
    """What sorts them into the order in which they are asked."""
    is_bare: bool = False
    """It stands on no GPU and in no cell."""


Members = dict[bool, tuple[list[Standing], dict[str, int]]]
"""Those of one group that hold something, by whether they are opportunistic, and the least that each of them holds."""


class WhoLives:
    """Who lives, as far as somebody asked: the same for all tables of one pool and moment on which nobody is packed."""

    def __init__(self) -> None:
        """Nobody asked yet."""
        self.kinds: dict[tuple[object, ...], int] = {}
        self.sizes: dict[tuple[tuple[str, int], ...], int] = {}
        self.by_job: dict[JobId, Standing] = {}
        self.standing: dict[str, list[Standing]] = {}
        """By group."""
        self.holding: dict[str, list[Standing]] = {}
        """Those of them that hold something."""
        self.members: dict[str, Members] = {}


class CouldGo:
    """Everybody who could go, least important first and newest first."""

    def __init__(self, table: Table, lives: WhoLives | None = None) -> None:
        """Live jobs of the table's pool; `lives` was read for other tables of the same moment already."""
        self._table = table
        self._pool = table.pool.pool.name
        lives = WhoLives() if lives is None or table.packings else lives
        self._kinds, self._sizes, self._by_job = lives.kinds, lives.sizes, lives.by_job
        self._standing, self._holding, self._members = lives.standing, lives.holding, lives.members
        self._order: list[Standing] | None = None
        self._freed: dict[tuple[str, str, int], dict[str, int]] = {}
        self._by_priority: dict[str, dict[str, dict[int, int]]] = {}
        """By group, dimension and priority what those who are that important could give back."""
        self._branches: Branches | None = None
        self.gone: set[JobId] = set()
        """Jobs that go in this round."""
        self.asking: list[Job] | None = None
        """Of each shape in view one job that waits, once somebody asked."""
        self.sparing = False
        """Meanwhile those who are left to work are not asked."""

    @cached_property
    def anybody_is_left_to_work(self) -> bool:
        """True when some run is left to work, since its job was kept from it for long."""
        state = self._table.state
        jobs = map(state.kept.jobs.__getitem__, state.live_index.shielded.get(self._pool, {}))
        return any(is_shielded(job, self._table.now) for job in jobs)

    @property
    def order(self) -> list[Standing]:
        """All of them."""
        if self._order is None:
            live = self._table.state.live_index.groups.get(self._pool, {})
            self._order = sorted((one for group in live for one in self._of(group)), key=_place)
        return self._asked(self._order)

    def _asked(self, found: list[Standing]) -> list[Standing]:
        """Without those who are left to work, while they are spared."""
        return [one for one in found if one.priority < LAST_MS] if self.sparing else found

    def in_turn(self, under: Iterable[str] | None) -> list[Standing]:
        """Everybody, or those below any of these holders, in the same order."""
        if under is None:
            return self.order
        return self._asked(sorted((one for group in self._groups(under) for one in self._of(group)), key=_place))

    def these(self, names: Iterable[JobId]) -> list[Standing]:
        """Those of these live jobs who could go, in the same order."""
        return self._asked(sorted(self._listed(names), key=_place))

    def live_job(self, job: Job) -> LiveJob:
        """What any live job holds, and what it is worth."""
        one = self._by_job.get(job.id)
        if one is None:
            one = self._by_job[job.id] = Standing(job=job, is_firm=True, priority=0, kind=-1)
        return self.victim(one)

    def victim(self, one: Standing) -> LiveJob:
        """The same of somebody who could go."""
        known = one.victim
        if known is None:
            known = one.victim = live_job(self._table, one.job)
            one.cost = known.cost
            one.is_bare = held_by(self._table.state, one.job).is_bare
            one.size = self._sizes.setdefault(tuple(known.amounts.items()), len(self._sizes))
        return known

    def go(self, job: JobId) -> None:
        """This job goes, so that nobody else can have it go."""
        one = self._by_job.get(job)
        if job in self.gone:
            return
        self.gone.add(job)
        if one is None or one.kind < 0:
            return
        if self._branches is not None:
            self._branches.forget(one.job.spec.group)
        for dimension, sums in self._by_priority.get(one.job.spec.group, {}).items():
            sums[_rank(one)] = sums.get(_rank(one), 0) - amount_of(self._amounts(one), dimension)
        above = holders(one.job.spec.group, one.job.spec.user)
        for (holder, dimension, below), freed in self._freed.items():
            if holder in above and (not one.is_firm or one.priority < below):
                freed[one.job.spec.group] -= amount_of(self._amounts(one), dimension)

    def most_freed(self, holder: str, dimension: str, below: int) -> dict[str, int]:
        """By group, what all less important than `below` could give back of a dimension that a holder counts."""
        freed = self._freed.get((holder, dimension, below))
        if freed is None:
            freed = self._freed[holder, dimension, below] = {}
            user = user_of(holder)[1]
            for group in self._groups((holder,)):
                sums = self._sums(group, dimension, user) if user else self._known_sums(group, dimension)
                freed[group] = sum(amount for priority, amount in sums.items() if priority < below)
        return freed

    def _known_sums(self, group: str, dimension: str) -> dict[int, int]:
        known = self._by_priority.setdefault(group, {})
        sums = known.get(dimension)
        if sums is None:
            sums = known[dimension] = self._sums(group, dimension)
        return sums

    def _sums(self, group: str, dimension: str, user: str = "") -> dict[int, int]:
        """By priority what those of a group, or of one user in it, could give back of a dimension."""
        sums: dict[int, int] = {}
        for one in self._of(group) if dimension == JOBS else self._who_hold(group):
            if one.job.id not in self.gone and (not user or one.job.spec.user == user):
                rank = _rank(one)
                sums[rank] = sums.get(rank, 0) + amount_of(self._amounts(one), dimension)
        return sums

    def may_give(
        self, ledger: Ledger, beneficiary: str, under: Iterable[str] | None = None, *, whole: bool
    ) -> list[Standing]:
        """Those who hold something, but not firm ones of groups that may lose less for this one than each holds.

        With `under` only those of groups below these holders.
        """
        way, branches = way_to(beneficiary, under), self._followed(ledger)
        own = (members for group in way or (beneficiary,) for members, _ in self._members_of(group).values())
        found = [one for members in own for one in members]
        for givers in branches.listed(way, whole, partial(self._givers, ledger, whole=whole)):
            found += givers
        found.sort(key=_place)
        return self._asked(found)

    def _givers(self, ledger: Ledger, meeting: str, groups: Iterable[str], *, whole: bool) -> list[Standing]:
        """The same of groups in one branch, for whoever meets them above it."""
        found: list[Standing] = []
        for group in groups:
            for is_loose, (members, least) in self._members_of(group).items():
                own = () if is_loose else ledger.beyond(group, whole=whole)
                if any(0 < least.get(name, 0) > spare for name, spare in own):
                    continue
                if ledger.over_guarantee(members[0].job, least, beneficiary=meeting, whole=whole):
                    found.extend(members)
        return found

    def most_given(self, ledger: Ledger, beneficiary: str, freed: tuple[str, str, int], *, whole: bool) -> int:
        """The sum of `most_freed` (of `freed`), where no group gives more than the beneficiary may take of it."""
        holder, dimension, below = freed
        amounts = self.most_freed(*freed)
        way, branches = way_to(beneficiary, (holder,)), self._followed(ledger)
        if not way:
            return sum(amounts.values())
        most = sum(amounts.get(group, 0) for group in way)
        give = partial(_given, ledger, dimension, amounts, whole=whole)
        return most + branches.total(way, (holder, dimension, below, whole), give)

    def _followed(self, ledger: Ledger) -> Branches:
        """What is remembered branch by branch."""
        if self._branches is None:
            self._branches = Branches(ledger, self._groups(None))
        return self._branches

    def _groups(self, under: Iterable[str] | None) -> Iterable[str]:
        """The groups in which jobs live, below these holders where that is said."""
        live = self._table.state.live_index
        if under is None:
            return live.groups.get(self._pool, {})
        return dict.fromkeys(group for holder in under for group in live.groups_below(self._pool, holder))

    def _members_of(self, group: str) -> Members:
        """Who of a group holds something, apart whether opportunistic, and the least that each holds of what all do."""
        found = self._members.get(group)
        if found is not None:
            return found
        found = self._members[group] = {}
        for one in self._who_hold(group):
            held = held_by(self._table.state, one.job)
            amounts = held.used
            if held.is_bare and amounts.keys() == JUST_LIVE:
                continue
            is_loose = one.job.service_class == ServiceClass.OPPORTUNISTIC
            known = found.get(is_loose)
            if known is None:
                found[is_loose] = ([one], {name: amount for name, amount in amounts.items() if name != JOBS})
                continue
            known[0].append(one)
            for name, lowest in list(known[1].items()):
                amount = amounts.get(name, 0)
                if not amount:
                    del known[1][name]
                elif amount < lowest:
                    known[1][name] = amount
        return found

    def _amounts(self, one: Standing) -> dict[str, int]:
        return held_by(self._table.state, one.job).used

    def _of(self, group: str) -> list[Standing]:
        """Those of a group."""
        found = self._standing.get(group)
        if found is None:
            names = self._table.state.live_index.groups.get(self._pool, {}).get(group, {})
            found = self._standing[group] = list(self._listed(names))
        return found

    def _who_hold(self, group: str) -> list[Standing]:
        """Those of a group that hold something: few where many stand still."""
        found = self._holding.get(group)
        if found is None:
            names = self._table.state.live_index.who_hold(self._pool, group)
            found = self._holding[group] = list(self._listed(names))
        return found

    def _listed(self, names: Iterable[JobId]) -> Iterator[Standing]:
        table, pool = self._table, self._table.pool.pool
        packs, packed = table.state.kept.packs, {name for pair in table.packings for name in pair}
        for job_id in names:
            known = self._by_job.get(job_id)
            if known is not None and known.kind >= 0:
                yield known
                continue
            job = table.state.kept.jobs[job_id]
            if not job.spec.preemptible or job.state == JobState.STOPPING or is_sealed(job, table.now):
                continue
            guests = guests_of(table.state, job_id) if packs else ()
            stays = any(not guest.spec.preemptible or is_sealed(guest, table.now) for guest in guests)
            if job_id in packs or job_id in packed or stays:
                continue  # What one of a pack leaves is the others': all go, or none.
            is_firm = job.service_class != ServiceClass.OPPORTUNISTIC
            # Whoever is left to work is outranked by nobody; what he was lent goes back all the same.
            is_left = bool(job.shield_ms or guests) and is_left_to_work(table, job)
            priority = LAST_MS if is_left else effective_priority(pool, job.spec)
            for guest in guests:
                priority = max(priority, effective_priority(pool, guest.spec))
            place = (is_firm, priority, -job.id)
            one = self._by_job[job_id] = Standing(job, is_firm, priority, self._kind(job, priority), place=place)
            yield one

    def _kind(self, job: Job, priority: int) -> int:
        spec = job.spec
        key = (spec.group, spec.user, priority, spec.service_class, job.service_class)
        return self._kinds.setdefault(key, len(self._kinds))


def _given(
    ledger: Ledger, dimension: str, freed: dict[str, int], meeting: str, groups: Iterable[str], *, whole: bool
) -> int:
    """What these groups would give of what they could free."""
    return sum(
        min(freed[group], ledger.spare(group, dimension, beneficiary=meeting, whole=whole))
        for group in groups
        if group in freed
    )


def _rank(one: Standing) -> int:
    """Its priority; who is opportunistic is less important than anybody."""
    return one.priority if one.is_firm else -LAST_MS


_place = attrgetter("place")
