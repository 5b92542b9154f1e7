"""Who checkpoints and had its share stands in a queue by what it needs still: what it said, or as much as it had."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.make import World, node, spec

from gangline_core.cluster import Policy
from gangline_core.job import JobState
from gangline_core.making_room.yielding import yields_in
from gangline_core.ordering import order
from gangline_core.scoring.attained import GPU_SECOND, service_milli
from gangline_core.scoring.yield_queue import rises_at, yield_queue, yield_queues
from gangline_core.telling.explain import explain
from gangline_core.wake import next_wake_ms

SHARE_S = 800
POLICY = Policy(yield_after_gpu_s=SHARE_S)
SECONDS = st.one_of(st.just(0), st.integers(1, 400_000))


@pytest.mark.parametrize(
    ("had_s", "estimate_s", "limit_s", "queue"),
    [
        (799, 10_000, 0, 0),
        (800, 1_599, 0, 0),
        (800, 1_600, 0, 1),
        (800, 2_400, 0, 2),
        (800, 10_000, 0, 4),
        (900, 850, 0, 1),
        (800, 0, 0, 1),
        (51_199, 0, 0, 1),
        (51_200, 0, 0, 7),
        (3_276_800, 0, 0, 13),
        (51_200, 0, 59_200, 4),
        (51_200, 0, 51_900, 0),
        (51_200, 90_000, 59_200, 4),
    ],
)
def test_the_queue_rises_with_each_doubling_of_what_is_needed_still(had_s, estimate_s, limit_s, queue):
    asked = spec("a", gpus=1, checkpoints=True, estimate_s=estimate_s, time_limit_s=limit_s)
    assert yield_queue(asked, had_s * GPU_SECOND, POLICY) == queue
    silent = spec("a", gpus=1, estimate_s=estimate_s, time_limit_s=limit_s)
    assert yield_queue(silent, had_s * GPU_SECOND, POLICY) == 0


@given(st.integers(1, 64), SECONDS, SECONDS, st.integers(SHARE_S, 10**7))
def test_one_job_at_a_time_or_all_at_once_it_is_the_same(gpus, estimate_s, limit_s, had_s):
    asked = spec("a", gpus=gpus, checkpoints=True, estimate_s=estimate_s, time_limit_s=limit_s)
    had, second = had_s * GPU_SECOND, 1000 * service_milli(asked)
    columns = (np.array([value]) for value in (estimate_s * second - had, limit_s * second - had, had))
    assert yield_queues(*columns, POLICY).tolist() == [yield_queue(asked, had, POLICY)]


@given(st.integers(1, 8), SECONDS, SECONDS, st.integers(0, 10**6), st.floats(0, 1))
def test_before_it_may_rise_it_does_not(gpus, estimate_s, limit_s, had_s, part):
    asked = spec("a", gpus=gpus, checkpoints=True, estimate_s=estimate_s, time_limit_s=limit_s)
    had = had_s * GPU_SECOND
    bound = rises_at(asked, had, POLICY)
    assert bound > had
    later = min(bound - 1, had + int((bound - had) * part))
    limit = limit_s * 1000 * service_milli(asked)
    assume(not had < limit <= later)
    assert yield_queue(asked, later, POLICY) <= yield_queue(asked, had, POLICY)


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
    assert any("those go first that are taken to need less than 6400, until" in note for note in told.notes)


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
