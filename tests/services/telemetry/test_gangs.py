"""Members that hold their gang up, and what shows that a gang hangs: reports, heartbeats, records, idle GPUs."""

from tests.make import World, node, spec

from gangline_core import facts as f
from gangline_core.job import JobState
from gangline_core.reasons import sentence
from gangline_core.sizes.progress import Point, Progress
from gangline_core.spec import Elastic, ResizeKind
from gangline_telemetry.busy import Busy
from gangline_telemetry.config import Config
from gangline_telemetry.progress import Stories
from gangline_telemetry.stragglers import Stragglers
from gangline_wire.samples import GpuSample, JobReport, NodeSample, Samples


def step(job: int, task: str, step_us: int, number: int = 0) -> JobReport:
    progress = Progress(step=number, points=(Point(nodes=1, members=4, batch=1, gathered=0, step_us=step_us),))
    return JobReport(job=job, attempt=1, task=task, progress=progress)


# --- stragglers -------------------------------------------------------------------------------------------------------


def a_gang(tasks: int = 4) -> tuple[World, int, list[str]]:
    world = World(node("n1"))
    job = world.submit_running(spec(gpus=1, tasks=tasks), "n1")
    return world, job, [task.id for task in world.tasks(job)]


def paced(world: World, job: int, watch: Stragglers, times_us: dict[str, int], *, first_s: float) -> list[f.Fact]:
    """A minute in which each member reports every five seconds; what was found is told."""
    found: list[f.Fact] = []
    for k in range(13):
        reports = tuple(step(job, task, us) for task, us in times_us.items())
        watch.hear(Samples(agent="sim", nodes=(), reports=reports), world.state, first_s + 5.0 * k)
        facts = watch.judge(world.state, first_s + 5.0 * k)
        if facts:
            world.tell("telemetry", *facts)
        found += facts
    return found


def test_a_member_that_is_slower_than_its_like_is_told_once_and_taken_back_when_it_is_no_longer() -> None:
    world, job, members = a_gang()
    watch = Stragglers(Config())
    even = dict.fromkeys(members, 100_000)
    assert paced(world, job, watch, even, first_s=0) == []
    slow = even | {members[2]: 180_000}
    [told] = paced(world, job, watch, slow, first_s=100) + paced(world, job, watch, slow, first_s=200)
    assert told == f.StragglersSeen(job=job, attempt=1, slow={members[2]: 180})
    assert world.state.kept.stragglers[job] == told
    assert world.job(job).state == JobState.RUNNING, "shown, and no reason to do anything"
    [back] = paced(world, job, watch, even, first_s=300) + paced(world, job, watch, even, first_s=400)
    assert back.slow == {}
    assert job not in world.state.kept.stragglers


def test_heartbeats_show_a_straggler_as_well() -> None:
    world, job, members = a_gang()
    watch = Stragglers(Config())
    found: list[f.Fact] = []
    for second in range(0, 300):
        beats = {task: 1000 * (second - second % (20 if task == members[0] else 10)) for task in members}
        watch.hear(Samples(agent="sim", nodes=(), beats=beats), world.state, float(second))
        found += watch.judge(world.state, float(second))
    assert found
    assert found[0] == f.StragglersSeen(job=job, attempt=1, slow={members[0]: 200})


def test_one_slow_step_of_two_members_and_members_of_other_roles_make_no_straggler() -> None:
    world, job, members = a_gang(2)
    assert paced(world, job, Stragglers(Config()), {members[0]: 100_000, members[1]: 900_000}, first_s=0) == []
    world, job, members = a_gang()
    watch = Stragglers(Config())
    assert paced(world, job, watch, dict.fromkeys(members, 100_000), first_s=0) == []
    watch.hear(Samples(agent="sim", nodes=(), reports=(step(job, members[0], 9_000_000),)), world.state, 70.0)
    assert paced(world, job, watch, dict.fromkeys(members, 100_000), first_s=71) == []


def test_members_of_before_a_growth_are_not_slow_for_the_longer_steps_that_they_made_then() -> None:
    world = World(node("n1"))
    job = world.submit_running(spec(gpus=1, tasks=1, minimum=1, maximum=4), "n1")
    watch = Stragglers(Config())
    [old] = (task.id for task in world.tasks(job))
    assert paced(world, job, watch, {old: 8_000_000}, first_s=0) == []
    world.tell("elastic.default", f.ResizeProposed(pool="default", job=job, role="worker", size=4))
    world.settle()
    members = [task.id for task in world.tasks(job)]
    assert len(members) == 4
    even = dict.fromkeys(members, 2_000_000)
    assert paced(world, job, watch, even, first_s=100) == []
    assert paced(world, job, watch, even, first_s=165) == []
    slow = even | {members[1]: 4_000_000}
    [told] = paced(world, job, watch, slow, first_s=300) + paced(world, job, watch, slow, first_s=400)
    assert told.slow == {members[1]: 200}


def test_a_new_attempt_begins_without_what_was_held_against_the_last() -> None:
    world, job, members = a_gang()
    watch = Stragglers(Config())
    slow = dict.fromkeys(members, 100_000) | {members[2]: 180_000}
    paced(world, job, watch, slow, first_s=0)
    paced(world, job, watch, slow, first_s=100)
    assert world.state.kept.stragglers[job].attempt == 1
    world.tell("telemetry", f.GangHung(job=job, attempt=1, task=members[0], silent_s=600))
    world.settle()
    assert world.job(job).attempt == 2
    assert watch.judge(world.state, 400.0) == ()
    assert watch.paces == {}
    world.finish(job)
    assert world.state.kept.stragglers == {}


# --- gangs that hang ------------------------------------------------------------------------------------------------


def test_members_that_all_report_the_same_step_all_make_progress() -> None:
    world = World(node("n1")).set_policy(hang_s=300)
    job = world.submit_running(spec(gpus=1, tasks=4), "n1")
    members = [task.id for task in world.tasks(job)]
    stories = Stories()
    for second in range(0, 1000, 10):
        reports = tuple(step(job, task, 1000, number=second) for task in members)
        stories.hear(Samples(agent="sim", nodes=(), reports=reports), world.state, float(second))
        assert not any(isinstance(fact, f.GangHung) for fact in stories.judge(world.state, float(second)))


def minute(world: World, busy: Busy, stories: Stories, number: int, *percents: int | None) -> list[f.GangHung]:
    """One window in which each GPU of the node is as busy as said."""
    gpus = tuple(GpuSample(index=k, utilisation_percent=percent) for k, percent in enumerate(percents))
    busy.hear(NodeSample(node="n1", at=world.at, gpus=gpus))
    now_s = 60.0 * (number + 1)
    assert busy.is_due(now_s)
    stories.compare(world.state, busy, now_s)
    busy.summaries(world.state, now_s)
    return [fact for fact in stories.judge(world.state, now_s) if isinstance(fact, f.GangHung)]


def test_a_rank_whose_gpu_stands_still_while_the_others_work_hangs_its_gang() -> None:
    world = World(node("n1")).set_policy(hang_s=300)
    job = world.submit_running(spec(gpus=1, tasks=3), "n1")
    stories, busy = Stories(), Busy(Config(), 0.0)
    where = {task.id: task.gpus[0].index for task in world.tasks(job)}
    victim = next(name for name, index in where.items() if index == 1)
    assert minute(world, busy, stories, 0, 90, 90, 90) == []
    for number in range(1, 6):
        assert minute(world, busy, stories, number, 99, 0, 99) == []
    [hung] = minute(world, busy, stories, 6, 99, 0, 99)
    assert hung == f.GangHung(job=job, attempt=1, task=victim, silent_s=360, sign="idle")
    world.tell("telemetry", hung)
    assert sentence(world.job(job).reason) == (
        f"Task {victim} made no progress for 360 s (its GPUs stand still while those of the others work); "
        "the gang starts again from its checkpoint."
    )
    world.settle()
    assert (world.job(job).state, world.job(job).retries_used) == (JobState.RUNNING, 0)


def test_a_rank_that_never_worked_or_is_not_measured_or_idles_with_all_others_hangs_nobody() -> None:
    for percents in ((99, 0, 99), (99, None, 99), (0, 0, 0)):
        world = World(node("n1")).set_policy(hang_s=300)
        world.submit_running(spec(gpus=1, tasks=3), "n1")
        stories, busy = Stories(), Busy(Config(), 0.0)
        if percents != (99, 0, 99):
            minute(world, busy, stories, 0, 90, 90, 90)
        assert not [hung for number in range(1, 30) for hung in minute(world, busy, stories, number, *percents)]


def test_a_record_of_a_collective_that_was_given_up_counts_once_the_program_still_stands_after_a_minute() -> None:
    world = World(node("n1")).set_policy(hang_s=600)
    job = world.submit_running(spec(gpus=1, tasks=2), "n1")
    task = world.tasks(job)[1].id
    stories = Stories()
    for second in range(0, 61, 10):
        stories.hear(Samples(agent="sim", nodes=(), stuck=(task,)), world.state, float(second))
        assert stories.judge(world.state, float(second)) == ()
    [hung] = stories.judge(world.state, 62.0)
    assert (hung.task, hung.sign) == (task, "collective")


def test_where_the_pool_sets_no_time_no_sign_restarts_anybody() -> None:
    world = World(node("n1"))
    job = world.submit_running(spec(gpus=1, tasks=3), "n1")
    stories, busy = Stories(), Busy(Config(), 0.0)
    stories.hear(Samples(agent="sim", nodes=(), stuck=(world.tasks(job)[0].id,)), world.state, 0.0)
    minute(world, busy, stories, 0, 90, 90, 90)
    assert not [hung for number in range(1, 60) for hung in minute(world, busy, stories, number, 99, 0, 99)]


def test_a_gang_that_met_late_is_not_called_hung_for_that_time_and_whoever_stands_still_after_it_is() -> None:
    world = World(node("n1")).set_policy(hang_s=300)
    elastic = Elastic(kind=ResizeKind.TORCHRUN, confirm_s=1200)
    job = world.submit_running(spec(gpus=1, tasks=2, minimum=1, maximum=4, elastic=elastic), "n1")
    names, stories = [task.id for task in world.tasks(job)], Stories()

    def hung(at_s: float, number: int, *tasks: str) -> list[f.GangHung]:
        said = tuple(JobReport(job=job, attempt=1, task=name, progress=Progress(step=number)) for name in tasks)
        stories.hear(Samples(agent="sim", nodes=(), reports=said), world.state, at_s)
        return [fact for fact in stories.judge(world.state, at_s) if isinstance(fact, f.GangHung)]

    for k in range(10):
        assert hung(10.0 * k, k, *names) == []
    world.tell("elastic.default", f.ResizeProposed(pool="default", job=job, role="worker", size=4))
    world.round()
    world.start(job)
    assert hung(500.0, 9) == []
    world.tell("agent.sim", f.ResizeConfirmed(job=job, number=1, size=4))
    assert world.job(job).state == JobState.RUNNING
    assert hung(501.0, 9) == []
    assert hung(700.0, 10, names[0]) == []
    [told] = hung(802.0, 11, names[0])
    assert told.task == names[1], "whoever does not move for so long after it hangs"
