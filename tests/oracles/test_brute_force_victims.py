"""Brute force on tiny clusters: who has to go for gangs of several roles, shares, models and levels at least cost.

All subsets of those who may go are tried with an oracle that seats every task on every card (see `tiny`).
"""

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.test_shapes_of_gangs import cut, sliced
from tests.make import World, gpu_amount, group, node, role, spec
from tests.oracles.tiny import Ask, Machine, Shape, fits

from gangline_core import facts as f
from gangline_core.job import JobState
from gangline_core.spec import TopologyWish

NOW_S = 60
RACK = "gangline/rack"
MODELS = ("A100", "A100", "H100", "A100")


def machines(sizes):
    """Nodes of so many GPUs with eight cores; pairs are linked, two nodes make a rack."""
    return [
        Machine(milli=[1000] * size, cpus=8, model=model, islands=[0, 0, 1, 1][:size], rack=f"r{k // 2}")
        for k, (size, model) in enumerate(zip(sizes, MODELS, strict=False))
    ]


def cluster(sizes):
    """The same for the world."""
    return [
        node(
            f"n{k}",
            gpus=size,
            cpus=8,
            model=model,
            islands=[0, 0, 1, 1][:size],
            labels={RACK: f"r{k // 2}"},
        )
        for k, (size, model) in enumerate(zip(sizes, MODELS, strict=False))
    ]


def seated(free, asked):
    """Running jobs of one or two tasks, on the first cards that hold them: (tasks with spots, age, priority, firm)."""
    running = []
    for where, gpus, milli, cpus, age, priority, is_firm in sorted(asked, key=lambda entry: -entry[4]):
        ask = Ask(gpus=gpus if not milli else 0, milli=milli, cpus=cpus)
        spots = []
        for k in sorted({k % len(free) for k in where}):
            cards = [c for c, left in enumerate(free[k].milli) if left >= (milli or 1000)][: ask.gpus or 1]
            if len(cards) == (ask.gpus or 1) and free[k].takes(ask, cards):
                spots.append((k, cards))
        if len(spots) != len({k % len(free) for k in where}):
            continue
        for k, cards in spots:
            free[k].add(ask, cards, -1)
        running.append((ask, spots, age, priority, is_firm))
    return running


def cheapest(free, running, asks, level, shape=None):
    """What the best legal set of victims costs: the highest priority that goes, work lost, how many; None without."""
    legal = [k for k, (_, _, _, _, is_firm) in enumerate(running) if not is_firm]
    best = None
    for size in range(len(legal) + 1):
        for gone in combinations(legal, size):
            cost = cost_of(running, gone)
            if best is not None and cost >= best:
                continue
            for k in gone:
                for number, cards in running[k][1]:
                    free[number].add(running[k][0], cards)
            if fits(free, asks, level, shape):
                best = cost
            for k in gone:
                for number, cards in running[k][1]:
                    free[number].add(running[k][0], cards, -1)
    return best


def cost_of(running, gone):
    """Highest priority, GPU thousandths times seconds, number."""
    work = sum((ask.milli or 1000 * ask.gpus) * len(spots) * age for ask, spots, age, *_ in (running[k] for k in gone))
    return max((running[k][3] for k in gone), default=-99), work, len(gone)


_RUNNING = st.lists(
    st.tuples(
        st.lists(st.integers(0, 3), min_size=1, max_size=2),
        st.integers(1, 3),
        st.sampled_from([0, 0, 250, 500, 700]),
        st.integers(0, 3),
        st.integers(1, 50),
        st.sampled_from([-1, -1, -2]),
        st.sampled_from([False, False, False, True]),
    ),
    min_size=1,
    max_size=6,
)
_ROLES = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.sampled_from([(1, 0), (2, 0), (3, 0), (0, 500), (0, 300), (0, 0)]),
        st.integers(0, 4),
        st.sampled_from([(), (), ("A100",), ("H100", "A100")]),
    ),
    min_size=1,
    max_size=3,
)
_SIZES = st.lists(st.sampled_from([1, 2, 4]), min_size=1, max_size=4)


def check(sizes, asked, roles, level, shape=None):
    """Play it, and compare with the best of all subsets."""
    free = machines(sizes)
    running = seated(free, asked)
    world = World(*cluster(sizes))
    world.tell("admission", *pool_with_racks(world))
    jobs = [
        world.submit(
            spec(
                tasks=len(spots),
                gpus=ask.milli / 1000 if ask.milli else ask.gpus,
                cpus=ask.cpus,
                priority=priority,
                preemptible=not is_firm,
            )
        )
        for ask, spots, _, priority, is_firm in running
    ]
    base = world.at
    for (_, spots, age, *_), job in zip(running, jobs, strict=True):
        world.at = base + (NOW_S - age) * 1000
        world.run(job, *((f"n{k}", cards) for k, cards in spots))
    world.at = base + NOW_S * 1000
    wanted = [
        role(
            f"r{k}",
            tasks=tasks,
            gpus=milli / 1000 if milli else gpus,
            cpus=cpus,
            gpu_models=models if gpus or milli else (),
        )
        for k, (tasks, (gpus, milli), cpus, models) in enumerate(roles)
    ]
    asks = [
        Ask(gpus=gpus, milli=milli, cpus=cpus, models=models if gpus or milli else (), at=f"r{k}")
        for k, (tasks, (gpus, milli), cpus, models) in enumerate(roles)
        for _ in range(tasks)
    ]
    asks.sort(key=lambda ask: (-ask.gpus, -ask.milli, -ask.cpus))
    beneficiary = world.submit(spec(roles=wanted, priority=10, topology=wish(level, shape)))
    decided = world.round()
    gone = [k for k, job in enumerate(jobs) if job in {eviction.job for eviction in decided.evictions}]
    best = cheapest(free, running, asks, level, shape)
    if best is None:
        assert not gone
        assert world.job(beneficiary).state == JobState.WAITING
        return
    assert cost_of(running, gone) == best
    assert beneficiary in {one.job for one in (*decided.placements, *decided.claims)}


def wish(level, shape):
    """The same level and shape as the job's wish."""
    own = shape or Shape()
    return TopologyWish(
        required=level,
        slice_tasks=own.slice_tasks,
        slice_level=own.slice_level,
        spread_level=own.spread_level,
        spread_most=own.spread_most,
    )


def pool_with_racks(world):
    """The pool tells racks apart by a label."""
    pool = replace(world.state.kept.pools["default"].pool, topology={"rack": RACK})
    return [f.PoolSet(pool=pool, by="admin")]


@settings(max_examples=100, deadline=None)
@given(_SIZES, _RUNNING, _ROLES, st.sampled_from(["", "", "node", "nvlink", "rack"]))
def test_victims_of_any_gang_are_the_cheapest_of_all_sets_that_help(sizes, asked, roles, level):
    check(sizes, asked, roles, level)


_SHAPES = st.one_of(
    st.builds(Shape, slice_tasks=st.just(2), slice_level=st.sampled_from(["node", "rack"])),
    st.builds(Shape, spread_level=st.sampled_from(["node", "rack"]), spread_most=st.integers(1, 2)),
)


@settings(max_examples=60, deadline=None)
@given(_SIZES, _RUNNING, st.sampled_from([(1, 0), (2, 0), (0, 500)]), st.integers(1, 2), _SHAPES)
def test_victims_of_gangs_in_slices_and_spread_are_the_cheapest_of_all_sets_that_help(sizes, asked, kind, pairs, shape):
    check(sizes, asked, [(2 * pairs, kind, 1, ())], "", shape)


# --- slices of cards --------------------------------------------------------------------------------------------

PROFILES = {"1g.5gb": range(7), "2g.10gb": (0, 2, 4), "3g.20gb": (0, 4), "7g.40gb": (0,)}
WIDTHS = {"1g.5gb": 1, "2g.10gb": 2, "3g.20gb": 4, "7g.40gb": 8}


def cards_hold(free, profiles):
    """True when these slices can be cut from what is free of each card: every card, every start."""
    if not profiles:
        return True
    first, *rest = profiles
    masks = [((1 << WIDTHS[first]) - 1) << start for start in PROFILES[first]]
    return any(
        cards_hold([*free[:k], slots & ~mask, *free[k + 1 :]], rest)
        for k, slots in enumerate(free)
        for mask in masks
        if slots & mask == mask
    )


@settings(max_examples=50, deadline=None)
@given(
    st.integers(1, 2),
    st.lists(st.tuples(st.sampled_from(sorted(PROFILES)), st.integers(1, 50)), min_size=1, max_size=6),
    st.lists(st.sampled_from(sorted(PROFILES)), min_size=1, max_size=4),
)
def test_victims_for_slices_of_cards_are_the_cheapest_of_all_sets_that_help(cards, asked, wanted):
    world = World(*(cut(f"n{k}", gpus=1) for k in range(cards)))
    asked = sorted(asked, key=lambda entry: -entry[1])
    base, running = world.at, []
    for profile, age in asked:
        world.at = base + (NOW_S - age) * 1000
        job = world.submit(sliced(profile, priority=-1))
        world.round()
        if world.tasks(job):
            world.start(job)
            running.append((job, profile, age))
        else:
            world.cancel(job)
    world.at = base + NOW_S * 1000
    held = [(task.node, task.gpus[0]) for job, *_ in running for task in world.tasks(job)]
    roles = [replace(sliced(profile).roles[0], name=f"r{k}") for k, profile in enumerate(wanted)]
    beneficiary = world.submit(spec(roles=roles, priority=10))
    decided = world.round()
    best = None
    for size in range(len(running) + 1):
        for gone in combinations(range(len(running)), size):
            free = [0xFF] * cards
            for j, (where, share) in enumerate(held):
                if j not in gone:
                    free[int(where[1:])] &= ~share.slots
            work = sum(held[j][1].milli * running[j][2] for j in gone)
            if cards_hold(free, sorted(wanted, key=lambda one: -WIDTHS[one])) and (best is None or (work, size) < best):
                best = (work, size)
    gone = [j for j, (job, *_) in enumerate(running) if job in {one.job for one in decided.evictions}]
    if best is None:
        assert not gone
        assert world.job(beneficiary).state == JobState.WAITING
        return
    assert (sum(held[j][1].milli * running[j][2] for j in gone), len(gone)) == best


# --- what may not go --------------------------------------------------------------------------------------------


def is_legal(running, owed, gone):
    """True when nobody protected goes, and every group keeps as much as those use that fit what it is owed whole."""
    for name, own in zip("bc", owed, strict=True):
        asks = [(ask.gpus, k in gone) for k, (ask, *_, of) in enumerate(running) if of == name]
        used, lost = sum(gpus for gpus, _ in asks), sum(gpus for gpus, is_gone in asks if is_gone)
        sheltered = 0
        for gpus, _ in asks:
            sheltered += gpus if sheltered + gpus <= own else 0
        if lost and used - lost < (sheltered if used > own else own):
            return False
    return not any(running[k][4] for k in gone)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 3),
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.integers(1, 3),
            st.integers(1, 50),
            st.sampled_from(["b", "c"]),
            st.sampled_from([0, 0, 30]),
        ),
        min_size=1,
        max_size=6,
    ),
    st.lists(st.tuples(st.integers(1, 2), st.integers(1, 3)), min_size=1, max_size=2),
    st.tuples(st.integers(0, 4), st.integers(0, 4)),
)
def test_the_cheapest_victims_leave_guarantees_and_protected_time_alone(nodes, asked, roles, owed):
    groups = [group("a"), *(group(name, guaranteed=gpu_amount(own)) for name, own in zip("bc", owed, strict=True))]
    world = World(*(node(f"n{k}", gpus=4) for k in range(nodes)), groups=groups)
    free = [Machine(milli=[1000] * 4, cpus=64) for _ in range(nodes)]
    running, jobs = [], []
    for where, gpus, age, own, protected in sorted(asked, key=lambda entry: -entry[2]):
        cards = [c for c, left in enumerate(free[where % nodes].milli) if left][:gpus]
        if len(cards) == gpus:
            free[where % nodes].add(Ask(gpus=gpus), cards, -1)
            running.append((Ask(gpus=gpus), [(where % nodes, cards)], age, 0, age < protected, own))
            jobs.append(world.submit(spec(gpus=gpus, cpus=0, group=own, priority=-1, protected_s=protected)))
    base = world.at
    for (_, spots, age, *_), job in zip(running, jobs, strict=True):
        world.at = base + (NOW_S - age) * 1000
        world.run(job, *((f"n{k}", cards) for k, cards in spots))
    world.at = base + NOW_S * 1000
    wanted = [role(f"r{k}", tasks=tasks, gpus=gpus, cpus=0) for k, (tasks, gpus) in enumerate(roles)]
    beneficiary = world.submit(spec(roles=wanted, group="a", priority=10))
    decided = world.round()
    asks = sorted((Ask(gpus=gpus) for tasks, gpus in roles for _ in range(tasks)), key=lambda ask: -ask.gpus)
    best = None
    for size in range(len(running) + 1):
        for gone in combinations(range(len(running)), size):
            if is_legal(running, owed, gone):
                left = [Machine(milli=list(one.milli), cpus=64) for one in free]
                for k in gone:
                    left[running[k][1][0][0]].add(running[k][0], running[k][1][0][1])
                cost = cost_of([one[:5] for one in running], gone)
                if (best is None or cost < best) and fits(left, asks, ""):
                    best = cost
    gone = [k for k, job in enumerate(jobs) if job in {one.job for one in decided.evictions}]
    if best is None:
        assert not gone
        assert world.job(beneficiary).state == JobState.WAITING
        return
    assert is_legal(running, owed, gone)
    assert cost_of([one[:5] for one in running], gone) == best
