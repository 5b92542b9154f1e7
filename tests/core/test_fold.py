"""What facts do to the state: jobs' lives, room, usage, and what a restart remembers."""

from typing import get_args

import pytest
from msgspec.structs import replace
from tests.make import SECOND, T0, World, gpu_amount, group, node, spec

from gangline_core import facts as f
from gangline_core.fold import HANDLERS, Message, apply, chain
from gangline_core.ids import JobId, NodeId, TaskId
from gangline_core.job import MOVES, GpuShare, IllegalMoveError, JobState, Move
from gangline_core.reasons import ReasonCode
from gangline_core.state import decode_snapshot, encode_snapshot


def exits(world: World, job: JobId) -> list[TaskId]:
    return [task.id for task in world.tasks(job)]


def claim_for(world: World, job: JobId, *where: str, victims: tuple[TaskId, ...]) -> f.Claim:
    attempt = world.job(job).attempt + 1
    placement = f.Placement(job=job, attempt=attempt, tasks=world.task_places(job, *where), port=29_500)
    return f.Claim(job=job, placement=placement, victims=victims, made_ms=world.at)


def decide(world: World, **fields) -> object:
    number = world.state.kept.pools["default"].rounds
    return world.tell("placement.default", f.RoundDecided(pool="default", round=number, **fields))


# --- the log --------------------------------------------------------------------------------------------------


def test_every_fact_has_a_handler():
    assert set(HANDLERS) == set(get_args(f.Fact))


def test_a_message_is_never_applied_twice():
    world = World(node())
    with pytest.raises(ValueError, match="already applied"):
        apply(world.state, world.log[-1])


def test_an_old_leader_is_chained_but_changes_nothing():
    world = World(node())
    job = world.submit()
    fact = f.CancelRequested(job=job, by="ada")
    apply(world.state, Message(seq=50, lane="admission", epoch=7, at=T0, facts=(), raw=b"new"))
    before = world.state.kept.digest
    step = apply(world.state, Message(seq=51, lane="admission", epoch=6, at=T0, facts=(fact,), raw=b"old"))
    assert world.job(job).state == JobState.WAITING
    assert world.state.kept.digest == chain(before, b"old")
    assert step.alarms
    assert world.state.kept.lane_seqs["admission"] == 51


def test_an_event_that_does_not_belong_is_parked_in_production_and_raised_in_tests(monkeypatch):
    world = World(node())
    job = world.submit()
    monkeypatch.delitem(MOVES, (JobState.WAITING, Move.CANCEL_WAITING))
    cancel = f.CancelRequested(job=job, by="ada")
    message = Message(seq=90, lane="admission", epoch=1, at=T0, facts=(cancel,), raw=b"")
    [alarm] = apply(world.state, message).alarms
    assert "waiting cannot cancel_waiting" in alarm
    assert world.job(job).state == JobState.WAITING
    with pytest.raises(IllegalMoveError):
        apply(world.state, replace(message, seq=91), strict=True)


# --- a job's life ---------------------------------------------------------------------------------------------


def test_a_job_runs_when_all_its_tasks_started_and_ends_when_the_last_is_gone():
    world = World(node())
    job = world.submit(gpus=2, tasks=2)
    world.place(job, "n1")
    assert world.job(job).state == JobState.STARTING
    first, second = exits(world, job)
    world.tell("agent.sim", f.TaskStarted(task=first))
    assert world.job(job).state == JobState.STARTING
    world.tell("agent.sim", f.TaskStarted(task=second))
    assert world.job(job).state == JobState.RUNNING
    world.exit(first)
    assert world.job(job).state == JobState.RUNNING
    world.exit(second)
    assert world.job(job).state == JobState.STOPPING
    world.empty(first)
    assert world.job(job).state == JobState.STOPPING
    assert world.state.use[NodeId("n1")].gpu_milli[:4] == [0, 0, 1000, 1000]
    world.empty(second)
    assert world.job(job).state == JobState.SUCCEEDED
    assert world.job(job).exit_code == 0
    assert not any(world.state.usage.values())


def test_capacity_returns_only_when_the_gpus_were_seen_empty():
    world = World(node("n1", gpus=1))
    job = world.submit_running(spec(), "n1")
    other = world.submit()
    [task] = exits(world, job)
    world.exit(task)
    decide(world, placements=(f.Placement(job=other, attempt=1, tasks=_one()),))
    assert world.job(other).state == JobState.WAITING
    assert world.reason(other) == ReasonCode.PLACEMENT_VOIDED
    world.empty(task)
    world.place(other, "n1")
    assert world.job(other).state == JobState.STARTING


def _one() -> tuple[f.TaskPlacement, ...]:
    share = GpuShare(index=0, milli=1000, memory_mib=40_960)
    return (f.TaskPlacement(role="worker", index=0, node=NodeId("n1"), gpus=(share,), cpu_milli=1000, memory_mib=1024),)


def test_a_second_release_of_the_same_task_changes_nothing():
    world = World(node())
    job = world.submit_running(spec(gpus=4), "n1")
    world.finish(job)
    before = encode_snapshot(world.state)
    step = world.tell("agent.sim", f.GpusEmpty(tasks=(TaskId("1-1-worker-0"),)))
    assert not step.freed
    after = world.state.kept
    assert encode_snapshot(decode_snapshot(before)) == before
    assert after.uncharged.keys() == {TaskId("1-1-worker-0")}


def test_one_failed_member_stops_the_whole_gang():
    world = World(node())
    job = world.submit_running(spec(gpus=1, tasks=4), "n1")
    members = exits(world, job)
    world.exit(members[1], code=3)
    assert world.job(job).state == JobState.STOPPING
    assert all(task.stop for task in world.tasks(job))
    world.stop_all()
    ended = world.job(job)
    assert (ended.state, ended.exit_code, ended.reason.code) == (JobState.FAILED, 3, ReasonCode.EXIT_CODE)


def test_a_retry_consumes_the_budget_and_keeps_what_was_waited():
    world = World(node())
    job = world.submit(gpus=1, retries=1)
    world.wait(10).run(job, "n1")
    world.wait(5).finish(job, code=9)
    again = world.job(job)
    assert (again.state, again.retries_used, again.reason.code) == (JobState.WAITING, 1, ReasonCode.RETRYING)
    assert (again.waited_ms, again.queued_ms) == (10 * SECOND, world.at)
    world.run(job, "n1")
    assert world.tasks(job)[0].id == "1-2-worker-0"
    world.finish(job, code=9)
    assert world.job(job).state == JobState.FAILED


def test_a_member_that_vanishes_without_a_word_takes_the_gang_with_it():
    world = World(node())
    job = world.submit_running(spec(gpus=1, tasks=3), "n1")
    world.empty(exits(world, job)[2])
    assert world.job(job).state == JobState.STOPPING
    world.stop_all()
    assert world.job(job).state == JobState.WAITING
    assert world.job(job).losses == 1
    assert world.job(job).retries_used == 0


def test_members_that_end_well_one_by_one_make_a_success():
    world = World(node())
    job = world.submit_running(spec(gpus=1, tasks=3), "n1")
    for member in exits(world, job):
        world.exit(member)
        world.empty(member)
    assert world.job(job).state == JobState.SUCCEEDED


def test_a_member_may_be_over_before_another_has_started():
    world = World(node())
    job = world.submit(gpus=1, tasks=2)
    world.place(job, "n1")
    first, second = exits(world, job)
    world.tell("agent.sim", f.TaskStarted(task=first))
    world.exit(first)
    world.empty(first)
    world.tell("agent.sim", f.TaskStarted(task=second))
    assert world.job(job).state == JobState.RUNNING
    world.exit(second)
    world.empty(second)
    assert world.job(job).state == JobState.SUCCEEDED


@pytest.mark.parametrize(
    ("cause", "state", "code"),
    [
        (f.ExitCause.TIME_LIMIT, JobState.TIMED_OUT, ReasonCode.TIME_LIMIT),
        (f.ExitCause.START_FAILED, JobState.FAILED, ReasonCode.START_FAILED),
        (f.ExitCause.PROCESS_LOST, JobState.WAITING, ReasonCode.PROCESS_LOST),
        (f.ExitCause.BUS_LOST, JobState.WAITING, ReasonCode.PROCESS_LOST),
        (f.ExitCause.GPU_FAILED, JobState.WAITING, ReasonCode.GPU_FAILED),
    ],
)
def test_why_a_process_ended_decides_what_becomes_of_its_job(cause, state, code):
    world = World(node())
    job = world.submit_running(spec(gpus=1, tasks=2), "n1")
    world.exit(exits(world, job)[0], code=1, cause=cause)
    world.stop_all()
    assert (world.job(job).state, world.reason(job)) == (state, code)


def test_cancel_ends_a_waiting_job_at_once_and_a_running_one_when_it_is_gone():
    world = World(node())
    waiting, running = world.submit(), world.submit_running(spec(), "n1")
    world.cancel(waiting)
    assert world.job(waiting).state == JobState.CANCELLED
    world.cancel(running)
    assert world.job(running).state == JobState.STOPPING
    world.exit(*exits(world, running), code=1)
    world.stop_all()
    assert world.job(running).state == JobState.CANCELLED
    world.cancel(running)
    assert world.job(running).state == JobState.CANCELLED


def test_hold_suspends_and_release_queues_anew():
    world = World(node())
    job = world.submit_running(spec(), "n1")
    world.tell("admission", f.HoldSet(job=job, held=True, by="ada"))
    world.wait(5).stop_all()
    assert world.job(job).state == JobState.SUSPENDED
    world.wait(60).tell("admission", f.HoldSet(job=job, held=False, by="ada"))
    assert world.job(job).state == JobState.WAITING
    assert world.job(job).queued_ms == world.at
    world.tell("admission", f.HoldSet(job=job, held=True, by="ada"))
    assert world.job(job).state == JobState.HELD


def test_a_released_hold_while_stopping_goes_back_to_the_queue():
    world = World(node())
    job = world.submit_running(spec(), "n1")
    world.tell("admission", f.HoldSet(job=job, held=True, by="ada"))
    world.tell("admission", f.HoldSet(job=job, held=False, by="ada"))
    world.stop_all()
    assert world.job(job).state == JobState.WAITING


def test_a_wait_for_hold_is_not_counted():
    world = World(node())
    job = world.submit(hold=True)
    world.wait(100).tell("admission", f.HoldSet(job=job, held=False, by="ada"))
    world.wait(7).run(job, "n1")
    assert world.job(job).waited_ms == 7 * SECOND


# --- placing --------------------------------------------------------------------------------------------------


def test_a_placement_on_a_node_that_was_lost_meanwhile_is_void():
    world = World(node("n1"), node("n2"))
    job = world.submit(gpus=8, tasks=2)
    places = world.task_places(job, "n1", "n2")
    world.tell("telemetry", f.NodeLost(node=NodeId("n2"), silent_ms=30_000))
    step = decide(world, placements=(f.Placement(job=job, attempt=1, tasks=places),))
    assert step.voided == [job]
    assert world.job(job).state == JobState.WAITING
    assert not world.state.kept.tasks
    assert world.reason(job) == ReasonCode.PLACEMENT_VOIDED


def test_a_placement_beyond_a_limit_that_was_lowered_meanwhile_is_void():
    world = World(node(), groups=[group("a", limit=gpu_amount(8))])
    job = world.submit(gpus=4, group="a")
    places = world.task_places(job, "n1")
    world.tell("admission", f.GroupSet(group=group("a", limit=gpu_amount(2)), by="admin"))
    step = decide(world, placements=(f.Placement(job=job, attempt=1, tasks=places),))
    assert step.voided == [job]


def test_a_placement_on_a_budget_that_was_used_up_meanwhile_is_void():
    world = World(node(), groups=[group("a"), group("a/b")])
    job, frugal = world.submit(gpus=4, group="a/b"), world.submit(gpus=0, group="a/b")
    places = world.task_places(job, "n1")
    world.tell("accounting", f.BudgetExhausted(group="a", used_gpu_milli_ms=1))
    placements = (
        f.Placement(job=job, attempt=1, tasks=places),
        f.Placement(job=frugal, attempt=1, tasks=world.task_places(frugal, "n1")),
    )
    assert decide(world, placements=placements).voided == [job], "who uses no GPU costs nothing"
    world.tell("accounting", f.BudgetExhausted(group="a", used_gpu_milli_ms=1, exhausted=False))
    assert decide(world, placements=(f.Placement(job=job, attempt=1, tasks=places),)).voided == []


def test_two_placements_of_the_same_gpu_never_both_hold():
    world = World(node("n1", gpus=1))
    first, second = world.submit(), world.submit()
    places = world.task_places(first, "n1")
    step = decide(
        world,
        placements=(
            f.Placement(job=first, attempt=1, tasks=places),
            f.Placement(job=second, attempt=1, tasks=places),
        ),
    )
    assert step.voided == [second]
    assert world.state.use[NodeId("n1")].gpu_milli == [1000]


def test_a_decision_of_another_round_than_the_open_one_is_parked():
    world = World(node())
    job = world.submit()
    world.tell("queue.default", f.RoundOpened(pool="default", round=5, candidates=()))
    places = world.task_places(job, "n1")
    late = f.RoundDecided(pool="default", round=4, placements=(f.Placement(job=job, attempt=1, tasks=places),))
    step = world.tell("placement.default", late)
    assert step.alarms
    assert world.job(job).state == JobState.WAITING


def test_gpus_are_found_by_index_even_when_the_node_reports_gaps():
    whole = node("n1")
    gappy = replace(whole, gpus=tuple(gpu for gpu in whole.gpus if gpu.index != 3))
    world = World(gappy)
    job = world.submit(gpus=1)
    share = GpuShare(index=7, milli=1000, memory_mib=40_960)
    place = f.TaskPlacement(role="worker", index=0, node=NodeId("n1"), gpus=(share,), cpu_milli=1000, memory_mib=1024)
    step = decide(world, placements=(f.Placement(job=job, attempt=1, tasks=(place,)),))
    assert not step.voided
    assert world.tasks(job)[0].gpu_model == "A100"


def test_a_node_that_blinks_keeps_its_tasks_and_what_they_hold():
    machine = node("n1")
    world = World(machine)
    job = world.submit_running(spec(gpus=8), "n1")
    world.see(replace(machine, gpus=()))
    assert world.job(job).state == JobState.RUNNING
    assert world.state.use[NodeId("n1")].gpu_milli == [1000] * 8
    world.see(machine)
    world.finish(job)
    assert world.state.use[NodeId("n1")].gpu_milli == [0] * 8


def test_a_node_may_come_back_with_more_gpus():
    world = World(node("n1", gpus=2))
    world.see(node("n1", gpus=4))
    job = world.submit(gpus=4)
    world.place(job, "n1")
    assert world.job(job).state == JobState.STARTING
