"""Where the pool places by flows, the jobs of a round are placed together."""

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import World, node, spec

from gangline_core.job import JobState


def world(*gpus: int, **policy) -> World:
    made = World(*(node(f"n{k}", gpus=count, cpus=64) for k, count in enumerate(gpus)))
    return made.set_policy(placement="min_cost_flow", preemption=False, **policy)


def only(made: World, *allowed: int) -> tuple[str, ...]:
    return tuple(name for k, name in enumerate(sorted(made.state.kept.nodes)) if k not in allowed)


def test_a_job_leaves_its_cheapest_place_to_one_that_has_no_other():
    made = world(1, 4)
    made.submit_running(spec(gpus=1, cpus=0), "n1")
    free = made.submit(spec(gpus=1, cpus=0))
    bound = made.submit(spec(gpus=1, cpus=0, exclude_nodes=only(made, 0)))
    made.round()
    assert [made.tasks(job)[0].node for job in (free, bound)] == ["n1", "n0"]


def test_one_after_the_other_it_would_have_waited():
    made = world(1, 4)
    made.submit_running(spec(gpus=3, cpus=0), "n1")
    made.submit(spec(gpus=1, cpus=0, exclude_nodes=only(made, 0, 1)))
    bound = made.submit(spec(gpus=1, cpus=0, exclude_nodes=only(made, 0)))
    made.set_policy(placement="first_fit")
    made.round()
    assert made.job(bound).state == JobState.WAITING


def test_where_not_all_can_those_that_come_first_are_placed():
    made = world(1, 1)
    jobs = [made.submit(spec(gpus=1, cpus=0)) for _ in range(3)]
    made.round()
    assert [made.job(job).state for job in jobs] == [JobState.STARTING, JobState.STARTING, JobState.WAITING]


def test_a_gang_flows_whole_or_not_at_all():
    made = world(1, 1, 1)
    single = made.submit(spec(gpus=1, cpus=0, priority=1))
    gang = made.submit(spec(gpus=1, tasks=3, cpus=0))
    other = made.submit(spec(gpus=1, tasks=2, cpus=0, priority=-1))
    made.set_policy(backfill_depth=0)
    made.round()
    assert [made.job(job).state for job in (single, gang, other)] == [
        JobState.STARTING,
        JobState.WAITING,
        JobState.STARTING,
    ]


def test_a_batch_is_spread_evenly():
    made = world(4, 4, 4)
    jobs = [made.submit(spec(gpus=1, cpus=0)) for _ in range(6)]
    made.round()
    count = {name: sum(made.tasks(job)[0].node == name for job in jobs) for name in ("n0", "n1", "n2")}
    assert set(count.values()) == {2}


def least(free, taken, allowed):
    """Most jobs that find a place, and the least sum of costs for so many, over every way to place them."""
    slots = [(k, j) for k, count in enumerate(free) for j in range(count)]
    slots += [(-1, 0)] * len(allowed)
    best = (0, 0)
    for chosen in set(permutations(slots, len(allowed))):
        if any(k >= 0 and k not in own for (k, _), own in zip(chosen, allowed, strict=True)):
            continue
        rows = [k for k, _ in chosen if k >= 0]
        cost = sum(taken[k] + i for k in set(rows) for i in range(rows.count(k)))
        best = min(best, (-len(rows), cost))
    return best


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 2), st.integers(0, 1)), min_size=2, max_size=3),
    st.lists(st.sets(st.integers(0, 2), min_size=1), min_size=1, max_size=4),
)
def test_a_batch_costs_no_more_than_the_best_of_all_ways_to_place_it(nodes, asked):
    made = world(*(free + taken for free, taken in nodes), backfill_depth=0)
    for k, (_, taken) in enumerate(nodes):
        if taken:
            made.submit_running(spec(gpus=taken, cpus=0), f"n{k}")
    allowed = [{k % len(nodes) for k in own} for own in asked]
    jobs = [made.submit(spec(gpus=1, cpus=0, exclude_nodes=only(made, *own))) for own in allowed]
    made.round()
    rows = [int(made.tasks(job)[0].node[1:]) for job in jobs if made.tasks(job)]
    taken = [own for _, own in nodes]
    cost = sum(taken[k] + i for k in set(rows) for i in range(rows.count(k)))
    expected = least([free for free, _ in nodes], taken, allowed)
    assert -len(rows) == expected[0]
    if len(jobs) > 1:
        assert cost == expected[1]
