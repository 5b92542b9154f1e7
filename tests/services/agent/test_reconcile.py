"""The agent decides from two pictures: what the log says and what the machine has."""

import pytest
from msgspec.structs import replace
from tests.make import World, node, spec

from gangline_agent.runner import Local, Phase
from gangline_core.facts import ExitCause, GpusEmpty, TaskExited, TaskPaused, TaskStarted
from gangline_core.ids import TaskId
from gangline_core.job import Task, TaskState, Working
from gangline_kit.carrying.reconcile import Decision, decide


def placed() -> Task:
    world = World(node("n1"))
    job = world.submit(spec(gpus=1))
    world.place(job, "n1")
    return world.tasks(job)[0]


TASK = placed()
STARTED = replace(TASK, state=TaskState.STARTED)
RUNNING = Local(task=TASK.id, placed_ms=TASK.placed_ms, phase=Phase.RUNNING, pid=7, started=True)
EXITED = replace(RUNNING, phase=Phase.EXITED, cause=ExitCause.EXITED, exit_code=3)
EMPTY = replace(EXITED, phase=Phase.EMPTY)
NEVER_RAN = Local(
    task=TASK.id, placed_ms=TASK.placed_ms, phase=Phase.EMPTY, cause=ExitCause.START_FAILED, error="not found"
)
ID = TASK.id


def of(task: Task | None, local: Local | None) -> Decision:
    return decide({task.id: task} if task else {}, {local.task: local} if local else {}, [ID])


def test_a_placed_task_that_is_not_here_is_started() -> None:
    assert of(TASK, None) == Decision(start=(ID,))


def test_a_task_that_is_here_is_never_started_again() -> None:
    for phase in Phase:
        local = replace(RUNNING, phase=phase)
        assert not of(TASK, local).start
        assert not of(STARTED, local).start


def test_a_running_task_is_reported_once_the_log_does_not_know_it() -> None:
    assert of(TASK, RUNNING) == Decision(facts=(TaskStarted(task=ID, pid=7),))
    assert of(STARTED, RUNNING) == Decision()


def test_a_task_that_was_over_before_anybody_looked_is_reported_whole_in_one_go() -> None:
    assert of(TASK, EMPTY).facts == (
        TaskStarted(task=ID, pid=7),
        TaskExited(task=ID, cause=ExitCause.EXITED, exit_code=3),
        GpusEmpty(tasks=(ID,)),
    )


def test_room_is_not_given_back_while_anything_of_the_task_is_left() -> None:
    assert not any(isinstance(fact, GpusEmpty) for fact in of(STARTED, EXITED).facts)
    assert of(replace(STARTED, state=TaskState.EXITED), EMPTY).facts == (GpusEmpty(tasks=(ID,)),)


def test_a_task_that_could_not_be_started_is_not_reported_as_started() -> None:
    assert of(TASK, NEVER_RAN).facts == (
        TaskExited(task=ID, cause=ExitCause.START_FAILED, error="not found"),
        GpusEmpty(tasks=(ID,)),
    )


def test_a_task_the_log_wants_stopped_is_stopped_and_one_already_ending_is_left_alone() -> None:
    assert of(replace(STARTED, stop=True), RUNNING) == Decision(stop=(ID,))
    assert of(replace(TASK, stop=True), replace(RUNNING, phase=Phase.STARTING, started=False)) == Decision(stop=(ID,))
    assert not of(replace(STARTED, stop=True), EXITED).stop


def test_a_task_stopped_before_it_was_started_never_runs() -> None:
    decision = of(replace(TASK, stop=True), None)
    assert not decision.start
    exited, empty = decision.facts
    assert isinstance(exited, TaskExited)
    assert exited.cause == ExitCause.STOPPED
    assert empty == GpusEmpty(tasks=(ID,))


def test_a_process_that_was_not_found_again_is_reported_lost_and_its_room_free() -> None:
    exited, empty = of(STARTED, None).facts
    assert isinstance(exited, TaskExited)
    assert exited.cause == ExitCause.PROCESS_LOST
    assert empty == GpusEmpty(tasks=(ID,))


@pytest.mark.parametrize("state", [TaskState.EXITED, TaskState.LOST])
def test_room_of_a_task_that_is_over_or_given_up_is_free_when_nothing_is_here(state: TaskState) -> None:
    assert of(replace(TASK, state=state), None) == Decision(facts=(GpusEmpty(tasks=(ID,)),))


def test_a_process_of_another_life_of_the_cluster_is_ended_before_its_namesake_starts() -> None:
    older = replace(RUNNING, placed_ms=TASK.placed_ms - 1)
    assert of(TASK, older) == Decision(stop=(ID,))
    assert of(TASK, replace(older, phase=Phase.EMPTY)) == Decision(forget=(ID,))


def test_what_the_log_does_not_know_is_stopped_and_then_forgotten() -> None:
    assert of(None, RUNNING) == Decision(stop=(ID,))
    assert of(None, EMPTY) == Decision(forget=(ID,))
    assert of(None, None) == Decision()


def test_many_empty_tasks_are_one_fact() -> None:
    names = [TaskId(f"1-1-worker-{k}") for k in range(3)]
    tasks = {name: replace(STARTED, id=name) for name in names}
    known = {name: replace(EMPTY, task=name) for name in names}
    assert decide(tasks, known, names).facts[-1] == GpusEmpty(tasks=tuple(names))


def test_a_task_is_told_to_stand_still_and_to_go_on_until_it_was_and_the_log_hears_of_it_once() -> None:
    told = replace(STARTED, pause=True)
    assert of(told, RUNNING) == Decision(pause=(ID,))
    assert of(told, replace(RUNNING, pausing=True)) == Decision()
    still = replace(RUNNING, pausing=True, still=True)
    assert of(told, still) == Decision(facts=(TaskPaused(task=ID),))
    assert of(replace(told, working=Working()), still) == Decision()
    assert of(STARTED, still) == Decision(go_on=(ID,))
    assert of(replace(told, stop=True), still) == Decision(stop=(ID,))


def test_an_end_that_the_agent_saw_is_told_as_one() -> None:
    for witnessed in (True, False):
        exited, *_ = of(STARTED, replace(EXITED, cause=ExitCause.PROCESS_LOST, witnessed=witnessed)).facts
        assert isinstance(exited, TaskExited)
        assert exited.witnessed == witnessed
