"""Gangs: whole or not at all, also when they queue, break, or cannot be started."""

from itertools import permutations

import pytest
from msgspec.structs import replace
from tests.cases.drive import Drive
from tests.make import gpu_amount, group, node, role

from gangline_core import facts as f
from gangline_core.job import JobState
from gangline_core.reasons import ReasonCode


def racks(*names: str, gpus: int = 8):
    return [node(name, gpus=gpus) for name in names]


@pytest.mark.parametrize("start", [0, 3])
def test_two_gangs_that_each_need_everything_run_one_after_the_other(start):
    # volcano-sh/volcano#3373
    drive = Drive(*racks("n1", "n2", "n3", "n4"))
    one, two = (drive.ask(0, tasks=4, gpus=8, run=60, start=start) for _ in range(2))
    drive.until(1)
    held = sorted(len(drive.job(ask.id).tasks) for ask in (one, two))
    assert held == [0, 4]
    drive.finish_all()
    assert (one.starts, two.starts) == ([start], [60 + 2 * start])


@pytest.mark.parametrize("order", list(permutations((6, 5, 3))))
def test_gangs_that_arrive_together_never_share_out_a_part_of_what_they_need(order):
    drive = Drive(*racks("n1", gpus=8))
    asks = [drive.ask(0, tasks=size, gpus=1, run=10) for size in order]
    drive.finish_all()
    assert all(drive.job(ask.id).state == JobState.SUCCEEDED for ask in asks)


@pytest.mark.parametrize(("spacing", "latest"), [(5, 695), (10, 700), (15, 930)])
@pytest.mark.parametrize("limit", [0, 30])
def test_a_steady_stream_of_gangs_all_finish_in_time(spacing, latest, limit):
    # kubernetes-sigs/scheduler-plugins#117
    drive = Drive(*racks("n1", "n2"))
    asks = [
        drive.ask(spacing * k, tasks=(5 * k) % 8 + 1, gpus=1, topology="node", run=30, limit=limit) for k in range(60)
    ]
    drive.finish_all()
    assert all(drive.job(ask.id).state == JobState.SUCCEEDED for ask in asks)
    assert max(ask.ended for ask in asks) <= latest


def test_a_gang_that_lost_a_node_is_released_whole_and_goes_before_a_younger_equal_job():
    # volcano-sh/volcano#5805
    drive = Drive(*racks("n1", "n2", "n3", gpus=1))
    gang = drive.ask(0, tasks=3, gpus=1, stop=5)
    drive.later(100, lambda: drive.lose("n3"))
    single = drive.ask(110, tasks=1, gpus=1)
    drive.until(120)
    assert not drive.job(gang.id).tasks, "nothing is held by a gang that cannot go on"
    drive.later(200, lambda: drive.see(node("n3", gpus=1)))
    drive.until(300)
    assert (drive.is_running(gang), drive.is_running(single)) != ([True], [True])
    assert len(drive.job(gang.id).tasks) in (0, 3)


def test_a_broken_gang_that_fits_at_once_is_repaired_before_younger_jobs():
    drive = Drive(*racks("n1", "n2", "n3", "n4", gpus=1))
    gang = drive.ask(0, tasks=3, gpus=1, stop=5)
    drive.until(50)
    young = drive.ask(60, tasks=2, gpus=1)
    drive.later(100, lambda: drive.lose(drive.where(gang)[2]))
    drive.until(110)
    assert drive.is_running(gang, young) == [True, False]


def test_a_drained_node_keeps_its_member():
    drive = Drive(*racks("n1", "n2", "n3", gpus=1))
    gang = drive.ask(0, tasks=3, gpus=1, run=500)
    drive.later(100, lambda: drive.drain("n3"))
    single = drive.ask(110, tasks=1, gpus=1, run=10)
    drive.later(200, lambda: drive.drain("n3", drained=False))
    drive.finish_all()
    assert (gang.ended, single.starts) == (500, [500])


def test_a_gang_above_its_queues_limit_is_told_so_and_starts_whole_once_the_limit_is_raised():
    # kai-scheduler/KAI-Scheduler#500
    drive = Drive(*racks("n1", gpus=16), groups=[group("q", limit=gpu_amount(4))])
    refused = drive.ask(0, tasks=6, gpus=1, group="q")
    drive.until(1)
    assert refused.refused.code == ReasonCode.NEVER_FITS_LIMIT
    assert (refused.refused.numbers["needed"], refused.refused.numbers["limit"]) == (6, 4)
    drive.set_group("q", limit=gpu_amount(6))
    later = drive.ask(2, tasks=6, gpus=1, group="q")
    drive.later(3, lambda: drive.set_group("q", limit=gpu_amount(4)))
    drive.until(5)
    assert len(drive.tasks(later.id)) == 6


def test_a_limit_cut_below_a_waiting_gang_starts_no_member_of_it():
    drive = Drive(*racks("n1", gpus=16), groups=[group("q", limit=gpu_amount(6))])
    first = drive.ask(0, tasks=6, gpus=1, group="q", run=20)
    gang = drive.ask(1, tasks=6, gpus=1, group="q")
    drive.later(2, lambda: drive.set_group("q", limit=gpu_amount(4)))
    drive.until(30)
    assert drive.is_running(first, gang) == [False, False]
    assert "uses 0 of 4 GPUs; the job needs 6 more" in drive.why(gang)
    drive.set_group("q", limit=gpu_amount(6))
    drive.until(31)
    assert len(drive.tasks(gang.id)) == 6


def test_a_member_that_cannot_be_started_frees_the_whole_gang():
    # dstackai/dstack#4146
    drive = Drive(*racks("n1", "n2", gpus=1))
    gang = drive.ask(0, tasks=2, gpus=1, start=1000, retries=1)
    drive.until(5)
    second = drive.tasks(gang.id)[1]
    drive.tell(
        "agent.sim",
        f.TaskExited(task=second.id, cause=f.ExitCause.START_FAILED, error="no capacity"),
        f.GpusEmpty(tasks=(second.id,)),
    )
    drive.until(6)
    assert drive.job(gang.id).attempt == 2, "the retry starts the whole gang anew"
    again = drive.tasks(gang.id)[1]
    drive.tell(
        "agent.sim",
        f.TaskExited(task=again.id, cause=f.ExitCause.START_FAILED, error="no capacity"),
        f.GpusEmpty(tasks=(again.id,)),
    )
    drive.until(7)
    assert drive.job(gang.id).state == JobState.FAILED
    assert "no capacity" in drive.why(gang)
    assert drive.used() == 0


def test_a_gang_whose_second_member_never_comes_up_gives_the_first_ones_room_back():
    # dstackai/dstack#4146: nobody says "no capacity", the member simply never starts
    drive = Drive(*racks("n1", "n2", gpus=1))
    gang = drive.ask(0, tasks=2, gpus=1, start=100_000, start_limit_s=600)
    other = drive.ask(10, gpus=1, run=50)
    drive.until(599)
    assert (drive.used(), drive.is_waiting(other)) == (2, [True])
    drive.until(700)
    assert other.starts, "what the gang gave back goes to whoever can use it"
    assert drive.job(gang.id).state == JobState.FAILED
    assert "0 of 2 tasks had started 600 s" in drive.why(gang)


@pytest.mark.parametrize("limit_s", [30, 2_400])
def test_a_start_limit_counts_from_when_room_is_given(limit_s):
    # kubernetes-sigs/scheduler-plugins#722, koordinator-sh/koordinator#1919
    drive = Drive(node("n1"))
    jobs = drive.asks_of(50, 0, tasks=8, gpus=1, run=60, start_limit_s=limit_s)
    drive.finish_all()
    assert all(drive.job(ask.id).state == JobState.SUCCEEDED for ask in jobs)
    assert all(drive.job(ask.id).attempt == 1 for ask in jobs)


def test_a_part_of_a_job_below_its_minimum_holds_nothing():
    # kai-scheduler/KAI-Scheduler#2208: all roles of a job are one gang here, so the job goes back whole
    drive = Drive(*racks("n1", gpus=8))
    job = drive.ask(0, roles=[role("core", tasks=2), role("helper", tasks=4)], stop=2)
    filler = drive.ask(40, gpus=2)
    drive.until(50)
    other = drive.ask(60, gpus=2, priority=-1)
    drive.later(50, lambda: lose_processes(drive, job, [2, 3]))
    drive.until(100)
    assert drive.is_running(filler) == [True]
    assert len(drive.job(job.id).tasks) in (0, 6)
    assert drive.is_running(job, other) in ([True, False], [False, True])


def test_a_part_below_its_minimum_is_released_where_the_job_can_do_without_and_comes_back_whole():
    # kai-scheduler/KAI-Scheduler#2208: the core runs on, the two stranded helpers give their room back in time
    drive = Drive(node("n1", gpus=6), node("n2", gpus=2, memory_mib=8_192))
    filler = drive.ask(0, gpus=2, run=300, exclude_nodes=("n2",))
    parts = [role("core", tasks=2, memory_mib=16_384), role("helper", tasks=4, minimum=0, sizes=(4,))]
    job = drive.ask(1, roles=parts, repair_s=20, stop=2)
    drive.until(10)
    core = [task.id for task in drive.tasks(job.id) if task.role == "core"]
    assert sorted(drive.where(job)) == ["n1"] * 4 + ["n2"] * 2
    drive.later(50, lambda: drive.lose("n2"))
    small = drive.ask(60, gpus=2, priority=-1, run=100)
    drive.until(65)
    assert drive.is_running(job, small) == [True, False], "until the repair time is over its room is the job's"
    drive.until(80)
    assert [task.id for task in drive.tasks(job.id)] == core
    assert drive.is_running(job, filler, small) == [True, True, True]
    drive.until(310)
    assert drive.job(job.id).sizes == {"core": 2, "helper": 4}, "helpers come back as four, once there is room"
    assert [task.id for task in drive.tasks(job.id)][:2] == core


def test_a_gang_that_is_repaired_goes_before_a_fresh_equal_job():
    # volcano-sh/volcano#5805, with a job that allows repair: its member gets the slot, and the others never stopped
    drive = Drive(*racks("n1", "n2", "n3", gpus=1))
    gang = drive.ask(0, tasks=3, gpus=1, repair_s=600)
    drive.later(100, lambda: drive.lose("n3"))
    single = drive.ask(110, tasks=1, gpus=1)
    drive.later(200, lambda: drive.see(node("n3", gpus=1)))
    drive.until(210)
    assert drive.is_running(gang, single) == [True, False]
    assert drive.job(gang.id).attempt == 1
    assert drive.job(gang.id).sizes == {"worker": 3}


def test_a_gang_that_is_not_repaired_in_time_holds_nothing():
    # volcano-sh/volcano#5805: never two members without progress past the limit
    drive = Drive(*racks("n1", "n2", "n3", gpus=1))
    gang = drive.ask(0, tasks=3, gpus=1, repair_s=60, stop=5)
    drive.later(100, lambda: drive.lose("n3"))
    single = drive.ask(110, tasks=1, gpus=1)
    drive.until(150)
    assert len(drive.job(gang.id).tasks) == 2
    drive.until(170)
    assert not drive.job(gang.id).tasks
    assert drive.is_running(single) == [True]


def lose_processes(drive: Drive, ask, indexes) -> None:
    for task in [drive.tasks(ask.id)[k] for k in indexes]:
        drive.tell(
            "agent.sim", f.TaskExited(task=task.id, cause=f.ExitCause.PROCESS_LOST), f.GpusEmpty(tasks=(task.id,))
        )


def test_waiting_in_a_long_queue_is_never_held_against_a_gang():
    # kubernetes-sigs/scheduler-plugins#722
    drive = Drive(*racks("n1"))
    asks = drive.asks_of(50, 0, tasks=8, gpus=1, run=60, limit=2400)
    drive.finish_all()
    assert sorted(ask.starts[0] for ask in asks) == [60 * k for k in range(50)]
    assert all(len(ask.starts) == 1 and drive.job(ask.id).spec.time_limit_s == 2400 for ask in asks)


def test_a_lost_member_of_a_multi_node_gang_ends_the_attempt_for_all():
    # skypilot-org/skypilot#825
    drive = Drive(*racks("n1", "n2", "n3", "n4"))
    gang = drive.ask(0, tasks=4, gpus=8, stop=3)
    drive.later(100, lambda: drive.lose("n3"))
    drive.until(110)
    assert drive.is_waiting(gang) == [True]
    assert drive.used() == 0
    assert replace(drive.job(gang.id)).losses == 1
