"""Quotas: every refusal leaves nothing behind, every member that ended gives back, every unit counts the same."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases.drive import Drive
from tests.make import gpu_amount, group, node

from gangline_core import facts as f
from gangline_core.job import JobState
from gangline_core.limits.usage_by_class import recompute
from gangline_core.reasons import ReasonCode


def queue(gpus: float, **fields):
    return group("q", limit=gpu_amount(gpus), **fields)


def test_a_refused_repeat_of_a_name_is_not_charged():
    # kubernetes/kubernetes#76787
    drive = Drive(node(), groups=[queue(8)])
    first = drive.ask(0, name="a", gpus=2, group="q")
    again = [drive.ask(k, name="a", gpus=2, group="q") for k in range(1, 11)]
    drive.until(20)
    together = [drive.ask(21, name="a", gpus=2, group="q") for _ in range(10)]
    drive.until(30)
    assert {ask.refused.code for ask in (*again, *together)} == {ReasonCode.NAME_TAKEN}
    assert (drive.used("q"), drive.is_running(first)) == (2, [True])
    assert drive.state.unfinished["q"] == 1


def test_of_equal_names_in_one_instant_one_enters():
    drive = Drive(node(), groups=[queue(8)])
    asks = [drive.ask(0, name="a", gpus=2, group="q") for _ in range(10)]
    drive.until(1)
    assert sum(ask.refused is None for ask in asks) == 1
    assert drive.used("q") == 2


def test_a_gang_that_broke_gives_its_quota_back_when_its_last_member_is_gone():
    # kubernetes-sigs/kueue#14811
    drive = Drive(node(), groups=[queue(4)])
    gang = drive.ask(0, tasks=4, gpus=1, group="q", stop=40, retries=3, run=1000)
    waiting = drive.ask(50, tasks=4, gpus=1, group="q", run=100)
    drive.later(100, lambda: drive.fail(gang))
    drive.until(139)
    assert (drive.job(gang.id).state, drive.used("q")) == (JobState.STOPPING, 3)
    drive.until(140)
    assert drive.used("q") == 4
    assert drive.is_running(gang, waiting).count(True) == 1
    drive.finish_all()
    assert all(drive.job(ask.id).state == JobState.SUCCEEDED for ask in (gang, waiting))
    assert recompute(drive.state) == {}


def test_no_job_without_members_counts_as_using_anything():
    drive = Drive(node(), groups=[queue(4)])
    gang = drive.ask(0, tasks=4, gpus=1, group="q", start=40, stop=3)
    drive.later(10, lambda: drive.drop(gang))
    drive.finish_all()
    assert (drive.used("q"), drive.state.running.get("q", 0)) == (0, 0)


def test_independent_jobs_that_failed_for_good_give_back_at_once():
    # kubernetes-sigs/kueue#13482: an array is so many jobs, and each holds only what it runs on
    drive = Drive(node(gpus=10), groups=[queue(10)])
    failing = drive.asks_of(4, 0, gpus=1, group="q", run=10, code=1)
    rest = drive.asks_of(6, 0, gpus=1, group="q", run=1000)
    waiting = drive.ask(1, gpus=4, group="q", run=10)
    drive.until(10)
    assert all(drive.job(ask.id).state == JobState.FAILED for ask in failing)
    assert waiting.starts == [10]
    assert all(drive.is_running(*rest))
    drive.finish_all()


def test_a_gangs_member_that_ended_well_gives_its_room_back_while_the_others_run():
    drive = Drive(node(), groups=[queue(8)])
    gang = drive.ask(0, tasks=4, gpus=1, group="q")
    drive.until(1)
    name = drive.tasks(gang.id)[3].id
    drive.tell("agent.sim", f.TaskExited(task=name, cause=f.ExitCause.EXITED, exit_code=0), f.GpusEmpty(tasks=(name,)))
    drive.until(2)
    assert (drive.used("q"), drive.is_running(gang)) == (3, [True])


def test_a_gang_that_assembles_shrinks_and_ends_counts_each_member_once():
    # apache/yunikorn-core#991
    drive = Drive(node(), groups=[queue(8)])
    seen = []
    gang = drive.ask(0, tasks=6, minimum=4, maximum=6, gpus=1, group="q", start=5)
    for second in (1, 6):
        drive.later(second, lambda: seen.append(drive.used("q")))
    other = drive.ask(10, gpus=4, group="q")
    drive.until(11)
    seen.append(drive.used("q"))
    assert drive.is_running(gang, other) == [True, True]
    drive.drop(other)
    drive.later(12, lambda: drive.drop(gang))
    drive.finish_all()
    assert (seen, drive.used("q")) == ([6, 6, 8], 0)


@settings(max_examples=25)
@given(st.data())
def test_a_job_killed_while_it_assembles_never_makes_usage_negative(data):
    # ray-project/ray#18872
    drive = Drive(node(gpus=4), groups=[queue(4)])
    gang = drive.ask(0, tasks=3, gpus=1, group="q", start=10, stop=2)
    drive.until(5)
    names = [task.id for task in drive.tasks(gang.id)]
    acts = [lambda: drive.drop(gang)]
    acts += [lambda name=name: drive.tell("agent.sim", f.TaskStarted(task=name)) for name in names]
    acts += [lambda name=name: drive.tell("agent.sim", f.GpusEmpty(tasks=(name,))) for name in (*names, *names)]
    for act in data.draw(st.permutations(acts)):
        act()
        drive.check_books()
    drive.later(7, lambda: drive.drop(gang))
    drive.until(100)
    drive.check_books()
    assert (drive.used("q"), drive.used()) == (0, 0)


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (3, 0, 4, 1, 2)])
def test_no_mix_of_units_slips_below_a_gpu_limit(order):
    # kai-scheduler/KAI-Scheduler#1668
    drive = Drive(node(gpus=2, gpu_memory_mib=40_960), groups=[queue(1)])
    kinds = [{"gpus": 0, "gpu_memory_mib": 20_480}] * 3 + [{"gpus": 0.5}, {"gpus": 1}]
    for number, k in enumerate(order):
        drive.ask(number, group="q", **kinds[k])
    drive.until(10)
    assert drive.used("q") <= 1
    assert drive.used("q") == 1


def test_shares_by_memory_too_small_to_show_still_count():
    drive = Drive(node(gpus=2, gpu_memory_mib=40_960), groups=[group("q", limit={"gpu_milli": 5})])
    asks = drive.asks_of(8, 0, gpus=0, gpu_memory_mib=10, group="q")
    drive.until(1)
    assert sum(drive.is_running(*asks)) == 5


def test_what_a_job_does_not_ask_for_never_refuses_it():
    # volcano-sh/volcano#5001
    drive = Drive(node(gpus=16, cpus=128), groups=[group("q", limit={"gpu_milli": 8000, "cpu_milli": 100_000})])
    asks = drive.asks_of(16, 0, gpus=1, cpus=1, group="q")
    cpu_only = drive.ask(1, gpus=0, cpus=2, group="q")
    drive.until(2)
    assert (sum(drive.is_running(*asks)), cpu_only.starts) == (8, [1])
    assert drive.code(asks[-1]) == ReasonCode.GROUP_LIMIT


def test_a_full_gpu_limit_of_one_model_does_not_refuse_another_model():
    limit = {**gpu_amount(2, "A100"), **gpu_amount(8)}
    drive = Drive(node("a", model="A100"), node("h", model="H100"), groups=[group("q", limit=limit)])
    full = drive.ask(0, gpus=2, gpu_models=["A100"], group="q")
    other = drive.ask(1, gpus=2, gpu_models=["H100"], group="q")
    refused = drive.ask(1, gpus=1, gpu_models=["a100"], group="q")
    either = drive.ask(2, gpus=1, group="q")
    drive.until(3)
    assert drive.is_running(full, other, refused, either) == [True, True, False, True]
    assert drive.where(either) == ["h"]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_lowering_a_limit_and_restarting_keeps_what_runs(order):
    # apache/yunikorn-core#1068
    drive = Drive(node(), groups=[queue(8)])
    sizes = [3, 3, 2]
    jobs = [drive.ask(k, gpus=sizes[number], group="q") for k, number in enumerate(order)]
    drive.until(5)
    drive.set_group("q", limit=gpu_amount(4))
    drive.restart()
    late = drive.ask(6, gpus=1, group="q")
    drive.until(7)
    assert (drive.used("q"), drive.is_running(*jobs), drive.is_waiting(late)) == (8, [True] * 3, [True])
    assert "uses 8 of 4 GPUs" in drive.why(late)
    for second, job in enumerate(jobs, start=10):
        drive.later(second, lambda job=job: drive.drop(job))
        drive.until(second)
        assert drive.is_running(late) == [drive.used("q") <= 4 and bool(late.starts)]
        assert drive.used("q") <= 4 or not late.starts
    assert drive.is_running(late) == [True]
    assert not drive.evicted
