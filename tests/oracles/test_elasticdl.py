"""Shards of data as in ElasticDL: the task lists of its own tests, and what holds for any order of events.

Source: sql-machine-learning/elasticdl, elasticdl/python/tests/{task_manager,horovod_rendezvous}_test.py (MIT).
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import World, node, spec

from gangline_core import facts as f
from gangline_core.sizes.shards import OVERDUE_S, OVERDUE_TIMES, RETRIES, Shard, ShardList, cut
from gangline_core.spec import Elastic, ResizeKind
from gangline_wire.contract import sizing


def test_two_files_of_ten_records_are_cut_into_eight_tasks() -> None:
    shards = list(cut({"f1": 10, "f2": 10}, per_shard=3))
    ranges = [(0, 3), (3, 6), (6, 9), (9, 10)]
    assert [(shard.name, shard.start, shard.end) for shard in shards] == [
        (name, *range_) for name in ("f1", "f2") for range_ in ranges
    ]
    assert [shard.number for shard in shards] == list(range(8))


def test_a_data_set_of_ten_with_batches_of_one_and_three_of_them_in_a_task() -> None:
    shards = cut({"": 10}, per_shard=1 * 3)
    assert [(shard.start, shard.end - shard.start) for shard in shards] == [(0, 3), (3, 3), (6, 3), (9, 1)]


def test_a_failed_task_and_one_of_a_dead_worker_wait_again_and_finishing_both_ends_the_job() -> None:
    tasks = ShardList(cut({"f1": 10, "f2": 10}, per_shard=3))
    taken = [(f"w{k % 3}", tasks.take(f"w{k % 3}", 0.0)) for k in range(8)]
    for worker, shard in taken[:6]:
        assert shard is not None
        assert tasks.finish(shard.number, worker, 1.0)
    assert (len(tasks.todo), len(tasks.doing)) == (0, 2)
    (first, failed), (second, lost) = taken[6:]
    assert failed is not None
    assert tasks.fail(failed.number, first)
    assert tasks.lose(second) == [lost]
    assert (len(tasks.todo), len(tasks.doing)) == (2, 0)
    assert not tasks.is_over
    for _ in range(2):
        shard = tasks.take("w9", 2.0)
        assert shard is not None
        tasks.finish(shard.number, "w9", 3.0)
    assert tasks.is_over
    assert len(tasks.done) == 8


def test_a_task_is_tried_again_three_times_and_then_given_up() -> None:
    assert RETRIES == 3
    tasks = ShardList(cut({"": 1}, per_shard=1))
    for _ in range(1 + RETRIES):
        shard = tasks.take("w", 0.0)
        assert shard is not None
        tasks.fail(shard.number, "w")
    assert tasks.is_over
    assert tasks.given_up == [Shard(0, "", 0, 1)]


def test_a_lost_worker_costs_no_try() -> None:
    tasks = ShardList(cut({"": 1}, per_shard=1))
    for _ in range(10):
        tasks.take("w", 0.0)
        tasks.lose("w")
    assert len(tasks.todo) == 1


def test_a_worker_is_late_after_300_s_or_three_times_the_longest_task() -> None:
    assert (OVERDUE_S, OVERDUE_TIMES) == (300.0, 3)
    tasks = ShardList(cut({"": 3}, per_shard=1))
    slow = tasks.take("slow", 0.0)
    tasks.take("other", 0.0)
    assert slow is not None
    assert tasks.overdue(300.0) == []
    assert tasks.overdue(301.0) == ["other", "slow"]
    tasks.finish(slow.number, "slow", 400.0)
    assert tasks.overdue(1200.0) == []
    assert tasks.overdue(1201.0) == ["other"]


def test_who_was_late_and_lost_its_task_cannot_finish_it_a_second_time() -> None:
    tasks = ShardList(cut({"": 1}, per_shard=1))
    tasks.take("late", 0.0)
    tasks.lose("late")
    again = tasks.take("other", 1.0)
    assert again is not None
    assert not tasks.finish(again.number, "late", 2.0)
    assert tasks.finish(again.number, "other", 2.0)


@given(
    st.integers(0, 12),
    st.integers(1, 5),
    st.lists(st.tuples(st.sampled_from(["take", "finish", "fail", "lose"]), st.integers(0, 3)), max_size=60),
)
def test_whatever_happens_every_record_is_in_one_place(records: int, per_shard: int, events) -> None:
    tasks = ShardList(cut({"": records}, per_shard=per_shard))
    everything = set(range(len(tasks.todo)))
    for second, (event, worker) in enumerate(events):
        name = f"w{worker}"
        own = next((number for number, doing in tasks.doing.items() if doing.worker == name), 0)
        match event:
            case "take":
                tasks.take(name, float(second))
            case "finish":
                tasks.finish(own, name, float(second))
            case "fail":
                tasks.fail(own, name)
            case _:
                tasks.lose(name)
        places = [shard.number for shard in tasks.todo] + list(tasks.doing) + list(tasks.done)
        places += [shard.number for shard in tasks.given_up]
        assert sorted(places) == sorted(everything)
    covered = sorted((shard.start, shard.end) for shard in cut({"": records}, per_shard=per_shard))
    assert sum(end - start for start, end in covered) == records


@pytest.mark.parametrize("hosts", [2, 3])
def test_members_of_a_rendezvous_have_ranks_and_a_change_has_the_next_number(hosts: int) -> None:
    # horovod_rendezvous_test: two hosts have ranks 0 and 1; after a change the rendezvous id goes from 1 to 2
    world = World(node())
    terms = Elastic(kind=ResizeKind.TORCHRUN)
    job = world.submit_running(spec(gpus=1, tasks=hosts, minimum=1, maximum=8, elastic=terms), "n1")
    assert [task.rank for task in world.tasks(job)] == list(range(hosts))
    numbers = []
    for size in (hosts + 1, hosts + 2):
        world.tell("elastic.default", f.ResizeProposed(pool="default", job=job, role="worker", size=size))
        world.round()
        world.start(job)
        told = sizing(world.job(job), world.tasks(job)[0], world.tasks(job))
        numbers.append(told.resize)
        assert told.gathered == tuple(range(size))
    assert numbers == [1, 2]
