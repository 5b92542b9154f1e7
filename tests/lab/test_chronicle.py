"""A log's story has the numbers that its messages imply, and no others."""

import pytest
from tests.lab.logged import LoggedWorld
from tests.make import T0, group, node, spec

from gangline_core import facts as f
from gangline_core.job import JobState
from gangline_core.reasons import Reason, ReasonCode
from gangline_lab.chronicle import Chronicle, chronicle
from gangline_lab.pool_use import Moment, held_share
from gangline_lab.summary import main_reason, size_of, spread, summarise

NO_ROOM = Reason(ReasonCode.INSUFFICIENT_GPUS, {"needed": 4, "free": 0, "total": 4})
LIMIT = Reason(ReasonCode.GROUP_LIMIT, {"group": "a", "used": 4, "limit": 4, "dimension": "GPUs", "needed": 4})


def refuse(world: LoggedWorld, job: int, reason: Reason) -> None:
    """A round in which this job finds no room."""
    refusal = f.Refusal(reason=reason, jobs=(job,))  # type: ignore[arg-type]  # a plain number will do
    world.tell("placement.default", f.RoundDecided(pool="default", round=0, refusals=(refusal,)))


@pytest.fixture
def told() -> Chronicle:
    """Four GPUs. The first job holds all for 10 s, the second waits for it and then holds two for 10 s."""
    world = LoggedWorld(node("n1", gpus=4), groups=[group("a"), group("b")])
    first = world.submit(spec("first", group="a", gpus=4))
    world.run(first, "n1")
    second = world.submit(spec("second", group="b", gpus=2))
    refuse(world, second, LIMIT)
    world.wait(1)
    refuse(world, second, NO_ROOM)
    world.wait(9).finish(first)
    world.run(second, "n1")
    world.wait(10).finish(second, code=3)
    return chronicle(world.log)


def test_every_job_has_its_story(told: Chronicle) -> None:
    first, second = told.jobs
    assert (first.state, first.waited_ms, first.placed_at_once) == (JobState.SUCCEEDED, 0, True)
    assert (second.state, second.waited_ms, second.placed_at_once) == (JobState.FAILED, 10_000, False)
    assert [timed.reason for timed in second.waiting_reasons] == [LIMIT, NO_ROOM]
    assert (second.first_started_ms, second.ended_ms) == (T0 + 10_000, T0 + 20_000)
    assert told.starts == {"1-1-worker-0": 1, "2-1-worker-0": 1}


def test_who_waited_by_its_own_terms_did_not_find_room_at_once() -> None:
    world = LoggedWorld(node("n1", gpus=4), groups=[group("a")])
    first = world.submit(spec("first", group="a", gpus=4))
    world.run(first, "n1")
    behind = world.submit(spec("behind", group="a", gpus=4, after=[first]))
    dated = world.submit(spec("dated", group="a", gpus=4, not_before_ms=T0 + 20_000))
    world.wait(10).finish(first)
    world.run(behind, "n1")
    world.wait(10).finish(behind)
    world.run(dated, "n1")
    told = chronicle(world.log)
    assert [(job.waiting_reasons, job.placed_at_once) for job in told.jobs] == [((), True), ((), False), ((), False)]
    assert summarise(told).starts_at_once.longest_ms == 0


def test_the_reason_of_a_wait_is_the_one_that_held_longest(told: Chronicle) -> None:
    assert main_reason(told.jobs[1], told.last_ms) == NO_ROOM
    assert main_reason(told.jobs[0], told.last_ms) is None


def test_utilisation_is_gpu_time_held_over_gpu_time_there(told: Chronicle) -> None:
    # 4 GPUs for 10 s and 2 GPUs for 10 s, of 4 GPUs for 20 s.
    assert told.uses["default"] == pytest.approx(0.75)


def test_the_queue_is_told_over_time(told: Chronicle) -> None:
    moments = told.pools["default"]
    assert [(moment.at - T0, moment.running, moment.waiting) for moment in moments] == [
        (0, 1, 1),
        (10_000, 1, 0),
        (20_000, 0, 0),
    ]


def test_a_summary_counts_jobs_in_and_out_and_gives_every_long_wait_a_reason(told: Chronicle) -> None:
    summary = summarise(told)
    assert (summary.jobs_in, summary.jobs_out) == (2, 2)
    assert summary.ends == {"succeeded": 1, "failed": 1}
    assert [(line.name, line.longest_ms) for line in summary.waits_by_group] == [("a", 0), ("b", 10_000)]
    assert [line.name for line in summary.waits_by_size] == ["2 GPUs", "3-4 GPUs"]
    assert summary.longest[0].reason == "Needs 4 GPUs; at its turn 0 of 4 suitable ones were free."
    assert summary.longest[0].recorded == 2
    assert summary.starts_at_once.jobs == 1
    # 2 admitted, 2 refused, 2 placed.
    assert summary.verdicts == 6


def test_a_job_that_still_waits_is_in_but_not_out() -> None:
    world = LoggedWorld(node("n1", gpus=1))
    job = world.submit(spec(gpus=1))
    world.wait(5)
    refuse(world, job, NO_ROOM)
    summary = summarise(chronicle(world.log))
    assert (summary.jobs_in, summary.jobs_out) == (1, 0)
    assert summary.longest[0].waited_ms == 5_000


def test_a_task_that_was_started_twice_is_counted_twice() -> None:
    world = LoggedWorld(node("n1", gpus=1))
    job = world.submit(spec(gpus=1))
    world.run(job, "n1")
    world.tell("agent.sim", f.TaskStarted(task=world.tasks(job)[0].id))
    assert chronicle(world.log).starts == {"1-1-worker-0": 2}


def test_a_lost_node_takes_its_gpus_along() -> None:
    world = LoggedWorld(node("n1", gpus=2), node("n2", gpus=2))
    world.submit_running(spec(gpus=2), "n1")
    world.wait(1).tell("telemetry", f.NodeLost(node=world.state.kept.nodes["n2"].id, silent_ms=30_000))  # type: ignore[index]  # plain text will do
    last = chronicle(world.log).pools["default"][-1]
    assert (last.held_milli, last.there_milli) == (2000, 2000)


def test_an_empty_log_has_an_empty_story() -> None:
    summary = summarise(chronicle([]))
    assert (summary.jobs_in, summary.verdicts, summary.longest) == (0, 0, ())


def test_a_share_counts_only_the_time_asked_for() -> None:
    moments = (
        Moment(at=0, held_milli=1000, there_milli=1000, running=1, waiting=0),
        Moment(at=10, held_milli=0, there_milli=1000, running=0, waiting=0),
    )
    assert held_share(moments, 5, 15) == pytest.approx(0.5)
    assert held_share(moments, 0, 10) == pytest.approx(1.0)
    assert held_share((), 0, 10) is None


def test_a_spread_gives_times_that_jobs_really_had() -> None:
    line = spread("x", [1, 2, 3, 4, 100])
    assert (line.median_ms, line.p90_ms, line.p99_ms, line.longest_ms) == (3, 100, 100, 100)


def test_sizes_are_classes_of_whole_gpus(told: Chronicle) -> None:
    assert [size_of(job) for job in told.jobs] == ["3-4 GPUs", "2 GPUs"]
