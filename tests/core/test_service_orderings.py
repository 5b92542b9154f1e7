"""The orderings by service, by prediction and by a linear program."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import World, node, spec

from gangline_core import facts as f
from gangline_core.ordering import order
from gangline_core.ordering.gittins import index
from gangline_core.scoring.attained import GPU_SECOND

MILLION = 1_000_000


def ordered(world: World):
    pool = world.state.kept.pools["default"]
    return order(world.state, pool, world.waiting(), world.at)


def ids(world: World) -> list[int]:
    return [candidate.job for candidate in ordered(world).candidates]


def ran(world: World, seconds: float, where: str = "n1", **fields) -> int:
    """A job that runs alone and ends."""
    job = world.run(world.submit(**fields), where)
    world.wait(seconds).finish(job)
    return job


# --- service ----------------------------------------------------------------------------------------------


def _stopped_once(world: World, job: int, seconds: float) -> None:
    """The job runs so long and goes back to the queue."""
    world.run(job, "n1")
    world.wait(seconds)
    other = world.submit(gpus=1, priority=-9, level="low")
    eviction = f.Eviction(job=job, beneficiary=other, rule="priority")
    world.tell("placement.default", f.RoundDecided(pool="default", round=0, evictions=(eviction,)))
    world.stop_all().cancel(other)


def test_a_job_sinks_as_its_gpus_times_time_grow():
    """Tiresias's shipped thresholds: 3,250, 7,200 and 18,000 GPU-seconds."""
    world = World(node()).set_policy(ordering="least_attained")
    job = world.submit(gpus=4)
    for seconds, queue in ((812, 0), (1, 1), (986, 1), (2, 2), (10_000, 3)):
        _stopped_once(world, job, seconds)
        fresh = world.submit(gpus=1)
        result = ordered(world)
        by_job = {candidate.job: candidate for candidate in result.candidates}
        assert by_job[job].terms == (0, -queue * MILLION)
        assert [candidate.job for candidate in result.candidates] == ([job, fresh] if queue == 0 else [fresh, job])
        world.cancel(fresh)


@pytest.mark.parametrize(("returned_last", "first"), [(False, "older"), (True, "younger")])
def test_inside_a_queue_who_was_stopped_stands_behind_those_that_waited_where_the_policy_has_it_so(
    returned_last, first
):
    """Each turn of those that service does not tell apart then ends behind the others."""
    world = World(node()).set_policy(ordering="least_attained", starvation_s=0, returned_last=returned_last)
    older = world.submit(gpus=1)
    world.wait(100)
    younger = world.submit(gpus=1)
    _stopped_once(world, older, 10)
    assert ids(world) == ([older, younger] if first == "older" else [younger, older])


def test_where_who_sinks_goes_last_a_queue_has_those_that_it_served_first_the_last_stopped_before_the_others():
    """The order in which Tiresias' simulator keeps its lists: who is stopped comes before those that waited already."""
    world = World(node()).set_policy(ordering="least_attained", starvation_s=0, sinks_last=True)
    sank, served, later, above, youngest = (world.submit(gpus=1) for _ in range(5))
    _stopped_once(world, sank, 3_250)  # To the very end of the first queue, and no further.
    _stopped_once(world, served, 4_000)
    _stopped_once(world, later, 5_000)
    _stopped_once(world, above, 120)
    assert ids(world) == [above, youngest, later, served, sank]
    world.wait(100)
    also_sank = world.submit(gpus=1)
    _stopped_once(world, also_sank, 3_251)
    assert ids(world) == [above, youngest, later, served, sank, also_sank], "who sinks goes behind all others"
    _stopped_once(world, sank, 600)
    assert ids(world) == [above, youngest, sank, later, served, also_sank], "and in front once its queue served it"


def test_where_who_sinks_goes_last_the_promoted_stand_by_when_they_came():
    world = World(node()).set_policy(ordering="least_attained", starvation_s=0, sinks_last=True, promote_after=2)
    promoted = world.submit(gpus=1)
    _stopped_once(world, promoted, 4_000)
    world.wait(7_000)
    younger = world.submit(gpus=1)
    assert ids(world) == [younger, promoted]
    world.wait(1_001)
    assert ids(world) == [promoted, younger]


def test_who_waited_long_compared_with_what_it_ran_is_promoted_and_what_it_had_is_forgiven():
    world = World(node()).set_policy(ordering="least_attained", promote_after=2)
    job = world.submit(gpus=4)
    _stopped_once(world, job, 1_000)
    assert ordered(world).candidates[0].terms == (0, -1 * MILLION)
    world.wait(2_000)
    assert ordered(world).candidates[0].terms == (0, 0)
    _stopped_once(world, job, 100)
    assert ordered(world).candidates[0].terms == (0, 0), "400 GPU-seconds since the promotion"
    assert world.job(job).attained == 4_400 * GPU_SECOND


@settings(max_examples=60, deadline=None)
@given(services=st.lists(st.integers(1, 60), min_size=1, max_size=12), attained=st.integers(0, 59))
def test_the_gittins_index_is_the_supremum_that_it_claims_to_be(services, attained):
    left = [service - attained for service in services if service > attained]
    brute = max(
        (sum(s <= d for s in left) / sum(min(s, d) for s in left) for d in range(1, 61) if left),
        default=0.0,
    )
    assert index(sorted(services), attained) == pytest.approx(brute)


def test_whoever_probably_ends_soon_goes_first_by_the_gittins_index():
    """Most jobs are short, a few are very long: a job that outlived the short ones will take long."""
    world = World(node()).set_policy(ordering="gittins")
    for seconds in (60, 60, 60, 60, 36_000):
        ran(world, seconds, gpus=1)
    old = world.submit(gpus=1)
    _stopped_once(world, old, 600)
    fresh = world.submit(gpus=1)
    assert ids(world) == [fresh, old]


# --- prediction -------------------------------------------------------------------------------------------


def test_what_is_predicted_to_take_least_gpu_time_goes_first():
    world = World(node()).set_policy(ordering="shortest_predicted")
    for _ in range(3):
        ran(world, 60, gpus=2, name="eval-1", user="ada")
        ran(world, 7200, gpus=2, name="train-7", user="ada")
    long = world.submit(spec("train-8", gpus=2, user="ada"))
    short = world.submit(spec("eval-9", gpus=2, user="ada"))
    said = world.submit(spec("new", gpus=1, user="eve", estimate_s=600))
    result = ordered(world)
    assert [candidate.job for candidate in result.candidates] == [short, said, long]
    assert result.candidates[0].terms[1] == pytest.approx(-2 * 60 / 3600 * MILLION, rel=0.01)
    assert result.candidates[1].terms[1] == pytest.approx(-600 / 3600 * MILLION, rel=0.01)


def test_the_word_of_a_job_goes_before_its_users_history_where_the_pool_believes_it():
    world = World(node()).set_policy(ordering="shortest_predicted", predictor="told")
    for _ in range(3):
        ran(world, 60, gpus=1, name="eval-1", user="ada")
    said = world.submit(spec("eval-9", gpus=1, user="ada", estimate_s=7200))
    limited = world.submit(spec("eval-10", gpus=1, user="ada", time_limit_s=1800))
    silent = world.submit(spec("eval-11", gpus=1, user="ada"))
    result = ordered(world)
    assert [candidate.job for candidate in result.candidates] == [silent, limited, said]
    hours = [-candidate.terms[1] / MILLION for candidate in result.candidates]
    assert hours == pytest.approx([60 / 3600, 0.5, 2], rel=0.01)


def test_the_worst_finish_time_compared_with_a_cluster_of_its_own_goes_first():
    world = World(node()).set_policy(ordering="finish_time")
    short_late = world.submit(gpus=1, estimate_s=600)
    long = world.submit(gpus=1, estimate_s=36_000)
    world.wait(600)
    result = ordered(world)
    assert [candidate.job for candidate in result.candidates] == [short_late, long]
    assert result.candidates[0].terms[1] == 2 * MILLION, "twice as late as alone: ten minutes waited, ten to run"


# --- Gavel ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["max_min", "makespan", "finish_time", "fifo", "cost"])
def test_every_objective_gives_an_order_with_its_terms(objective):
    world = World(node(gpus=2), node("n2", gpus=2, model="K80")).set_policy(ordering="gavel", objective=objective)
    for k in range(6):
        world.submit(gpus=1 + k % 2, estimate_s=600 * (1 + k), attributes={"speed_k80": 0.5 if k % 2 else 0.1})
    world.wait(60)
    result = ordered(world)
    assert result.terms == ("level", "part_over_received", "part")
    parts = [candidate.terms[2] for candidate in result.candidates]
    assert all(0 <= part <= MILLION + 1 for part in parts)
    assert sum(p * world.job(c.job).spec.roles[0].count for p, c in zip(parts, result.candidates, strict=True)) > 0


def test_who_has_had_less_than_its_part_goes_first():
    world = World(node(gpus=2)).set_policy(ordering="gavel")
    had, fresh = world.submit(gpus=2), world.submit(gpus=2)
    _stopped_once(world, had, 600)
    assert ids(world) == [fresh, had]
