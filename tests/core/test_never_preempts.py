"""A job for which nobody has to make way goes before others in the queue, and waits until there is room."""

from tests.make import World, gpu_amount, group, node, role, spec

from gangline_core.job import JobState
from gangline_core.reasons import ReasonCode


def test_nobody_is_evicted_for_it_and_it_says_what_it_lacks():
    world = World(node("n1"))
    world.submit_running(spec(gpus=8), "n1")
    patient = world.submit(gpus=8, priority=100, preempts=False)
    assert not world.round().evictions
    assert world.reason(patient) == ReasonCode.INSUFFICIENT_GPUS


def test_it_goes_before_whoever_is_less_important():
    world = World(node("n1"))
    running = world.submit_running(spec(gpus=8), "n1")
    low, patient = world.submit(gpus=8), world.submit(gpus=8, priority=100, preempts=False)
    world.settle()
    assert world.job(running).state == JobState.RUNNING
    world.finish(running)
    world.settle()
    assert world.job(patient).state == JobState.RUNNING
    assert world.job(low).state == JobState.WAITING


def test_an_equal_job_that_may_still_has_others_make_way():
    """The refusal of the one is not the other's, although they ask for the same."""
    world = World(node("n1"))
    victim = world.submit_running(spec(gpus=8), "n1")
    world.submit(gpus=8, priority=100, preempts=False)
    keen = world.submit(gpus=8, priority=100)
    assert [(one.job, one.beneficiary) for one in world.round().evictions] == [(victim, keen)]


def test_no_elastic_job_is_made_smaller_for_it():
    elastic = role(tasks=8, minimum=2, maximum=8, gpus=1)
    for preempts, expected in ((False, False), (True, True)):
        world = World(node("n1"))
        world.submit_running(spec(roles=(elastic,)), *["n1"] * 8)
        world.submit(gpus=4, priority=100, preempts=preempts)
        decided = world.round()
        assert bool(decided.shrinks) == expected


def test_nor_is_a_guarantee_taken_back_for_it():
    for preempts in (False, True):
        world = World(node("n1"), groups=(group("a"), group("b", guaranteed=gpu_amount(8))))
        borrower = world.submit_running(spec(gpus=8, group="a"), "n1")
        world.submit(gpus=8, group="b", preempts=preempts)
        assert [one.job for one in world.round().evictions] == ([borrower] if preempts else [])


def test_a_limit_that_less_important_jobs_use_up_is_told_as_the_limit_it_is():
    world = World(node("n1"), groups=(group("lab", limit=gpu_amount(4)),))
    world.submit_running(spec(gpus=4, group="lab"), "n1")
    patient = world.submit(gpus=4, priority=100, preempts=False, group="lab")
    assert not world.round().evictions
    assert world.reason(patient) == ReasonCode.GROUP_LIMIT
