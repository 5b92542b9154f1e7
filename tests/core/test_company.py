"""Jobs beside others: memory of a GPU without its time, and limits that follow how long a step takes the others."""

from tests.make import World, group, node, spec

from gangline_core import elasticity
from gangline_core import facts as f
from gangline_core.elasticity.limits import STEP_PERCENT
from gangline_core.groups import BudgetMode
from gangline_core.job import JobState
from gangline_core.room.company import START_PERCENT
from gangline_core.sizes.progress import Point, Progress
from gangline_core.spec import Resources, Role, ServiceClass
from gangline_core.state import decode_snapshot, encode_snapshot
from gangline_wire.contract import sizing


def role(**needs) -> Role:
    return Role(name="worker", count=1, min_count=1, max_count=1, command=("x",), resources=Resources(**needs))


def beside_spec(mib: int = 8_000, **fields):
    needs = role(beside=True, gpu_memory_mib=mib, cpu_milli=1000)
    return spec(roles=[needs], service_class=ServiceClass.OPPORTUNISTIC, **fields)


def owner_spec(most_mib: int = 30_000, **fields):
    return spec(roles=[role(gpu_milli=1000, gpu_memory_most_mib=most_mib, cpu_milli=1000)], **fields)


def report(world: World, job: int, step_us: int) -> None:
    point = Point(nodes=1, members=1, batch=32, gathered=0, step_us=step_us)
    world.wait(10).tell("telemetry", f.ProgressReported(job=job, progress=Progress(points=(point,))))


def follow(world: World) -> int:
    """The limits that follow now are set; how many."""
    found = elasticity.propose(world.state, "default", world.at)
    set_now = [fact for fact in found if isinstance(fact, f.LimitSet)]
    if set_now:
        world.wait(1).tell("elastic.default", *set_now)
    return len(set_now)


def side_by_side() -> tuple[World, int, int]:
    world = World(node(gpus=1))
    owner = world.submit(owner_spec())
    world.settle()
    report(world, owner, 100_000)
    guest = world.submit(beside_spec())
    world.settle()
    return world, owner, guest


def test_a_job_beside_another_takes_memory_and_no_time_of_its_gpu() -> None:
    world, owner, guest = side_by_side()
    assert (world.job(owner).state, world.job(guest).state) == (JobState.RUNNING, JobState.RUNNING)
    use = world.state.use["n1"]
    assert (use.gpu_milli[0], use.gpu_memory_mib[0]) == (1000, 38_000)
    assert "gpu_milli" not in world.state.usage[":ada"] or world.state.usage[":ada"]["gpu_milli"] == 1000


def test_memory_that_the_owner_may_use_is_never_given_to_others() -> None:
    world = World(node(gpus=1))
    world.submit(owner_spec(most_mib=35_000))
    world.settle()
    guest = world.submit(beside_spec(8_000))
    world.settle()
    assert world.job(guest).state == JobState.WAITING


def test_it_begins_low_rises_while_the_owner_is_as_fast_as_alone_and_is_halved_when_it_is_slower() -> None:
    world, owner, guest = side_by_side()
    assert follow(world) == 1
    assert world.job(guest).limit_percent == START_PERCENT
    for percent in (START_PERCENT + STEP_PERCENT, START_PERCENT + 2 * STEP_PERCENT, START_PERCENT + 3 * STEP_PERCENT):
        report(world, owner, 101_000)
        follow(world)
        assert world.job(guest).limit_percent == percent
    report(world, owner, 120_000)
    follow(world)
    assert world.job(guest).limit_percent == (START_PERCENT + 3 * STEP_PERCENT) // 2
    report(world, owner, 104_000)
    assert follow(world) == 0, "neither slow nor well: it stays"


def test_one_report_leads_to_one_change_at_most() -> None:
    world, owner, _ = side_by_side()
    follow(world)
    report(world, owner, 100_000)
    assert follow(world) == 1
    assert follow(world) == 0


def test_an_owner_that_does_not_report_leaves_the_limit_where_it_is() -> None:
    world = World(node(gpus=1))
    world.submit(owner_spec())
    world.settle()
    guest = world.submit(beside_spec())
    world.settle()
    follow(world)
    assert (world.job(guest).limit_percent, follow(world)) == (START_PERCENT, 0)


def test_an_owner_that_was_never_alone_is_measured_while_the_other_takes_nothing_and_the_limit_follows_then() -> None:
    world = World(node(gpus=1))
    owner = world.submit(owner_spec())
    world.settle()
    guest = world.submit(beside_spec())
    world.settle()
    follow(world)
    report(world, owner, 150_000)
    assert (follow(world), world.job(guest).limit_percent) == (1, 0)
    assert owner not in world.state.kept.alone
    report(world, owner, 100_000)
    assert world.state.kept.alone[owner][-1].step_us == 100_000
    limits = []
    for step_us in (100_000, 101_000, 120_000):
        follow(world)
        limits.append(world.job(guest).limit_percent)
        report(world, owner, step_us)
    follow(world)
    assert [*limits, world.job(guest).limit_percent] == [10, 20, 30, 15]


def test_a_report_that_came_before_the_other_can_have_let_go_is_no_measure_of_the_owner_alone() -> None:
    world = World(node(gpus=1))
    owner = world.submit(owner_spec())
    world.settle()
    guest = world.submit(beside_spec())
    world.settle()
    follow(world)
    report(world, owner, 20_000_000)
    follow(world)
    report(world, owner, 20_000_000)
    assert owner not in world.state.kept.alone, "of its steps of 20 s no whole one lay in the last 10 s"
    assert (follow(world), world.job(guest).limit_percent) == (0, 0)
    world.wait(30)
    report(world, owner, 15_000_000)
    assert world.state.kept.alone[owner][-1].step_us == 15_000_000


def test_alone_it_may_take_everything_and_begins_low_again_when_an_owner_comes() -> None:
    world, owner, guest = side_by_side()
    follow(world)
    world.finish(owner)
    follow(world)
    assert world.job(guest).limit_percent == 100
    other = world.wait(5).submit(spec(gpus=0.5, gpu_memory_mib=20_000))
    world.settle()
    follow(world)
    assert (world.job(other).state, world.job(guest).limit_percent) == (JobState.RUNNING, START_PERCENT)


def test_the_members_are_told_their_limits_by_the_same_notice() -> None:
    world, _, guest = side_by_side()
    follow(world)
    task = world.tasks(guest)[0]
    told = sizing(world.job(guest), task, [task])
    assert told.limits == {"gpu_percent": START_PERCENT, "gpu_memory_mib": 8_000}
    before = told.version
    world.tell("elastic.default", f.LimitSet(job=guest, percent=50))
    assert sizing(world.job(guest), task, [task]).version != before


def test_a_budget_that_is_used_up_stops_owners_and_not_who_works_in_what_they_leave() -> None:
    budget = group("a", budget_gpu_hours=1, budget_mode=BudgetMode.STOP)
    world = World(node(gpus=2), groups=[group(), budget])
    owner = world.submit(owner_spec(group="a"))
    world.settle()
    guest = world.submit(beside_spec(group="a"))
    world.settle()
    world.tell("accounting", f.BudgetExhausted(group="a", used_gpu_milli_ms=3_600_000_000))
    world.settle()
    assert (world.job(owner).state, world.job(guest).state) == (JobState.WAITING, JobState.RUNNING)
    another = world.submit(beside_spec(group="a"))
    world.settle()
    assert world.job(another).state == JobState.RUNNING


def test_the_measure_survives_a_restart_and_ends_with_the_job() -> None:
    world, owner, _ = side_by_side()
    twin = decode_snapshot(encode_snapshot(world.state))
    assert twin.kept.alone == world.state.kept.alone != {}
    world.finish(owner)
    assert not world.state.kept.alone
    assert not world.state.kept.reported


def test_it_begins_low_again_beside_an_older_job_that_grows_onto_its_gpu() -> None:
    needs = Resources(gpu_milli=1000, gpu_memory_most_mib=20_000, cpu_milli=1000)
    elastic = Role(name="worker", count=1, min_count=1, max_count=2, command=("x",), resources=needs)
    world = World(node(gpus=2)).set_policy(elastic_growth=False)
    first = world.submit(owner_spec(20_000))
    world.settle()
    grows = world.submit(spec(roles=[elastic]))
    world.settle()
    guest = world.wait(5).submit(beside_spec())
    world.settle()
    follow(world)
    assert world.tasks(guest)[0].gpus[0].index == world.tasks(first)[0].gpus[0].index
    world.wait(50).finish(first)
    follow(world)
    assert world.job(guest).limit_percent == 100
    world.wait(50).set_policy(elastic_growth=True)
    world.tell("elastic.default", *elasticity.propose(world.state, "default", world.at))
    world.settle()
    assert (len(world.tasks(grows)), world.job(guest).state) == (2, JobState.RUNNING)
    follow(world)
    assert world.job(guest).limit_percent == START_PERCENT


def test_a_second_owner_that_comes_while_the_limit_is_at_its_lowest_does_not_keep_it_there() -> None:
    world = World(node(gpus=1))
    owners = [world.submit(spec(gpus=0.5, gpu_memory_mib=10_000))]
    world.settle()
    report(world, owners[0], 100_000)
    guest = world.submit(beside_spec())
    world.settle()
    follow(world)
    owners.append(world.wait(5).submit(spec(gpus=0.5, gpu_memory_mib=10_000)))
    world.settle()
    for _ in range(6):
        follow(world)
        for owner in owners:
            report(world, owner, 100_000)
    follow(world)
    assert world.job(guest).limit_percent > START_PERCENT


def test_an_owner_takes_a_gpu_on_which_a_job_beside_others_was_alone_without_sending_it_away() -> None:
    world = World(node(gpus=1))
    guest = world.submit(beside_spec())
    world.settle()
    owner = world.wait(50).submit(owner_spec(30_000))
    world.settle()
    assert (world.job(owner).state, world.job(guest).state) == (JobState.RUNNING, JobState.RUNNING)
    assert world.job(guest).preemptions == 0
