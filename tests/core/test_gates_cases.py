"""Public bug reports about quotas, borrowing and order, played through whole rounds: the outcome that must hold."""

from tests.make import World, gpu_amount, group, node, spec

from gangline_core import facts as f
from gangline_core.cycle import decide_round, open_round
from gangline_core.door.admission import judge_submit
from gangline_core.door.draft import Draft
from gangline_core.limits.usage_by_class import recompute
from gangline_core.reasons import ReasonCode
from gangline_core.spec import ServiceClass
from gangline_core.state import decode_snapshot, encode_snapshot

ROUNDS_MAX = 40


def settle(world: World, pool: str = "default") -> int:
    """Hold rounds, start what was placed and stop what must go, until nothing changes; how many jobs were evicted."""
    evicted = 0
    for _ in range(ROUNDS_MAX):
        opened = open_round(world.state, pool, world.at)
        if opened is None:
            return evicted
        world.tell(f"queue.{pool}", opened)
        decided = decide_round(world.state, pool, world.at)
        step = world.tell(f"placement.{pool}", decided)
        evicted += len(decided.evictions)
        assert not step.voided
        for job in sorted(world.state.live.get(pool, {})):
            if world.job(job).state == "starting":
                world.start(job)
        world.stop_all()
        check(world)
        if not (decided.placements or decided.growths or decided.evictions or decided.shrinks or decided.claims):
            return evicted
    raise AssertionError("no end of changes without anything from outside")


def check(world: World) -> None:
    """O1 to O3: nothing over capacity, usage is the sum of what lives, a gang is whole or not there."""
    for machine in world.state.kept.nodes.values():
        use = world.state.use[machine.id]
        assert all(0 <= milli <= 1000 for milli in use.gpu_milli)
        assert 0 <= use.cpu_milli <= machine.cpu_milli
    assert recompute(world.state) == {holder: use for holder, use in world.state.usage.items() if use}
    for job in world.state.live_jobs():
        if job.state in ("running", "starting"):
            assert all(job.sizes.get(role.name, 0) >= role.min_count for role in job.spec.roles)


def running(world: World, *jobs) -> list[bool]:
    return [world.job(job).state == "running" for job in jobs]


def gpus_of(world: World, path: str) -> int:
    return world.state.usage.get(path, {}).get("gpu_milli", 0) // 1000


def test_a07_a_gang_larger_than_its_queues_limit_starts_no_member_until_the_limit_is_raised():
    world = World(node(gpus=16), groups=[group("q", limit=gpu_amount(6))])
    gang = world.submit(gpus=1, tasks=6, group="q")
    world.tell("admission", f.GroupSet(group=group("q", limit=gpu_amount(4)), by="admin"))
    settle(world)
    assert world.job(gang).tasks == ()
    assert world.reason(gang) == ReasonCode.GROUP_LIMIT
    world.tell("admission", f.GroupSet(group=group("q", limit=gpu_amount(6)), by="admin"))
    settle(world)
    assert len(world.job(gang).tasks) == 6


def test_b04_two_borrowers_in_one_round_never_get_the_same_room():
    world = World(node(gpus=6), groups=[group(q, guaranteed=gpu_amount(2)) for q in ("q1", "q2", "q3")])
    world.submit_running(spec(gpus=2, group="q1"), "n1")
    world.submit_running(spec(gpus=2, group="q2"), "n1")
    one, two = world.submit(gpus=2, group="q1"), world.submit(gpus=2, group="q2")
    settle(world)
    assert sorted(running(world, one, two)) == [False, True]


def test_b14_over_booking_one_resource_does_not_block_jobs_that_do_not_use_it():
    world = World(node(gpus=16, cpus=128), groups=[group("q", limit={"gpu_milli": 8000, "cpu_milli": 100_000})])
    jobs = [world.submit(gpus=1, group="q") for _ in range(16)]
    cpu_only = world.submit(gpus=0, cpus=2, group="q")
    settle(world)
    assert sum(running(world, *jobs)) == 8
    assert running(world, cpu_only) == [True]


def test_b16_lowering_a_limit_and_restarting_keeps_what_runs_and_starts_nothing_new():
    world = World(node(), groups=[group("q", limit=gpu_amount(8))])
    jobs = [world.submit_running(spec(gpus=gpus, group="q"), "n1") for gpus in (3, 3, 2)]
    world.tell("admission", f.GroupSet(group=group("q", limit=gpu_amount(4)), by="admin"))
    waiting = world.submit(gpus=1, group="q")
    world.state = decode_snapshot(encode_snapshot(world.state))
    settle(world)
    assert (gpus_of(world, "q"), running(world, *jobs, waiting)) == (8, [True, True, True, False])
    world.finish(jobs[0])
    settle(world)
    assert running(world, waiting) == [False], "5 of 4 are still in use"
    world.finish(jobs[2])
    settle(world)
    assert running(world, waiting) == [True]


def test_c01_the_job_within_its_guarantee_is_served_before_an_older_one_beyond_it():
    world = World(
        node(), groups=[group("q1", guaranteed=gpu_amount(4)), group("q2", guaranteed=gpu_amount(4)), group("q3")]
    )
    world.submit_running(spec(gpus=4, group="q1"), "n1")
    for _ in range(2):
        world.submit_running(spec(gpus=2, group="q3"), "n1")
    beyond = world.submit(gpus=2, group="q1")
    owed = world.wait(10).submit(gpus=2, group="q2")
    assert settle(world) == 1
    assert running(world, beyond, owed) == [False, True]


def test_c02_a_job_that_can_never_fit_is_passed_over_and_costs_nobody_anything():
    world = World(node(gpus=3), groups=[group("a", guaranteed=gpu_amount(3)), group("b")])
    b1 = world.submit_running(spec(gpus=1, group="b"), "n1")
    refused = judge_submit(
        world.state, Draft(), specs=[spec(gpus=1, tasks=4, group="a")], submit_id="x", by="u", trace="", at=world.at
    )
    assert refused.refusals[0][1].code == ReasonCode.NEVER_FITS_CLUSTER
    a4 = world.submit(gpus=1, tasks=4, group="a")
    a3 = world.submit(gpus=1, tasks=3, group="a")
    assert settle(world) == 1
    assert running(world, b1, a4, a3) == [False, False, True]
    assert settle(world) == 0


def test_c04_a_queue_within_its_guarantee_enters_a_full_parent_and_gets_what_it_is_owed():
    world = World(
        node(gpus=10),
        groups=[
            group("p", limit=gpu_amount(10), guaranteed=gpu_amount(10)),
            group("p/one", guaranteed=gpu_amount(6)),
            group("p/two", guaranteed=gpu_amount(4)),
        ],
    )
    for _ in range(10):
        world.submit_running(spec(gpus=1, group="p/one"), "n1")
    owed_job = world.submit(gpus=4, group="p/two")
    assert settle(world) == 4
    assert running(world, owed_job) == [True]
    assert (gpus_of(world, "p/one"), gpus_of(world, "p/two"), gpus_of(world, "p")) == (6, 4, 10)
    assert settle(world) == 0


def test_c08_a_queue_with_only_a_limit_is_neither_owed_anything_nor_evicted_without_need():
    world = World(node(), groups=[group("q1", limit=gpu_amount(8)), group("q2", guaranteed=gpu_amount(4))])
    world.submit_running(spec(gpus=4, group="q1"), "n1")
    owed = world.submit(gpus=4, group="q2")
    assert settle(world) == 0
    assert running(world, owed) == [True]
    more = world.submit(gpus=4, group="q1")
    assert settle(world) == 0
    assert running(world, more) == [False], "without a guarantee nobody is pushed away for it"


def test_d04_a_full_pool_does_not_hold_up_another():
    world = World(node("x1", pool="x"), node("y1", pool="y"))
    world.submit_running(spec(gpus=8, pool="x", time_limit_s=3600), "x1")
    jx, jy = world.submit(gpus=8, pool="x"), world.submit(gpus=8, pool="y")
    settle(world, "x")
    settle(world, "y")
    assert running(world, jx, jy) == [False, True]


def test_d07_eight_gpus_and_three_equal_queues_give_three_three_and_two():
    world = World(node(), groups=[group("a"), group("b"), group("c")]).set_policy(formula="-10 * share_over_weight")
    for path in "abc":
        for _ in range(10):
            world.submit(gpus=1, group=path)
    settle(world)
    assert [gpus_of(world, path) for path in "abc"] == [3, 3, 2]
    assert settle(world) == 0, "nobody is evicted to correct a difference of one"


def test_d08_only_what_is_guaranteed_comes_back_by_eviction():
    """The written policy: idle room is lent; a guarantee is reclaimed, a fair share beyond it is not."""
    world = World(node(), groups=[group("a", guaranteed=gpu_amount(1)), group("b", guaranteed=gpu_amount(1))])
    for _ in range(8):
        world.submit_running(spec(gpus=1, group="a"), "n1")
    for _ in range(8):
        world.submit(gpus=1, group="b")
    assert settle(world) == 1
    assert (gpus_of(world, "a"), gpus_of(world, "b")) == (7, 1)


def test_higher_priority_makes_its_own_groups_limit_its_own():
    world = World(node(gpus=16), groups=[group("q", limit=gpu_amount(4))])
    low = world.submit_running(spec(gpus=4, group="q", level="low"), "n1")
    high = world.submit(gpus=4, group="q", level="high")
    assert settle(world) == 1
    assert running(world, low, high) == [False, True]
    assert settle(world) == 0, "the victim does not come straight back"


def test_an_elastic_job_gives_way_inside_its_groups_limit():
    world = World(node(gpus=16), groups=[group("q", limit=gpu_amount(8))])
    elastic = world.submit(gpus=1, tasks=8, minimum=2, maximum=8, group="q")
    world.run(elastic, "n1")
    other = world.submit(gpus=4, group="q")
    assert settle(world) == 0
    assert running(world, elastic, other) == [True, True]
    assert gpus_of(world, "q") == 8


def test_opportunistic_work_makes_way_for_everybody_and_pushes_nobody():
    world = World(node(), groups=[group("q", limit=gpu_amount(8))])
    loose = world.submit_running(spec(gpus=8, group="q", service_class=ServiceClass.OPPORTUNISTIC), "n1")
    plain = world.submit(gpus=8, group="q")
    assert settle(world) == 1
    assert running(world, loose, plain) == [False, True]
