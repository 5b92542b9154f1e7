"""Brute force on tiny clusters: the fewest and cheapest moves after which a waiting gang and all who move have places.

Movers and the waiting gang may have roles, shares, slices of cards, levels, and several tasks of which some may move
alone. The oracle tries every set of movers and every way to seat all of them.
"""

from itertools import combinations, product

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.make import World, node, role, spec
from tests.oracles.test_brute_force_victims import RACK, pool_with_racks
from tests.oracles.tiny import Ask, Machine, domains, ways

from gangline_core.making_room.moves import MOVES_MAX, plan_moves

LEVELS = ["", "", "node", "rack"]


def machines(sizes):
    """Nodes of so many GPUs with eight cores; two nodes make a rack."""
    return [Machine(milli=[1000] * size, cpus=8, rack=f"r{k // 2}", islands=[0] * size) for k, size in enumerate(sizes)]


def cluster(sizes):
    """The same for the world."""
    return [node(f"n{k}", gpus=size, cpus=8, labels={RACK: f"r{k // 2}"}) for k, size in enumerate(sizes)]


def all_seated(free, gangs):
    """True when all of these gangs, each inside a domain of its level and on some of the nodes, find seats together."""
    if not gangs:
        return True
    asks, level, rack = gangs[0]
    for domain in domains(free, level):
        allowed = {k: cards for k, cards in domain.items() if not rack or free[k].rack == rack}
        for way in ways(free, asks, allowed):
            for ask, (number, cards) in zip(asks, way, strict=True):
                free[number].add(ask, cards, -1)
            is_seated = all_seated(free, gangs[1:])
            for ask, (number, cards) in zip(asks, way, strict=True):
                free[number].add(ask, cards)
            if is_seated:
                return True
    return False


def parts_of(running):
    """What may move of a running job: (its tasks, level, rack they must stay in)."""
    _, spots, level, _, is_loose, free = running
    whole = tuple(range(len(spots)))
    yield whole, level, ""
    if is_loose and len(spots) > 1 and level != "node":
        rack = free[spots[0][0]].rack if level == "rack" else ""
        for size in range(1, len(spots)):
            for some in combinations(whole, size):
                yield some, "", rack


def best_moves(free, running, asks, level):
    """The fewest jobs that have to move and the least work lost; None where no moves help."""
    for size in range(1, min(MOVES_MAX, len(running)) + 1):
        best = None
        for jobs in combinations(running, size):
            for parts in product(*(list(parts_of(one)) for one in jobs)):
                lost = sum(
                    (one[0].milli or 1000 * one[0].gpus) * len(part[0]) * one[3] * 1000
                    for one, part in zip(jobs, parts, strict=True)
                )
                if best is not None and lost // 1000 >= best:
                    continue
                gone = [(one[0], *one[1][k]) for one, part in zip(jobs, parts, strict=True) for k in part[0]]
                for ask, number, cards in gone:
                    free[number].add(ask, cards)
                others = [([one[0]] * len(part[0]), part[1], part[2]) for one, part in zip(jobs, parts, strict=True)]
                if all_seated(free, [(asks, level, ""), *others]):
                    best = lost // 1000
                for ask, number, cards in gone:
                    free[number].add(ask, cards, -1)
        if best is not None:
            return size, best
    return None


_RUNNING = st.lists(
    st.tuples(
        st.lists(st.integers(0, 3), min_size=1, max_size=2),
        st.integers(1, 3),
        st.sampled_from([0, 0, 0, 250, 500]),
        st.integers(0, 3),
        st.sampled_from(LEVELS),
        st.integers(1, 50),
        st.booleans(),
    ),
    min_size=1,
    max_size=5,
)
_ROLES = st.lists(
    st.tuples(
        st.integers(1, 2), st.sampled_from([(1, 0), (2, 0), (3, 0), (4, 0), (0, 500), (0, 700)]), st.integers(0, 4)
    ),
    min_size=1,
    max_size=2,
)


def check(sizes, asked, roles, level):
    """Play it, and compare with the best of all sets of moves."""
    free = machines(sizes)
    world = World(*cluster(sizes))
    world.tell("admission", *pool_with_racks(world))
    running = []
    base = world.at
    for where, gpus, milli, cpus, own_level, age, is_loose in sorted(asked, key=lambda entry: -entry[5]):
        ask, spots = Ask(gpus=0 if milli else gpus, milli=milli, cpus=cpus), []
        for k in [k % len(sizes) for k in where]:
            cards = [c for c, left in enumerate(free[k].milli) if left >= (milli or 1000)][: ask.gpus or 1]
            if len(cards) == (ask.gpus or 1) and free[k].takes(ask, cards):
                free[k].add(ask, cards, -1)
                spots.append((k, cards))
        racks, hosts = {free[k].rack for k, _ in spots}, {k for k, _ in spots}
        is_kept = (own_level != "node" or len(hosts) == 1) and (own_level != "rack" or len(racks) == 1)
        if len(spots) != len(where) or not is_kept:
            for k, cards in spots:
                free[k].add(ask, cards)
            continue
        world.at = base + (60 - age) * 1000
        job = spec(
            roles=[role(tasks=len(spots), gpus=milli / 1000 if milli else gpus, cpus=cpus)],
            topology=own_level,
            repair_s=60 if is_loose else 0,
        )
        world.submit_running(job, *((f"n{k}", cards) for k, cards in spots))
        running.append((ask, spots, own_level, age, is_loose, free))
    world.at = base + 60_000
    wanted = [
        role(f"r{k}", tasks=tasks, gpus=milli / 1000 if milli else gpus, cpus=cpus)
        for k, (tasks, (gpus, milli), cpus) in enumerate(roles)
    ]
    asks = [Ask(gpus=gpus, milli=milli, cpus=cpus) for tasks, (gpus, milli), cpus in roles for _ in range(tasks)]
    asks.sort(key=lambda ask: (-ask.gpus, -ask.milli, -ask.cpus))
    waiting = world.submit(spec(roles=wanted, topology=level))
    plan = plan_moves(world.state, world.job(waiting), world.at)
    found = None if plan is None else (len(plan.moves), plan.lost_gpu_ms // 1000)
    if all_seated(free, [(asks, level, "")]):
        assert plan is None, "it fits as it is"
        return None
    best = best_moves(free, running, asks, level)
    if best is not None:
        best = (best[0], best[1] // 1000)
    assert found == best
    return best


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from([2, 4]), min_size=2, max_size=4), _RUNNING, _ROLES, st.sampled_from(LEVELS))
@example(
    [4, 4],
    [
        ([0], 1, 250, 0, "", 1, False),
        ([0], 1, 500, 3, "", 5, False),
        ([0, 0], 1, 0, 1, "rack", 1, False),
        ([0, 1], 1, 250, 2, "", 1, False),
        ([1, 1], 1, 0, 2, "node", 1, False),
    ],
    [(1, (2, 0), 3)],
    "",
)
@example(
    [4, 2],
    [
        ([0], 1, 500, 3, "", 37, True),
        ([0, 0], 1, 0, 1, "rack", 4, False),
        ([0, 0], 1, 250, 0, "", 43, True),
        ([0, 1], 3, 250, 2, "", 1, False),
    ],
    [(1, (2, 0), 2)],
    "node",
)
def test_a_plan_has_the_fewest_moves_and_of_these_the_cheapest(sizes, asked, roles, level):
    check(sizes, asked, roles, level)
