"""Who checkpoints and had its share stands in a queue by what it needs still: what it said, or as much as it had."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.clockwork import Clockwork
from tests.make import World, node, spec

from gangline_core import cycle
from gangline_core.cluster import Policy
from gangline_core.door.edits import JobEdit
from gangline_core.facts import JobEdited
from gangline_core.fold import Message, apply
from gangline_core.ids import JobId
from gangline_core.job import ENDS, JobState
from gangline_core.making_room.yielding import yields_in, yields_more_ms
from gangline_core.ordering import order
from gangline_core.scoring.attained import GPU_SECOND, service_milli
from gangline_core.scoring.waiting import Waiting
from gangline_core.scoring.yield_queue import BY_YIELD, rises_at, yield_queue, yield_queues
from gangline_core.state import State, decode_snapshot, encode_snapshot
from gangline_core.telling.explain import explain
from gangline_core.wake import next_wake_ms

SHARE_S = 800
POLICY = Policy(yield_after_gpu_s=SHARE_S)
SECONDS = st.one_of(st.just(0), st.integers(1, 400_000))


@pytest.mark.parametrize(
    ("had_s", "estimate_s", "limit_s", "ran_s", "queue"),
    [
        (799, 10_000, 0, 0, 0),
        (800, 1_599, 0, 0, 0),
        (800, 1_600, 0, 0, 1),
        (800, 2_400, 0, 0, 2),
        (800, 10_000, 0, 0, 4),
        (900, 850, 0, 0, 1),
        (800, 0, 0, 0, 1),
        (51_199, 0, 0, 0, 1),
        (51_200, 0, 0, 0, 7),
        (3_276_800, 0, 0, 0, 13),
        (51_200, 0, 59_200, 51_200, 4),
        (51_200, 0, 51_900, 51_200, 0),
        (51_200, 0, 51_200, 51_200, 0),
        (51_200, 90_000, 59_200, 51_200, 4),
        (51_200, 0, 12_000, 0, 4),
        (51_200, 0, 12_000, 10_000, 2),
    ],
)
def test_the_queue_rises_with_each_doubling_of_what_is_needed_still(had_s, estimate_s, limit_s, ran_s, queue):
    asked = spec("a", gpus=1, checkpoints=True, estimate_s=estimate_s, time_limit_s=limit_s)
    assert yield_queue(asked, had_s * GPU_SECOND, POLICY, ran_ms=1_000 * ran_s) == queue
    silent = spec("a", gpus=1, estimate_s=estimate_s, time_limit_s=limit_s)
    assert yield_queue(silent, had_s * GPU_SECOND, POLICY, ran_ms=1_000 * ran_s) == 0


@given(st.integers(1, 64), SECONDS, SECONDS, st.integers(SHARE_S, 10**7))
def test_one_job_at_a_time_or_all_at_once_it_is_the_same(gpus, estimate_s, limit_s, had_s):
    asked = spec("a", gpus=gpus, checkpoints=True, estimate_s=estimate_s, time_limit_s=limit_s)
    had, second = had_s * GPU_SECOND, 1000 * service_milli(asked)
    columns = (np.array([value]) for value in (estimate_s * second - had, limit_s * second, had))
    assert yield_queues(*columns, POLICY).tolist() == [yield_queue(asked, had, POLICY)]


@given(st.integers(1, 8), SECONDS, SECONDS, SECONDS, st.integers(0, 10**6), st.floats(0, 1))
def test_before_it_may_rise_it_does_not(gpus, estimate_s, limit_s, ran_s, had_s, part):
    asked = spec("a", gpus=gpus, checkpoints=True, estimate_s=estimate_s, time_limit_s=limit_s)
    had = had_s * GPU_SECOND
    bound = rises_at(asked, had, POLICY)
    assert bound > had
    later = min(bound - 1, had + int((bound - had) * part))
    ran_ms = 1_000 * ran_s
    soon_ms = ran_ms + (later - had) // service_milli(asked)
    assert yield_queue(asked, later, POLICY, ran_ms=soon_ms) <= yield_queue(asked, had, POLICY, ran_ms=ran_ms)


def both_had_their_share(*, first_s: int, second_s: int) -> World:
    """Two jobs of eight GPUs that said these estimates; the second runs for 110 s where the first ran, which waits."""
    there = World(node("n1")).set_policy(yield_after_gpu_s=SHARE_S, yield_run_s=60, yield_wait_s=900)
    for name, estimate_s in (("first", first_s), ("second", second_s)):
        there.submit(spec(name, gpus=8, checkpoints=True, estimate_s=estimate_s))
        there.settle()
        there.wait(110)
    assert (there.job(1).state, there.job(2).state) == (JobState.WAITING, JobState.RUNNING)
    return there


@pytest.mark.parametrize(
    ("first_s", "second_s", "is_stopped"),
    [(1_610, 3_300, True), (1_610, 1_700, False), (3_300, 1_610, False), (0, 3_300, True), (0, 0, False)],
)
def test_of_two_that_had_their_share_the_one_that_needs_half_as_much_has_the_room(first_s, second_s, is_stopped):
    decided = both_had_their_share(first_s=first_s, second_s=second_s).round()
    stopped = [(one.job, one.beneficiary, one.rule) for one in decided.evictions] if decided else []
    assert stopped == ([(2, 1, "yield")] if is_stopped else [])


def test_of_those_that_wait_it_goes_first_and_is_told_before_whom_and_behind_whom():
    there = both_had_their_share(first_s=3_300, second_s=1_610)
    there.submit(spec("third", gpus=8, checkpoints=True), spec("fourth", gpus=8, checkpoints=True, priority=-1))
    there.settle()
    there.wait(110).settle()
    ordered = order(there.state, there.state.kept.pools["default"], there.waiting(), there.at)
    assert [one.job for one in ordered.candidates][:2] == [2, 1], "the third has the room, and had its share by now"
    told = explain(there.state, 2, there.at)
    assert told is not None
    assert any(
        "had less than 0.22 GPU-hours or are taken to need less than 1.78 more, until" in note for note in told.notes
    )


def test_who_runs_longer_than_it_said_is_looked_at_when_it_does():
    there = World(node("n1")).set_policy(yield_after_gpu_s=SHARE_S, yield_run_s=60)
    there.submit(spec("long", gpus=8, checkpoints=True, estimate_s=150))
    there.settle()
    begun = there.state.kept.tasks["1-1-worker-0"].placed_ms  # type: ignore[index]  # a task id is a plain string here
    there.submit(spec("new", gpus=8, checkpoints=True))
    there.settle()
    there.wait(110).settle()
    policy = there.state.kept.pools["default"].policy
    assert yields_in(there.state, there.job(1), policy, there.at) == 0
    assert next_wake_ms(there.state, "default", there.at) == begun + 150_000
    there.wait(40)
    assert yields_in(there.state, there.job(1), policy, there.at) == 1
    decided = there.round()
    assert decided is not None
    assert [(one.job, one.rule) for one in decided.evictions] == [(1, "yield")]


def test_a_time_limit_counts_for_each_run_anew():
    """Of the 1,000 GPU-seconds that it allows a run 880 are over, so this one ends soon; the next has all of them."""
    there = World(node("n1")).set_policy(yield_after_gpu_s=SHARE_S, yield_run_s=60)
    there.submit(spec("long", gpus=8, checkpoints=True, estimate_s=9_000, time_limit_s=125))
    there.settle()
    there.wait(110).submit(spec("new", gpus=8, checkpoints=True))
    decided = there.round()
    assert decided is not None
    assert not decided.evictions
    there.submit(spec("urgent", gpus=8, checkpoints=True, priority=1))
    there.settle()
    pool = there.state.kept.pools["default"]
    waiting = Waiting.of(there.state, pool, [there.job(1), there.job(2)], now=there.at)
    assert waiting.yield_queue.tolist() == [1, 0]
    assert yields_more_ms(there.state, there.job(3), pool.policy, there.at) == there.at + 100_000


def test_it_is_told_for_whom_it_makes_way_once_it_does():
    there = World(node("n1")).set_policy(yield_after_gpu_s=SHARE_S, yield_run_s=60)
    there.submit(spec("long", gpus=8, checkpoints=True, estimate_s=500))
    there.settle()
    told = explain(there.state, 1, there.at)
    assert told is not None
    assert (
        "It checkpoints, and makes way from 2023-11-14 22:15:00 UTC on for jobs that do, too, and had less than 0.22 "
        "GPU-hours or are taken to need less than 0.89 more; it goes on later where it stopped. Its estimate leaves it "
        "that much or more; `gangline edit 1 estimate=TIME` says how long it runs in all."
    ) in told.notes


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({}, "It has no estimate, so it is taken to need as much as it had; `gangline edit 1 estimate=TIME` says"),
        ({"estimate_s": 90}, "Its estimate is over, so it is taken to need as much as it had; `gangline edit 1"),
        ({"estimate_s": 9_000}, "Its estimate leaves it that much or more; `gangline edit 1 estimate=TIME` says"),
        ({"estimate_s": 9_000, "time_limit_s": 400}, "Its time limit leaves it that much or more."),
        ({"time_limit_s": 9_000}, "It has no estimate, so it is taken to need as much as it had; `gangline edit 1"),
    ],
)
def test_it_is_told_what_says_how_much_it_needs_still_and_how_to_say_it_better(terms, words):
    there = World(node("n1")).set_policy(yield_after_gpu_s=SHARE_S, yield_run_s=60)
    there.submit(spec("long", gpus=8, checkpoints=True, **terms))
    there.settle()
    there.wait(110)
    told = explain(there.state, 1, there.at)
    assert told is not None
    assert any("makes way now for jobs that do" in note and words in note for note in told.notes)


# --- however jobs say what they need, nobody goes and comes in turn for ever ---------------------------------

RUN_S = 60
DAYS = st.lists(
    st.tuples(
        st.integers(0, 40),
        st.sampled_from([0, 1, 2, 4, 8]),
        st.integers(20, 900),
        st.sampled_from([0, 0, 10, 50, 90, 100, 200, 1_000]),
        st.sampled_from([0, 0, 105, 300]),
        st.booleans(),
        st.integers(0, 3),
    ),
    min_size=2,
    max_size=8,
)
"""When they come, in tens of seconds, GPUs, run time, what they say of it in percent and with which time limit, whether
they checkpoint, and how often they say otherwise while they wait or run."""


def day(jobs: list[tuple[int, int, int, int, int, bool, int]], *, grows: bool) -> Clockwork:
    """A node, on which these jobs come, half of which may be larger or smaller."""
    policy = {"yield_after_gpu_s": SHARE_S, "yield_run_s": RUN_S, "yield_wait_s": 600, "starvation_s": 120}
    clock = Clockwork(node("n1"), elastic=grows, ordering="fifo", **policy)
    for k, (at_10s, gpus, runs_s, said, limit, checkpoints, changes) in enumerate(jobs):
        said_s, limit_s = (runs_s * percent // 100 for percent in (said, limit))
        fields = {"estimate_s": said_s, "time_limit_s": limit_s and limit_s + 5, "checkpoints": checkpoints}
        asked = spec(f"job-{k}", gpus=gpus, **fields) if gpus else spec(f"job-{k}", gpus=0, cpus=64, **fields)
        if grows and k % 2 and gpus:
            asked = spec(f"job-{k}", gpus=1, tasks=gpus, minimum=1, maximum=2 * gpus, **fields)
        clock.arrive(10 * at_10s, asked, runs_s=runs_s, stops_s=3)
        for n in range(1, changes + 1):
            clock.at(
                10 * at_10s + 70 * n, lambda k=k, later_s=said_s * (n % 2) + 30 * n: say(clock, f"job-{k}", later_s)
            )
    return clock


def say(clock: Clockwork, name: str, estimate_s: int) -> None:
    """The job of this name is told to take so long."""
    job = next(one for one in clock.world.state.kept.jobs.values() if one.spec.name == name)
    if job.state not in ENDS:
        clock.world.tell("admission", JobEdited(job=job.id, edit=JobEdit(estimate_s=estimate_s), by="test"))


@given(jobs=DAYS, grows=st.booleans())
@settings(max_examples=40, deadline=None)
def test_whatever_they_say_everybody_ends_and_each_run_that_ends_for_others_had_its_time(jobs, grows):
    clock = day(jobs, grows=grows)
    clock.run(30_000)
    kept = clock.world.state.kept.jobs
    assert {job.state for job in kept.values()} == {JobState.SUCCEEDED}
    made_way = Counter(one.job for one in clock.evictions if one.rule == "yield")
    assert all(count <= clock.runs_s[job] / RUN_S for job, count in made_way.items()), "each run did something"


ONE_RUNS_ON = [
    (8, 1, 565, 200, 105, False, 1),
    (39, 1, 591, 1_000, 105, True, 0),
    (11, 1, 98, 100, 105, False, 0),
    (14, 4, 810, 0, 105, True, 1),
    (19, 0, 225, 100, 300, True, 3),
]
"""The fourth had more service in two runs than its time limit allows one, and its queue rose at 710 s."""


@example(jobs=ONE_RUNS_ON, grows=True, looks=[800])
@given(jobs=DAYS, grows=st.booleans(), looks=st.lists(st.integers(0, 2_000), min_size=1, max_size=8, unique=True))
@settings(max_examples=40, deadline=None)
def test_until_somebody_looks_nobody_who_waits_would_be_given_room_by_a_look(jobs, grows, looks):
    clock = day(jobs, grows=grows)
    for second in looks:
        clock.at(second + 0.5, lambda: assert_nothing_is_missed(clock))
    clock.run(2_100)


def assert_nothing_is_missed(clock: Clockwork) -> None:
    """One more round has nobody make way whom it would not have had make way when the last one was decided."""
    state = clock.world.state
    pool = state.kept.pools["default"]
    due = next_wake_ms(state, "default", pool.decided_at)
    if due is None or due > clock.world.at:
        then, now = (made_way_at(state, at) for at in (pool.decided_at, clock.world.at))
        assert now <= then


def made_way_at(state: State, at: int) -> set[JobId]:
    """Who would make way in a round at that time."""
    copy = decode_snapshot(encode_snapshot(state))
    opened = cycle.open_round(copy, "default", at, somebody_comes=True)
    assert opened is not None
    apply(copy, Message(seq=copy.kept.seq + 1, lane="queue.default", epoch=1, at=at, facts=(opened,), raw=b""))
    return {one.job for one in cycle.decide_round(copy, "default", at).evictions if one.rule == BY_YIELD}
