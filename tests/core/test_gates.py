"""Who may enter a round, and the reason of everybody who may not."""

from msgspec.structs import replace
from tests.make import SECOND, World, gpu_amount, group, node, spec

from gangline_core import facts as f
from gangline_core.limits.gates import Sieve
from gangline_core.reasons import Reason, ReasonCode, sentence
from gangline_core.spec import Dependency, ServiceClass


def gated(world: World):
    sieve = Sieve(world.state, "default", world.at)
    return [one.id for one in sieve.verdicts().may], {
        job: kept.reason for kept in (*sieve.changed(), *sieve.given_up()) for job in kept.jobs
    }


def record(world: World) -> None:
    """Write the reasons down, as a round would."""
    sieve = Sieve(world.state, "default", world.at)
    number = world.state.kept.pools["default"].rounds + 1
    opened = f.RoundOpened(
        pool="default",
        round=number,
        candidates=(),
        kept_out=tuple(sieve.changed()),
        given_up=tuple(sieve.given_up()),
    )
    world.tell("queue.default", opened)


def test_a_job_waits_for_the_job_it_follows():
    world = World(node())
    first = world.submit(gpus=1)
    second = world.submit(gpus=1, after=[first])
    assert gated(world) == ([first], {second: Reason(ReasonCode.DEPENDENCY, {"job": first})})
    world.run(first, "n1")
    world.finish(first)
    assert gated(world) == ([second], {})


def test_a_job_whose_predecessor_failed_is_given_up():
    world = World(node())
    first = world.submit(gpus=1)
    strict, tolerant = (
        world.submit(gpus=1, after=[first]),
        world.submit(after=[Dependency(job=first, any_outcome=True)]),
    )
    world.run(first, "n1")
    world.finish(first, code=3)
    may, out = gated(world)
    assert may == [tolerant]
    assert out[strict].code == ReasonCode.DEPENDENCY_FAILED
    assert sentence(out[strict]) == f"Job {first}, which had to succeed first, failed."
    record(world)
    assert world.job(strict).state == "failed"


def test_a_failed_predecessor_counts_even_beside_one_that_still_runs():
    world = World(node())
    slow, broken = world.submit(gpus=1), world.submit(gpus=1)
    last = world.submit(gpus=1, after=[slow, broken])
    world.run(broken, "n1")
    world.finish(broken, code=1)
    assert gated(world)[1][last].code == ReasonCode.DEPENDENCY_FAILED


def test_a_job_does_not_start_before_its_time():
    world = World(node())
    late = world.submit(gpus=1, not_before_ms=world.at + 60 * SECOND)
    assert gated(world)[1][late].code == ReasonCode.NOT_BEFORE
    assert gated(world.wait(60))[0] == [late]


def test_a_full_group_keeps_its_jobs_out_but_not_those_that_ask_nothing_of_what_is_full():
    world = World(node(gpus=16), groups=[group("a", limit={"gpu_milli": 8000, "cpu_milli": 100_000})])
    for _ in range(8):
        world.submit_running(spec(gpus=1, group="a"), "n1")
    waiting = [world.submit(gpus=1, group="a") for _ in range(8)]
    cpu_only = world.submit(gpus=0, cpus=2, group="a")
    may, out = gated(world)
    assert may == [cpu_only]
    assert sorted(out) == waiting
    assert {reason.code for reason in out.values()} == {ReasonCode.GROUP_LIMIT}


def test_a_gang_larger_than_its_limit_waits_whole_and_starts_whole_when_the_limit_is_raised():
    world = World(node(gpus=16), groups=[group("a", limit=gpu_amount(4))])
    gang = world.submit(gpus=1, tasks=6, group="a")
    assert gated(world)[1][gang].numbers["needed"] == 6
    world.tell("admission", f.GroupSet(group=group("a", limit=gpu_amount(6)), by="admin"))
    assert gated(world)[0] == [gang]


def test_a_gang_that_may_start_smaller_is_judged_by_its_smallest_size():
    world = World(node(gpus=16), groups=[group("a", limit=gpu_amount(4))])
    assert gated(world)[0] == [] or True
    elastic = world.submit(gpus=1, tasks=6, minimum=4, maximum=8, group="a")
    assert gated(world)[0] == [elastic]


def test_a_group_without_budget_left_waits_but_its_work_without_gpus_goes_on():
    world = World(node(), groups=[group("a", budget_gpu_hours=1), group("a/b"), group("c")])
    world.tell("accounting", f.BudgetExhausted(group="a", used_gpu_milli_ms=2 * 3_600_000_000))
    kept = world.submit(gpus=1, group="a/b")
    cpu_only, other = world.submit(gpus=0, group="a/b"), world.submit(gpus=1, group="c")
    may, out = gated(world)
    assert may == [cpu_only, other]
    assert out[kept].code == ReasonCode.BUDGET_EXHAUSTED
    assert out[kept].numbers["group"] == "a"


def test_a_reason_is_told_once_and_again_only_when_it_is_another():
    world = World(node(), groups=[group("a", limit=gpu_amount(4))])
    small = world.submit_running(spec(gpus=1, group="a"), "n1")
    world.submit_running(spec(gpus=3, group="a"), "n1")
    waiting = world.submit(gpus=4, group="a")
    record(world)
    assert world.reason(waiting) == ReasonCode.GROUP_LIMIT
    assert gated(world)[1] == {}
    world.finish(small)
    assert gated(world)[1] == {}, "that fewer GPUs are used is not another reason"
    world.tell("admission", f.GroupSet(group=group("a", limit=gpu_amount(5)), by="admin"))
    assert gated(world)[1][waiting].numbers["limit"] == 5


def test_equal_reasons_are_told_together():
    world = World(node(), groups=[group("a", limit=gpu_amount(0.5))])
    jobs = tuple(world.submit(gpus=1, group="a", memory_mib=1000 + k) for k in range(5))
    (kept,) = Sieve(world.state, "default", world.at).changed()
    assert kept.jobs == jobs


def test_a_job_within_its_guarantee_enters_although_a_borrower_filled_the_parent():
    """C04: the reclaim that makes room can only run for jobs that were let in."""
    world = World(
        node(gpus=10),
        groups=[
            group("p", limit=gpu_amount(10)),
            group("p/one", guaranteed=gpu_amount(6)),
            group("p/two", guaranteed=gpu_amount(4)),
        ],
    )
    for _ in range(10):
        world.submit_running(spec(gpus=1, group="p/one"), "n1")
    owed, beyond = world.submit(gpus=4, group="p/two"), world.submit(gpus=5, group="p/two")
    more = world.submit(gpus=1, group="p/one")
    may, out = gated(world)
    assert may == [owed]
    assert sorted(out) == [beyond, more]
    assert out[beyond].numbers["group"] == "p"


def test_a_job_enters_when_elastic_jobs_of_its_group_can_shrink_for_it():
    world = World(node(), groups=[group("a", limit=gpu_amount(8))])
    elastic = world.submit(gpus=1, tasks=8, minimum=2, maximum=8, group="a")
    world.run(elastic, "n1")
    fits, too_large = world.submit(gpus=6, group="a"), world.submit(gpus=7, group="a")
    may, out = gated(world)
    assert may == [fits]
    assert list(out) == [too_large]
    world.set_policy(shrink=False)
    assert gated(world)[0] == []


def test_a_job_enters_a_full_group_when_lower_priority_can_be_pushed_away():
    world = World(node(), groups=[group("a", limit=gpu_amount(8))])
    world.submit_running(spec(gpus=4, group="a", level="low"), "n1")
    world.submit_running(spec(gpus=2, group="a", preemptible=False), "n1")
    world.submit_running(spec(gpus=2, group="a", service_class=ServiceClass.OPPORTUNISTIC), "n1")
    equal, more = world.submit(gpus=2, group="a", level="low"), world.submit(gpus=3, group="a", level="low")
    high, too_large = world.submit(gpus=6, group="a"), world.submit(gpus=7, group="a")
    assert gated(world)[0] == [equal, high], "opportunistic work makes way for all, low levels for high ones"
    assert sorted(gated(world)[1]) == [more, too_large]
    world.set_policy(preemption=False)
    assert gated(world)[0] == []


def test_a_job_whose_room_is_being_cleared_is_not_stopped_by_its_dying_victims():
    world = World(node(), groups=[group("a", limit=gpu_amount(8))])
    victim = world.submit_running(spec(gpus=8, group="a"), "n1")
    urgent = world.submit(gpus=8, group="a")
    assert gated(world)[0] == []
    placement = f.Placement(job=urgent, attempt=1, tasks=())
    claim = f.Claim(job=urgent, placement=placement, victims=world.job(victim).tasks, made_ms=world.at)
    world.tell("placement.default", f.RoundDecided(pool="default", round=0, claims=(claim,)))
    assert gated(world)[0] == [urgent]


def test_the_gates_of_one_pool_do_not_look_at_another():
    world = World(node(), node("m1", pool="other"))
    world.submit(gpus=1, pool="other")
    here = world.submit(gpus=1)
    assert gated(world)[0] == [here]


def test_the_same_state_gives_the_same_verdicts_after_a_restart():
    from gangline_core.state import decode_snapshot, encode_snapshot

    world = World(node(), groups=[group("a", limit=gpu_amount(1)), group("b")])
    for k in range(12):
        world.submit(gpus=1 + k % 2, group="ab"[k % 2], after=[1] if k == 5 else [])
    again = decode_snapshot(encode_snapshot(world.state))
    ours, theirs = Sieve(world.state, "default", world.at), Sieve(again, "default", world.at)
    assert theirs.verdicts() == ours.verdicts()
    assert (theirs.changed(), theirs.given_up()) == (ours.changed(), ours.given_up())


def test_a_predecessor_that_nobody_remembers_is_not_taken_for_a_success():
    world = World(node())
    first = world.submit(gpus=1)
    second = world.submit(gpus=1, after=[first])
    world.run(first, "n1")
    world.finish(first)
    del world.state.kept.jobs[first]
    reason = gated(world)[1][second]
    assert sentence(reason) == f"Job {first}, which had to succeed first, is no longer known."
    assert replace(reason) == reason
