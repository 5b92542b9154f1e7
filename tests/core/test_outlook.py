"""Expected starts are written down, scored when jobs start, and the scores make the range that is stated."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from tests.make import World, group, job, node, spec

from gangline_core import cycle
from gangline_core.fold import Message
from gangline_core.foresight.outlook import EVERY_JOBS
from gangline_core.foresight.start_scores import HOUR_MS, SCORES_LEAST, score, stated_range
from gangline_core.reasons import ReasonCode
from gangline_core.state import decode_snapshot, encode_snapshot
from gangline_core.telling.explain import explain
from gangline_lab.eta import score_messages, summed_up


def turn(world: World, runs_s: int) -> int:
    """One job fills the machine, the next waits for it, is forecast, and starts when it ends."""
    first = world.submit(spec("train-1", gpus=8, time_limit_s=86_400))
    world.round()
    world.start(first)
    waits = world.submit(spec("train-2", gpus=8, time_limit_s=86_400))
    world.wait(1).round()
    world.wait(30)
    # A second round sees that it found no room before; nothing else has changed.
    world.submit(spec("probe", gpus=8, level="low", time_limit_s=86_400))
    world.round()
    world.wait(runs_s - 31).finish(first)
    world.round()
    world.start(waits)
    world.wait(runs_s).finish(waits)
    for other in world.waiting():
        world.cancel(other.id)
    return waits


def trained(turns: int, runs_s: int = 600) -> World:
    world = World(node()).set_policy(ordering="priority", starvation_s=0, preemption=False)
    for _ in range(turns):
        turn(world, runs_s)
    return world


def test_a_round_writes_down_when_a_refused_job_will_probably_start_and_its_start_scores_that():
    world = trained(6)
    pool = world.state.kept.pools["default"]
    assert pool.start_scores[""], "jobs have started that a forecast stood for"
    assert not pool.foreseen, "and nothing is open once they run"
    assert pool.start_scores[""] == pool.start_scores["4"], "eight GPUs are of size class 4"
    assert 900 <= list(pool.start_scores[""].values())[-1][-1] <= 1_100, (
        "equal run times are foreseen to the second, nearly"
    )


def test_the_more_jobs_wait_the_less_often_a_round_writes_forecasts_down():
    world = World(node()).set_policy(ordering="priority", starvation_s=0, preemption=False)
    long = {"gpus": 8, "time_limit_s": 86_400}
    world.submit_running(spec("first", **long), "n1")
    world.submit(*(spec(f"waits-{k}", **long) for k in range(3 * EVERY_JOBS)))
    pool = world.state.kept.pools["default"]
    world.round()
    world.submit(spec("stirs-1", **long))
    world.round()
    written = pool.foreseen_at
    assert written == world.at, "the first forecasts"
    for seconds, is_due in ((31, False), (31, False), (31, True)):
        world.wait(seconds).submit(spec("", **long))
        world.round()
        assert (pool.foreseen_at > written) == is_due, "three times as many wait as are asked about every 30 s"


def test_no_range_is_stated_before_enough_forecasts_have_been_scored():
    world = trained(6)
    pool = world.state.kept.pools["default"]
    assert stated_range(pool, spec(gpus=8), 60_000) is None
    world = trained(SCORES_LEAST + 6)
    pool = world.state.kept.pools["default"]
    stated = stated_range(pool, spec(gpus=8), 60_000)
    assert stated is not None
    assert stated.low_ms <= stated.middle_ms <= stated.high_ms
    assert 55_000 <= stated.middle_ms <= 65_000


def test_the_explanation_says_how_often_such_a_range_holds():
    world = trained(SCORES_LEAST + 6)
    first = world.submit(spec("train-1", gpus=8, time_limit_s=86_400))
    world.round()
    world.start(first)
    waits = world.submit(spec("train-2", gpus=8, time_limit_s=86_400))
    world.wait(1).round()
    told = explain(world.state, waits, world.at)
    assert told is not None
    assert told.confidence == "80 %"
    assert told.start_from_ms is not None
    assert told.start_to_ms is not None
    assert told.start_to_ms - world.at < 3_600_000, "ten minutes, not the day of its time limit"


def test_forecasts_survive_a_restart_and_decide_the_same():
    world = trained(8)
    again = decode_snapshot(encode_snapshot(world.state))
    world.submit(gpus=8)
    assert again.kept.pools["default"].start_scores == world.state.kept.pools["default"].start_scores
    twin = decode_snapshot(encode_snapshot(world.state))
    assert cycle.open_round(twin, "default", world.at) == cycle.open_round(world.state, "default", world.at)


def test_an_archives_forecasts_are_scored_against_what_happened_beside_time_limits_alone():
    world = trained(SCORES_LEAST + 10)
    messages: list[Message] = world.log
    score = summed_up(score_messages(messages))
    assert score.forecasts > SCORES_LEAST
    assert 0 < score.stated <= score.forecasts - SCORES_LEAST + 1
    assert score.covered == 1.0
    assert score.by_limits_s > 80_000, "limits of a day for jobs of ten minutes"
    assert score.error_ratio < 0.01


def test_all_reasons_are_told_and_the_first_is_told_first():
    world = World(node(), groups=[group("a", limit={"gpu_milli": 1000}, user_limit={"gpu_milli": 1000})])
    first = world.submit_running(spec(gpus=1, group="a"), "n1")
    job = world.submit(gpus=1, group="a", after=[first])
    told = explain(world.state, job, world.at)
    assert told is not None
    assert told.code == ReasonCode.DEPENDENCY
    assert [reason.code for reason in told.also] == [ReasonCode.USER_LIMIT, ReasonCode.GROUP_LIMIT]


def test_the_place_in_the_level_stands_beside_the_place_in_the_queue():
    world = World(node()).set_policy(ordering="priority")
    world.submit(gpus=1, level="high")
    job = world.submit(gpus=1)
    told = explain(world.state, job, world.at)
    assert told is not None
    assert (told.position, told.waiting) == (2, 2)
    assert (told.level_position, told.level_waiting) == (1, 1)


class Stated(Struct):
    """What a pool knows of one size of jobs."""

    start_scores: dict[str, dict[int, tuple[int, ...]]]
    tails: dict[str, tuple[int, int]]
    foreseen: dict[int, tuple[int, int]]
    stated: dict[int, tuple[int, int]]


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["steady", "drifting", "turning", "in bursts"]))
def test_in_the_long_run_as_many_ranges_hold_as_are_said_to_whatever_changes(seed: int, how: str) -> None:
    random = Random(seed)
    pool = Stated({}, {}, {}, {})
    asked = job(gpus=8)
    held, stated_in_all, wait_ms, burst = 0, 0, 1_000_000, 1.0
    for number in range(3_000):
        if number % 40 == 0:
            burst = random.lognormvariate(0, 1.5)
        true = {
            "steady": random.lognormvariate(0, 1),
            "drifting": random.lognormvariate(0, 1) * (1 + number / 400),
            "turning": random.lognormvariate(2 if number // 500 % 2 else -1, 0.5),
            "in bursts": burst * random.lognormvariate(0, 0.1),
        }[how]
        made = number * HOUR_MS // 6
        pool.foreseen[asked.id] = (made, wait_ms)
        if (said := stated_range(pool, asked.spec, wait_ms)) is not None:
            pool.stated[asked.id] = (said.low_ms, said.high_ms)
            stated_in_all += 1
            held += said.low_ms <= int(wait_ms * true) <= said.high_ms
        score(pool, asked, made + int(wait_ms * true))
    assert 0.75 <= held / stated_in_all <= 0.90
