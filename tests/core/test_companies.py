"""Jobs on the same GPUs by the pool's sharing rule: each has its part, and whoever is left has more."""

from collections.abc import Callable, Iterable

import pytest
from msgspec.structs import replace
from tests.make import World, gpu_amount, group, node, role, spec

from gangline_core import facts as f
from gangline_core.cluster import Policy
from gangline_core.job import JobState
from gangline_core.limits.usage_by_class import recompute
from gangline_core.pauses.pausing import companions
from gangline_core.reasons import ReasonCode
from gangline_core.settings.policy import policy_problem
from gangline_core.spec import JobSpec, ServiceClass
from gangline_core.state import decode_snapshot, encode_snapshot
from gangline_core.telling.explain import explain
from gangline_core.wake import next_wake_ms

LOADS = {"loading_ms": 400, "compute_ms": 100, "network_ms": 100, "iteration_ms": 600}
COMPUTES = {"loading_ms": 100, "compute_ms": 400, "network_ms": 100, "iteration_ms": 600}
SRSF = {"ordering": "weighted", "formula": "-gpus * remaining_hours", "predictor": "given", "starvation_s": 0}
INTERLEAVED = {**SRSF, "sharing": "interleaved", "lease_s": 600, "preemption": False}


def sharing_spec(
    stages=LOADS, *, gpus: int = 2, tasks: int = 1, hours: int = 1, most_mib: int = 9_000, cpus=1, **fields
):
    worker = role(tasks=tasks, gpus=gpus, cpus=cpus)
    worker = replace(worker, resources=replace(worker.resources, gpu_memory_most_mib=most_mib))
    return spec(roles=[worker], estimate_s=3600 * hours, attributes=stages, **fields)


def world_of(*nodes, **policy) -> World:
    return World(*(nodes or (node(gpus=2),))).set_policy(**{**INTERLEAVED, **policy})


def milli(world: World, *jobs: int) -> list[int]:
    return [share.milli for job in jobs for task in world.tasks(job) for share in task.gpus[:1]]


def running(world: World) -> list[int]:
    return world.in_state(JobState.RUNNING)


def live(
    world: World, arrivals: Iterable[tuple[JobSpec, bool]], ends: list[int], check: Callable[[World], None]
) -> None:
    """Jobs come every 5 s, after some of them rounds are held, and of those that run some end; checked all the way."""
    left = list(ends)
    for asked, settles in arrivals:
        world.wait(5).submit(asked)
        if settles:
            world.settle()
            check(world)
        at_work = running(world)
        if left and at_work:
            world.finish(at_work[left.pop() % len(at_work)])
            check(world)
    world.settle()
    check(world)


def on_gpus(world: World) -> dict[tuple[str, int], list[tuple[int, int, int]]]:
    """Per GPU who is there: job, time in thousandths, memory in MiB."""
    there: dict[tuple[str, int], list[tuple[int, int, int]]] = {}
    for task in world.state.kept.tasks.values():
        for share in task.gpus:
            there.setdefault((task.node, share.index), []).append((task.job, share.milli, share.memory_mib))
    return there


def test_two_that_interleave_start_on_the_same_gpus_each_with_half() -> None:
    world = world_of()
    first, second = world.submit(sharing_spec()), world.submit(sharing_spec(COMPUTES))
    decided = world.round()
    assert [(one.job, one.beside) for one in decided.placements] == [(first, 0), (second, first)]
    world.settle()
    assert milli(world, first, second) == [500, 500]
    assert world.state.use["n1"].gpu_milli == [1000, 1000]
    assert recompute(world.state) == {holder: use for holder, use in world.state.usage.items() if use}


def test_whoever_is_left_shares_among_fewer_and_the_last_has_all() -> None:
    world = world_of()
    jobs = [world.submit(sharing_spec(stages)) for stages in (LOADS, COMPUTES, LOADS)]
    world.settle()
    assert sorted(milli(world, *jobs)) == [333, 333, 334], "nothing is left over"
    world.wait(10).finish(jobs[0])
    assert milli(world, *jobs[1:]) == [500, 500]
    assert companions(world.state, jobs[2]) == (jobs[1],), "another one is the host"
    world.wait(10).finish(jobs[1])
    assert milli(world, jobs[2]) == [1000]
    assert not world.state.kept.packs


def test_a_gang_gives_back_the_gpus_of_each_member_as_it_goes() -> None:
    world = world_of(node("n1", gpus=2), node("n2", gpus=2))
    first, second = (world.submit(sharing_spec(stages, tasks=2)) for stages in (LOADS, COMPUTES))
    world.settle()
    assert milli(world, first, second) == [500] * 4
    gone, stays = world.tasks(first)
    world.exit(gone.id).empty(gone.id)
    by_node = {task.node: task.gpus[0].milli for task in world.tasks(second)}
    assert by_node == {gone.node: 1000, stays.node: 500}
    world.exit(stays.id).empty(stays.id)
    assert milli(world, second) == [1000, 1000]


def test_who_interleaves_worse_than_others_makes_way_for_a_better_company_when_the_lease_ends() -> None:
    world = world_of(node(gpus=4))
    loads = [world.submit(sharing_spec(LOADS, hours=2)) for _ in range(4)]
    world.settle()
    assert {len(companions(world.state, job)) for job in loads} == {1}
    computes = [world.submit(sharing_spec(COMPUTES, hours=2)) for _ in range(4)]
    world.wait(600).settle()
    assert len(running(world)) == 8
    for job in loads:
        company = [job, *companions(world.state, job)]
        kinds = [world.job(one).spec.attributes["loading_ms"] for one in company]
        assert sorted(kinds) == [100, 100, 400, 400]
    assert len(computes) == 4


@pytest.mark.parametrize("sharing", ["interleaved", ""])
def test_nobody_is_let_go_at_the_end_of_a_lease_for_an_opportunistic_job(sharing: str) -> None:
    """Seed 1800003: it was lent what two others had, and was sent away for a third as soon as it began."""
    world = world_of(sharing=sharing)
    firm = world.submit(sharing_spec(hours=9))
    world.settle()
    loose = world.submit(sharing_spec(gpus=1, service_class=ServiceClass.OPPORTUNISTIC))
    world.wait(600).settle()
    assert (running(world), world.job(loose).attempt) == ([firm], 0)
    world.finish(firm)
    world.settle()
    assert running(world) == [loose], "it has what all others leave"


@pytest.mark.parametrize("sharing", ["interleaved", ""])
def test_a_lease_seats_nobody_who_would_be_sent_away_at_once(sharing: str) -> None:
    world = world_of(sharing=sharing, preemption=True)
    less, more = world.submit(sharing_spec()), world.submit(sharing_spec(hours=9, gpus=1, priority=1))
    decided = world.round()
    assert decided is not None
    assert [one.job for one in decided.placements] == [more]
    world.settle()
    assert (running(world), world.job(less).attempt) == ([more], 0)


def test_when_others_end_companies_part_though_nobody_waits() -> None:
    world = world_of(node(gpus=4))
    jobs = [world.submit(sharing_spec(stages)) for stages in (LOADS, LOADS, COMPUTES, COMPUTES)]
    world.settle()
    assert len(world.state.kept.packs) == 2
    alone = companions(world.state, jobs[0])
    world.wait(10).finish(*(job for job in jobs if job not in (jobs[0], *alone)))
    assert not world.waiting()
    assert next_wake_ms(world.state, "default", world.at) == world.at + 590_000
    world.wait(590).round()
    world.settle()
    assert milli(world, jobs[0], *alone) == [1000, 1000]


def test_a_process_that_hangs_when_companies_part_keeps_the_pool_from_nothing_for_long() -> None:
    world = world_of(node(gpus=4), node("n2", gpus=2))
    jobs = [world.submit(sharing_spec(stages, grace_s=10, hours=9)) for stages in (*[LOADS] * 3, *[COMPUTES] * 3)]
    world.settle()
    (alone,) = companions(world.state, jobs[0])
    world.wait(10).finish(*(job for job in jobs if job not in (jobs[0], alone)))
    world.wait(590).round()
    assert world.in_state(JobState.STOPPING) == [alone]
    newcomer = world.submit(gpus=2)
    world.settle(stops=False)
    assert world.reason(newcomer) == ReasonCode.LEASE_CHANGES, "others have free GPUs for a while only"
    assert next_wake_ms(world.state, "default", world.at) == world.at + 40_000
    world.wait(39.999).round()
    assert world.job(newcomer).state == JobState.WAITING
    world.wait(0.001).round()
    world.settle(stops=False)
    assert running(world) == [jobs[0], newcomer]


@pytest.mark.parametrize(
    "fields",
    [
        {"most_mib": 0},
        {"most_mib": 35_000},
        {"stages": {}},
        {"gpus": 1, "hours": 5},
        {"cpus": 40},
        {"repair_s": 60},
    ],
    ids=["no bound of memory", "no memory", "no stages", "another size", "no CPU", "members come back alone"],
)
def test_who_cannot_share_waits(fields) -> None:
    world = world_of()
    first = world.submit(sharing_spec(cpus=40))
    second = world.submit(sharing_spec(**{"stages": COMPUTES, **fields}))
    world.settle()
    assert running(world) == [first]
    assert world.job(second).state == JobState.WAITING
    assert milli(world, first) == [1000]


def test_limits_hold_for_those_who_share() -> None:
    world = World(node(gpus=2), groups=[group(), group("small", limit=gpu_amount(0.5))]).set_policy(**INTERLEAVED)
    first = world.submit(sharing_spec())
    world.submit(sharing_spec(COMPUTES, group="small"))
    world.settle()
    assert running(world) == [first], "half of two GPUs is more than half a GPU"


def test_where_the_host_stops_before_the_decision_is_folded_the_guest_waits_on() -> None:
    world = world_of()
    first = world.submit(sharing_spec())
    world.settle()
    second = world.submit(sharing_spec(COMPUTES))
    task = world.tasks(first)[0]
    world.wait(600)
    decided = world.round()
    placed = next(one for one in decided.placements if one.job == second)
    assert placed.beside == first
    other = world_of()
    assert other.submit(sharing_spec()) == first
    other.settle()
    other.submit(sharing_spec(COMPUTES))
    other.wait(600).cancel(first)
    other.tell("placement.default", f.RoundDecided(pool="default", round=99, placements=(placed,)))
    assert other.reason(second) == ReasonCode.PLACEMENT_VOIDED
    assert milli(other, first) == [1000]
    assert task.node == "n1"


def test_a_snapshot_keeps_companies_and_the_user_reads_of_them() -> None:
    world = world_of()
    jobs = [world.submit(sharing_spec(stages)) for stages in (LOADS, COMPUTES, LOADS)]
    world.settle()
    again = decode_snapshot(encode_snapshot(world.state))
    assert again.kept.packs == world.state.kept.packs
    told = explain(world.state, jobs[1], world.at)
    assert "beside jobs" in str(told)
    assert "one of 3 parts" in str(told)


def test_a_policy_that_cannot_share_is_refused() -> None:
    for wrong in (
        Policy(sharing="anything"),
        Policy(sharing="interleaved"),
        Policy(sharing="interleaved", lease_s=60, ordering="gavel"),
        Policy(sharing="interleaved", lease_s=60, schedulers=2),
    ):
        assert policy_problem(wrong) is not None
    assert policy_problem(Policy(sharing="interleaved", lease_s=60)) is None


@pytest.mark.parametrize("policy", [{}, {"sharing": "none", "ordering": "gavel"}], ids=["interleaved", "by model"])
def test_whose_budget_is_used_up_in_the_middle_of_a_lease_does_not_start_for_having_one(policy) -> None:
    """It was placed and refused for ever: seed 1400038 of the dollhouse."""
    world = World(node(gpus=2, model="A100"), node("n2", gpus=2, model="T4"), groups=[group("a"), group("b")])
    world.set_policy(**{**INTERLEAVED, "predictor": "", **policy})
    spends = world.submit(sharing_spec(group="a", retries=3))
    world.settle()
    world.exit(*world.job(spends).tasks, code=1).empty(*world.job(spends).tasks)
    assert world.job(spends).state == JobState.WAITING
    world.tell("accounting", f.BudgetExhausted(group="a", used_gpu_milli_ms=1, exhausted=True))
    other = world.wait(5).submit(sharing_spec(group="b"))
    assert world.settle() < 50, "decisions end"
    assert running(world) == [other]
    assert world.reason(spends) == ReasonCode.BUDGET_EXHAUSTED
