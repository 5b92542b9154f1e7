"""With recursive bisection a task may wait for a better place (Amaral et al., SC 2017), and is told so."""

from tests.core.test_cells import machine
from tests.make import World, spec

from gangline_core.cluster import Policy
from gangline_core.job import JobState
from gangline_core.reasons import ReasonCode, sentence
from gangline_core.settings.policy import policy_problem


def world(percent: int) -> World:
    """One machine on which a pair of GPUs is free only on two sockets."""
    made = World(machine("n1"))
    made.set_policy(placement="bisection", preemption=False, postpone_percent=percent)
    for gpus in ([0, 1, 2], [4, 5, 6]):
        made.submit_running(spec(gpus=3, cpus=0), ("n1", gpus))
    return made


def test_a_task_waits_while_its_best_place_is_not_good_enough():
    made = world(80)
    job = made.submit(spec(gpus=2, cpus=0))
    made.round()
    assert made.job(job).state == JobState.WAITING
    assert made.reason(job) == ReasonCode.POSTPONED
    numbers = made.job(job).reason.numbers
    assert numbers["best"] < numbers["least"] <= 80
    assert f"{numbers['best']} %" in sentence(made.job(job).reason)


def test_it_starts_as_soon_as_the_place_is_good():
    made = world(80)
    job = made.submit(spec(gpus=2, cpus=0))
    made.round()
    made.finish(1)
    made.round()
    assert made.job(job).state == JobState.STARTING
    [task] = made.tasks(job)
    assert [share.index for share in task.gpus] == [0, 1]


def test_without_the_wish_it_takes_what_there_is():
    made = world(0)
    job = made.submit(spec(gpus=2, cpus=0))
    made.round()
    assert made.job(job).state == JobState.STARTING


def test_nobody_waits_for_more_than_an_empty_machine_could_give():
    made = World(machine("n1"))
    made.set_policy(placement="bisection", postpone_percent=100)
    job = made.submit(spec(gpus=5, cpus=0))
    made.round()
    assert made.job(job).state == JobState.STARTING


def test_where_there_is_no_room_at_all_that_is_said():
    made = world(80)
    job = made.submit(spec(gpus=3, cpus=0))
    made.round()
    assert made.reason(job) == ReasonCode.INSUFFICIENT_GPUS


def test_the_bound_is_checked_when_it_is_set():
    assert policy_problem(Policy(postpone_percent=101)).field == "postpone_percent"
