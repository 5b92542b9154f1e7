"""A change of size goes by its table, whatever its job is; it may fail at every stage and be overtaken at any time."""

import pytest
from tests.make import World, gpu_amount, group, node, spec

from gangline_core import elasticity
from gangline_core import facts as f
from gangline_core.elasticity.stuck import stuck
from gangline_core.job import IllegalMoveError, JobState, ResizeStage
from gangline_core.reasons import ReasonCode
from gangline_core.sizes import resizing
from gangline_core.sizes.resizing import OVER, STAGES, ResizeEvent
from gangline_core.spec import Elastic, ResizeKind
from gangline_core.state import decode_snapshot, encode_snapshot


def running(world: World, kind: ResizeKind, *, size: int = 4, group: str = "", **terms: int) -> int:
    asked = spec(gpus=1, tasks=size, minimum=1, maximum=8, group=group, elastic=Elastic(kind=kind, **terms))
    return world.submit_running(asked, "n1")


def propose(world: World, job: int, size: int) -> None:
    world.tell("elastic.default", f.ResizeProposed(pool="default", job=job, role="worker", size=size))
    world.round()


def stage(world: World, job: int) -> ResizeStage:
    return world.job(job).resize.stage


def starting(world: World, job: int) -> list[str]:
    return [task.id for task in world.tasks(job) if task.state == "placed"]


def test_every_stage_that_is_not_over_can_be_overtaken_and_get_stuck_and_none_that_is_over_moves() -> None:
    for one in ResizeStage:
        moves = {event for before, event in STAGES if before == one}
        assert ({ResizeEvent.STUCK, ResizeEvent.OVERTAKEN} <= moves) == (one not in OVER)
        assert bool(moves) == (one not in OVER)


def test_a_move_that_is_not_in_the_table_is_refused() -> None:
    world = World(node())
    job = running(world, ResizeKind.TORCHRUN, confirm_s=60)
    propose(world, job, 2)
    with pytest.raises(IllegalMoveError):
        resizing.advanced(resizing.advanced(world.job(job), ResizeEvent.MET, world.at), ResizeEvent.SAFE, world.at)


def test_independent_workers_come_and_go_without_a_word() -> None:
    world = World(node())
    job = running(world, ResizeKind.TASKS)
    propose(world, job, 6)
    assert (world.job(job).state, stage(world, job)) == (JobState.RESIZING, ResizeStage.APPLYING)
    world.start(job)
    assert (world.job(job).state, stage(world, job)) == (JobState.RUNNING, ResizeStage.SETTLED)
    propose(world, job, 3)
    assert [task.leaves for task in world.tasks(job) if task.stop] == [False] * 3
    world.stop_all()
    assert (world.job(job).sizes, stage(world, job)) == ({"worker": 3}, ResizeStage.SETTLED)
    assert world.job(job).resize.number == 2


def test_members_of_a_gang_that_meets_anew_are_told_first_and_their_room_comes_back_only_when_they_are_gone() -> None:
    world = World(node(), groups=[group("q", limit=gpu_amount(8))])
    job = running(world, ResizeKind.TORCHRUN, group="q", notice_s=30)
    propose(world, job, 2)
    leaving = [task for task in world.tasks(job) if task.stop]
    assert all(task.leaves for task in leaving)
    assert len(leaving) == 2
    assert all(task.rank > 0 for task in leaving)
    assert stage(world, job) == ResizeStage.NOTICED
    world.tell("agent.sim", f.MemberSafe(task=leaving[0].id))
    assert stage(world, job) == ResizeStage.NOTICED
    world.tell("agent.sim", f.MemberSafe(task=leaving[1].id))
    assert stage(world, job) == ResizeStage.APPLYING
    assert world.state.usage["q"]["gpu_milli"] == 4000
    world.exit(*(task.id for task in leaving), code=143, cause=f.ExitCause.STOPPED)
    assert world.state.usage["q"]["gpu_milli"] == 4000
    world.empty(*(task.id for task in leaving))
    assert world.state.usage["q"]["gpu_milli"] == 2000
    assert stage(world, job) == ResizeStage.SETTLED


def test_a_member_that_never_says_safe_leaves_all_the_same() -> None:
    world = World(node())
    job = running(world, ResizeKind.SIGNAL, notice_s=5)
    propose(world, job, 2)
    world.stop_all()
    assert (world.job(job).state, stage(world, job)) == (JobState.RUNNING, ResizeStage.SETTLED)


def test_a_gang_that_wants_to_confirm_is_settled_by_its_word_and_by_the_word_for_this_change_only() -> None:
    world = World(node())
    job = running(world, ResizeKind.TORCHRUN, confirm_s=60)
    propose(world, job, 6)
    world.start(job)
    assert (world.job(job).state, stage(world, job)) == (JobState.RESIZING, ResizeStage.CONFIRMING)
    world.tell("agent.sim", f.ResizeConfirmed(job=job, number=0, size=6))
    assert stage(world, job) == ResizeStage.CONFIRMING
    world.wait(7).tell("agent.sim", f.ResizeConfirmed(job=job, number=1, size=6))
    assert (world.job(job).state, stage(world, job)) == (JobState.RUNNING, ResizeStage.SETTLED)
    assert world.job(job).resize_cost_ms == 7000


def test_a_gang_that_does_not_meet_in_time_starts_anew_and_its_retries_are_untouched() -> None:
    world = World(node())
    job = running(world, ResizeKind.TORCHRUN, confirm_s=60)
    propose(world, job, 6)
    world.start(job)
    assert stuck(world.state, "default", world.at + 59_000) == ()
    world.wait(60)
    late = elasticity.propose(world.state, "default", world.at)
    assert late == (f.ResizeFailed(job=job, number=1, stage=ResizeStage.CONFIRMING),)
    world.tell("elastic.default", *late)
    assert world.reason(job) == ReasonCode.RESIZE_FAILED
    world.stop_all()
    assert (world.job(job).state, world.job(job).retries_used) == (JobState.WAITING, 0)
    assert stage(world, job) == ResizeStage.FAILED


def test_new_members_that_do_not_start_in_time_are_given_back_and_the_others_go_on() -> None:
    world = World(node())
    job = running(world, ResizeKind.TORCHRUN, start_s=20)
    propose(world, job, 8)
    first = starting(world, job)[0]
    world.tell("agent.sim", f.TaskStarted(task=first))
    world.wait(20)
    world.tell("elastic.default", *elasticity.propose(world.state, "default", world.at))
    world.stop_all()
    assert world.job(job).state == JobState.RUNNING
    assert world.job(job).sizes == {"worker": 5}
    assert stage(world, job) == ResizeStage.FAILED


def test_a_gang_that_must_start_again_keeps_its_room_and_gets_the_new_one_with_it() -> None:
    world = World(node("n1"), groups=[group("q", limit=gpu_amount(6)), group("r")]).set_policy(shrink=False)
    job = running(world, ResizeKind.RESTART, group="q")
    before = {(task.node, task.gpus) for task in world.tasks(job)}
    propose(world, job, 6)
    assert (world.job(job).state, world.reason(job)) == (JobState.STOPPING, ReasonCode.RESIZING)
    thief = world.submit(gpus=4, group="r")
    world.round()
    assert world.job(thief).state == JobState.WAITING
    world.settle()
    assert (world.job(job).state, world.job(job).sizes) == (JobState.RUNNING, {"worker": 6})
    assert before < {(task.node, task.gpus) for task in world.tasks(job)}
    assert stage(world, job) == ResizeStage.SETTLED
    assert (world.job(job).attempt, world.job(job).retries_used, world.job(job).preemptions) == (2, 0, 0)


def test_growth_of_such_a_gang_that_its_limit_forbids_stops_nobody() -> None:
    world = World(node(), groups=[group("q", limit=gpu_amount(5))])
    job = running(world, ResizeKind.RESTART, group="q")
    propose(world, job, 8)
    world.settle()
    assert world.job(job).sizes == {"worker": 5}
    propose(world, job, 8)
    assert (world.job(job).state, world.job(job).attempt) == (JobState.RUNNING, 2)


def test_such_a_gang_shrinks_to_admit_another_and_keeps_the_places_of_those_that_stay() -> None:
    world = World(node())
    job = running(world, ResizeKind.RESTART, size=8)
    stays = {task.gpus for task in world.tasks(job)[:5]}
    other = world.submit(gpus=3)
    world.settle()
    assert (world.job(job).state, world.job(other).state) == (JobState.RUNNING, JobState.RUNNING)
    assert {task.gpus for task in world.tasks(job)} == stays
    assert world.job(job).attempt == 2


def test_a_node_that_is_lost_while_the_gang_starts_again_leaves_it_in_the_queue_with_its_turn() -> None:
    world = World(node("n1"), node("n2"))
    job = running(world, ResizeKind.RESTART)
    propose(world, job, 8)
    world.tell("telemetry", f.NodeLost(node="n1", silent_ms=31_000))
    world.settle()
    assert world.job(job).state == JobState.RUNNING
    assert {task.node for task in world.tasks(job)} == {"n2"}
    assert not world.state.kept.claims


@pytest.mark.parametrize("kind", list(ResizeKind))
def test_a_cancel_at_any_stage_ends_the_job_and_returns_everything(kind: ResizeKind) -> None:
    world = World(node())
    job = running(world, kind, notice_s=30, confirm_s=60)
    propose(world, job, 2)
    world.cancel(job)
    assert not any(task.leaves for task in world.tasks(job))
    world.stop_all()
    assert world.job(job).state == JobState.CANCELLED
    assert not world.state.kept.claims
    assert not world.state.kept.tasks
    assert stage(world, job) == ResizeStage.OVERTAKEN


@pytest.mark.parametrize("kind", list(ResizeKind))
def test_a_state_restored_at_any_stage_goes_on_to_the_same_bytes(kind: ResizeKind) -> None:
    world = World(node())
    job = running(world, kind, notice_s=30, confirm_s=60)
    propose(world, job, 6)
    while world.job(job).resize.stage not in OVER:
        world.state = decode_snapshot(encode_snapshot(world.state))
        before = encode_snapshot(world.state)
        if starting(world, job):
            world.start(job)
        elif world.job(job).resize.stage == ResizeStage.CONFIRMING:
            number = world.job(job).resize.number
            world.tell("agent.sim", f.ResizeConfirmed(job=job, number=number, size=6))
        else:
            world.stop_all()
            world.round()
        assert encode_snapshot(world.state) != before
    assert world.job(job).sizes == {"worker": 6}


def test_a_size_by_hand_is_given_and_kept_whatever_the_policy_thinks() -> None:
    world = World(node())
    job = running(world, ResizeKind.TASKS)
    world.tell("admission", f.ResizeAsked(job=job, role="worker", size=2, by="ada"))
    world.tell("elastic.default", *elasticity.propose(world.state, "default", world.at))
    world.settle()
    assert world.job(job).sizes == {"worker": 2}
    assert elasticity.propose(world.state, "default", world.at) == ()
    world.tell("admission", f.ResizeAsked(job=job, role="worker", size=0, by="ada"))
    [back] = elasticity.propose(world.state, "default", world.at)
    assert back.size == 8


def test_a_job_is_left_alone_for_its_cool_down() -> None:
    world = World(node("n1"), node("n2", gpus=0))
    job = running(world, ResizeKind.TASKS, cooldown_s=300)
    propose(world, job, 6)
    world.start(job)
    world.see(node("n2", gpus=4))
    assert elasticity.propose(world.state, "default", world.at + 299_000) == ()
    [later] = elasticity.propose(world.state, "default", world.at + 300_000)
    assert later.size == 8
