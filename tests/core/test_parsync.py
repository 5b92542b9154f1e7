"""Several schedulers on one cluster: nothing is given twice, and fresh parts mean fewer conflicts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.parsync import simulate
from gangline_core.parsync import Master, Preference, Scheduler

QUALITY = np.array([5, 9, 5, 9, 1, 1, 1, 1], dtype=np.int64)


def scheduler(number: int, master: Master, preference: Preference = Preference.QUALITY) -> Scheduler:
    return Scheduler(number, master, preference, delay_limit=1)


def test_a_slot_that_changed_since_it_was_seen_is_refused():
    master = Master(8, 2)
    one, other = (scheduler(k, master) for k in range(2))
    [first] = one.choose(QUALITY, 1, 1)
    assert master.commit(first)
    [stale] = [commit for commit in other.choose(QUALITY, 8, 1) if commit.slot == first.slot]
    assert not master.commit(stale)
    master.release([first.slot])
    # Free again, but not what was seen: somebody was there in between.
    assert not master.commit(stale)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.booleans()), max_size=40))
def test_no_slot_is_ever_given_to_two(moves):
    master = Master(8, 2)
    schedulers = [scheduler(k, master) for k in range(4)]
    held: set[int] = set()
    for turn, (number, count, leaves) in enumerate(moves, start=1):
        schedulers[number].refresh(master, [schedulers[number].turn_of(turn) % 2], turn)
        for commit in schedulers[number].choose(QUALITY, count, turn):
            if master.commit(commit):
                assert commit.slot not in held
                held.add(commit.slot)
        if leaves and held:
            master.release([held.pop()])


def test_quality_first_takes_the_best_slot_and_latency_first_the_freshest_partition():
    master = Master(8, 2)
    for preference, slot_is_fresh in ((Preference.QUALITY, False), (Preference.LATENCY, True)):
        one = scheduler(0, master, preference)
        one.refresh(master, [0], 7)
        [commit] = one.choose(QUALITY, 1, 8)
        assert (commit.slot % 2 == 0) == slot_is_fresh
        assert QUALITY[commit.slot] == (5 if slot_is_fresh else 9)


def test_adaptive_turns_to_fresh_partitions_when_tasks_wait_and_back_when_they_do_not():
    one = scheduler(0, Master(8, 2), Preference.ADAPTIVE)
    assert one.looks_at_quality
    for _ in range(8):
        one.note_delay(4)
    assert not one.looks_at_quality
    for _ in range(20):
        one.note_delay(0)
    assert one.looks_at_quality


def test_schedulers_refresh_different_partitions_in_one_turn():
    master = Master(16, 4)
    assert len({scheduler(k, master).turn_of(5) for k in range(4)}) == 4


@pytest.mark.parametrize("preference", list(Preference))
@pytest.mark.parametrize("seed", [1, 2])
def test_partitions_in_turn_conflict_less_than_everything_at_once(preference, seed):
    full, parted = (simulate(preference, partitioned=partitioned, seed=seed) for partitioned in (False, True))
    assert parted.conflict_percent < full.conflict_percent
    assert parted.delay < full.delay
    assert parted.quality > 0.98 * full.quality
