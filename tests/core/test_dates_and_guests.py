"""A dated job counts on opportunistic work going when its time comes, and nobody behind it takes that room before."""

from tests.make import SECOND, World, node, spec

from gangline_core.ids import JobId
from gangline_core.reasons import ReasonCode
from gangline_core.spec import ServiceClass

LOOSE = ServiceClass.OPPORTUNISTIC


def dated(gpus: int = 8, **policy: object) -> tuple[World, JobId, JobId]:
    """Four GPUs are taken for 1,000 s, four by opportunistic work for ever; a job waits for all of `gpus`."""
    world = World(node("n1", gpus=gpus)).set_policy(ordering="fifo", starvation_s=0, **policy)
    world.submit_running(spec(gpus=4, time_limit_s=1_000, grace_s=0), ("n1", [0, 1, 2, 3]))
    loose = world.submit_running(
        spec(gpus=1, tasks=4, service_class=LOOSE, grace_s=0), *(("n1", [k]) for k in (4, 5, 6, 7))
    )
    return world, loose, world.submit(gpus=gpus)


def starts_ms(world: World) -> int:
    """The one date, from now on."""
    (date,) = world.state.kept.pools["default"].reservations
    return date.start_ms - world.at


def test_a_date_is_when_firm_work_ends_and_not_when_opportunistic_work_does():
    world, loose, _ = dated()
    world.settle()
    assert world.job(loose).tasks
    assert starts_ms(world) == 1_000 * SECOND


def test_nobody_behind_a_dated_job_takes_the_room_of_opportunistic_work_that_it_counts_on():
    world, loose, first = dated()
    behind = world.submit(gpus=4)
    world.settle()
    assert world.job(loose).tasks, "it works on until the dated job needs its room"
    assert not world.job(behind).tasks
    assert starts_ms(world) == 1_000 * SECOND
    world.wait(1_000).finish(JobId(1)).settle()
    assert world.job(first).tasks


def test_who_is_over_before_the_date_takes_the_room_of_opportunistic_work():
    world, loose, _ = dated()
    brief = world.submit(gpus=4, time_limit_s=500)
    world.settle()
    assert world.job(brief).tasks
    assert not world.job(loose).tasks


def test_what_the_dated_job_leaves_of_it_others_may_take():
    world, loose, first = dated()
    world.cancel(first)
    world.submit(gpus=5)
    behind = world.submit(gpus=3)
    world.settle()
    assert world.job(behind).tasks
    assert not world.job(loose).tasks


def test_nobody_passes_who_would_only_end_before_opportunistic_work_does():
    """All free GPUs would be gone when the dated job could start."""
    world, _, _ = dated(gpus=12)
    late = world.submit(gpus=4, time_limit_s=80_000)
    world.settle()
    assert world.reason(late) == ReasonCode.RESERVED
    assert starts_ms(world) == 1_000 * SECOND


def test_an_opportunistic_job_that_starts_beside_a_date_works_on_in_the_next_round():
    world = World(node("n1")).set_policy(ordering="fifo", starvation_s=0)
    world.submit_running(spec(gpus=4, time_limit_s=1_000), "n1")
    world.submit(gpus=8)
    behind = world.submit(gpus=4)
    loose = world.submit(gpus=4, service_class=LOOSE)
    world.settle()
    assert world.job(loose).tasks
    world.wait(5).submit(gpus=8)
    world.settle()
    assert world.job(loose).tasks
    assert not world.job(behind).tasks


def test_where_nobody_is_evicted_opportunistic_work_is_waited_for():
    world, _, _ = dated(preemption=False)
    world.settle()
    assert starts_ms(world) == 86_400 * SECOND


def test_a_job_that_evicts_nobody_waits_for_opportunistic_work():
    world = World(node("n1")).set_policy(ordering="fifo", starvation_s=0)
    world.submit_running(spec(gpus=4, service_class=LOOSE, time_limit_s=1_000), "n1")
    world.submit(gpus=8, preempts=False)
    world.settle()
    assert starts_ms(world) == 1_000 * SECOND


def test_work_that_is_protected_is_waited_for():
    world = World(node("n1")).set_policy(ordering="fifo", starvation_s=0)
    world.submit_running(spec(gpus=4, time_limit_s=100), "n1")
    world.submit_running(spec(gpus=4, service_class=LOOSE, time_limit_s=1_000, protected_s=-1), "n1")
    world.submit(gpus=8)
    world.settle()
    assert starts_ms(world) == 1_000 * SECOND
