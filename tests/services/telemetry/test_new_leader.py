"""What is asked of a gang that hangs or is held up does not depend on who leads telemetry, nor on late words."""

import pytest
from tests.make import World, node, spec
from tests.services.telemetry.test_gangs import step

from gangline_core import facts as f
from gangline_core.job import JobState
from gangline_core.sizes.progress import Progress
from gangline_telemetry.busy import Busy
from gangline_telemetry.config import Config
from gangline_telemetry.progress import Stories
from gangline_telemetry.stragglers import Stragglers
from gangline_wire.samples import GpuSample, JobReport, NodeSample, Samples

REPORTS, BEATS = "reports", "beats"


def gang(tasks: int) -> tuple[World, int, list[str]]:
    world = World(node("n1")).set_policy(hang_s=300)
    job = world.submit_running(spec(gpus=1, tasks=tasks), "n1")
    return world, job, [task.id for task in world.tasks(job)]


def say(job: int, members: list[str], how: str, number: int, attempt: int = 1) -> Samples:
    if how == BEATS:
        return Samples(agent="sim", nodes=(), beats={name: 1_000_000 + number for name in members})
    reports = tuple(JobReport(job=job, attempt=attempt, task=name, progress=Progress(step=number)) for name in members)
    return Samples(agent="sim", nodes=(), reports=reports)


def heard(stories: Stories, world: World, said: Samples, second: float) -> list[f.GangHung]:
    """Hear it, judge, and have it written."""
    stories.hear(said, world.state, second)
    facts = stories.judge(world.state, second)
    if facts:
        world.tell("telemetry", *facts)
    return [fact for fact in facts if isinstance(fact, f.GangHung)]


@pytest.mark.parametrize(("how", "tasks"), [(REPORTS, 1), (REPORTS, 2), (BEATS, 1), (BEATS, 2)])
def test_a_gang_that_hangs_while_the_leader_changes_is_found_by_the_next_one(how: str, tasks: int) -> None:
    world, job, members = gang(tasks)
    first = Stories(world.state, 0.0)
    for k in range(5):
        assert heard(first, world, say(job, members, how, k), 10.0 * k) == []
    # It hangs; its members say nothing any more, their files stay as they are.
    last = Samples(agent="sim", nodes=()) if how == REPORTS else say(job, members, how, 4)
    second = Stories(world.state, 1000.0)
    assert [hung for at in range(1000, 1300, 10) for hung in heard(second, world, last, float(at))] == []
    [hung] = heard(second, world, last, 1311.0)
    assert (hung.task, hung.attempt) == (members[0], 1)
    world.settle()
    assert (world.job(job).state, world.job(job).attempt) == (JobState.RUNNING, 2)
    # The next attempt is missed only once it moved itself.
    third = Stories(world.state, 2000.0)
    assert [hung for at in range(2000, 4000, 50) for hung in heard(third, world, last, float(at))] == []


def test_members_that_never_said_anything_and_those_that_left_are_not_missed_by_the_next_leader() -> None:
    world, job, members = gang(2)
    first = Stories(world.state, 0.0)
    for k in range(5):
        heard(first, world, say(job, members[:1], REPORTS, k), 10.0 * k)
    second = Stories(world.state, 1000.0)
    for k in range(5, 100):
        assert heard(second, world, say(job, members[:1], REPORTS, k), 1000.0 + 10 * k) == []


def test_a_single_sign_of_life_is_none_for_the_next_leader_either() -> None:
    world, job, members = gang(1)
    heard(Stories(world.state, 0.0), world, say(job, members, REPORTS, 0), 0.0)
    second = Stories(world.state, 1000.0)
    assert [
        hung for at in range(1000, 3000, 50) for hung in heard(second, world, Samples(agent="a", nodes=()), at)
    ] == []


def test_the_log_hears_of_each_member_once() -> None:
    world, job, members = gang(3)
    stories, told = Stories(world.state, 0.0), []
    for k in range(40):
        stories.hear(say(job, members[: 1 + k // 20], REPORTS, k), world.state, 10.0 * k)
        facts = stories.judge(world.state, 10.0 * k)
        world.tell("telemetry", *facts)
        told += [fact for fact in facts if isinstance(fact, f.GangMoved)]
    assert [fact.moved for fact in told] == [(members[0],), (members[1],)]
    assert world.state.kept.movers[job].moved == (members[0], members[1])
    world.cancel(job)
    world.stop_all()
    assert not world.state.kept.movers


def test_a_rank_that_stood_still_before_the_leader_changed_is_found_by_the_next_one() -> None:
    world, _, members = gang(3)

    def minute(stories: Stories, busy: Busy, at: float, *percents: int) -> list[f.GangHung]:
        gpus = tuple(GpuSample(index=k, utilisation_percent=percent) for k, percent in enumerate(percents))
        for _ in range(10):
            busy.hear(NodeSample(node="n1", at=0, gpus=gpus))
        stories.compare(world.state, busy, at)
        world.tell("telemetry", *busy.summaries(world.state, at))
        return heard(stories, world, Samples(agent="sim", nodes=()), at)

    stories, busy = Stories(world.state, 0.0), Busy(Config(), 0.0)
    assert minute(stories, busy, 60.0, 90, 90, 90) == []
    stories, busy = Stories(world.state, 100.0), Busy(Config(), 100.0)
    found = [hung for k in range(1, 10) for hung in minute(stories, busy, 100.0 + 60 * k, 90, 0, 90)]
    assert (found[0].task, found[0].sign) == (members[1], "idle")


def test_a_late_report_of_an_older_attempt_leaves_the_story_and_the_pace_of_the_new_one_alone() -> None:
    world, job, members = gang(4)
    world.tell("telemetry", f.GangHung(job=job, attempt=1, task=members[0], silent_s=1))
    world.settle()
    names = [task.id for task in world.tasks(job)]
    stories, stragglers = Stories(world.state, 0.0), Stragglers(Config())
    for k in range(5):
        assert heard(stories, world, say(job, names, REPORTS, k, attempt=2), 10.0 * k) == []
    assert heard(stories, world, say(job, members, REPORTS, 99), 45.0) == []
    assert stories.jobs[job].attempt == 2
    assert stories.jobs[job].last_step.keys() == set(names)
    [hung, *_] = heard(stories, world, Samples(agent="sim", nodes=()), 400.0)
    assert hung.attempt == 2
    for report in (*(step(job, name, 100_000) for name in names), step(job, members[0], 900_000)):
        is_new = report.task in names
        attempt = JobReport(job=job, attempt=2 if is_new else 1, task=report.task, progress=report.progress)
        stragglers.hear(Samples(agent="sim", nodes=(), reports=(attempt,)), world.state, 1.0)
    assert stragglers.paces[job].reported_us.keys() == set(names)


# --- stragglers ------------------------------------------------------------------------------------------------------


def paced(
    world: World, job: int, watch: Stragglers, own_us: dict[str, int], *, first_s: int, beat: bool
) -> list[f.Fact]:
    """Two minutes of steps of 350 ms in which all wait for each other; each member reports the time of its own part."""
    found: list[f.Fact] = []
    for second in range(first_s, first_s + 120):
        reports = tuple(step(job, name, us, number=second * 3) for name, us in own_us.items())
        beats = dict.fromkeys(own_us, int(second / 0.35) * 350) if beat else {}
        watch.hear(Samples(agent="sim", nodes=(), reports=reports, beats=beats), world.state, float(second))
        facts = watch.judge(world.state, float(second))
        world.tell("telemetry", *facts)
        found += facts
    return found


@pytest.mark.parametrize("beat", [False, True])
def test_the_helpers_heartbeats_hide_no_member_that_reports_a_longer_part_of_its_own(beat: bool) -> None:
    world, job, members = gang(4)
    own = dict.fromkeys(members, 100_000) | {members[3]: 300_000}
    [told] = paced(world, job, Stragglers(Config()), own, first_s=0, beat=beat)
    assert told == f.StragglersSeen(job=job, attempt=1, slow={members[3]: 300})


def test_a_rank_that_reports_beside_members_that_only_beat_is_measured_as_they_are() -> None:
    world, job, members = gang(4)
    watch, found = Stragglers(Config()), []
    for second in range(0, 300):
        beats = {name: 1000 * (second - second % (20 if name == members[3] else 10)) for name in members}
        reports = (step(job, members[0], 5_000, number=second),)
        watch.hear(Samples(agent="sim", nodes=(), reports=reports, beats=beats), world.state, float(second))
        found += watch.judge(world.state, float(second))
    assert found[0] == f.StragglersSeen(job=job, attempt=1, slow={members[3]: 200})


def test_a_new_leader_neither_takes_back_who_is_slow_nor_tells_it_again_and_takes_back_who_no_longer_is() -> None:
    world, job, members = gang(4)
    slow = dict.fromkeys(members, 100_000) | {members[3]: 300_000}
    assert len(paced(world, job, Stragglers(Config()), slow, first_s=0, beat=True)) == 1
    quiet = Stragglers(Config())
    quiet.hear(Samples(agent="sim", nodes=(), reports=(step(job, members[0], 100_000),)), world.state, 200.0)
    assert quiet.judge(world.state, 231.0) == ()
    assert paced(world, job, Stragglers(Config()), slow, first_s=300, beat=True) == []
    [back] = paced(world, job, Stragglers(Config()), dict.fromkeys(members, 100_000), first_s=500, beat=True)
    assert back.slow == {}
