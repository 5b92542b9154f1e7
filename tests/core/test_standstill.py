"""Where paused jobs stand is told in numbers: nobody whose place is free is left out, all are asked in their turn."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.core.test_fold_properties import _ACTS, _spec
from tests.core.test_pausing import gpu_spec, resume, suspend
from tests.core.test_remembered import Pauses
from tests.make import World, node, spec

from gangline_core import facts as f
from gangline_core.foresight.forecast import held_by
from gangline_core.job import LIVE, JobState
from gangline_core.limits.amounts import task_amounts
from gangline_core.pauses.resuming import _is_taken, _standstill
from gangline_core.state import State
from gangline_core.table import Table

_act = st.one_of(
    st.tuples(st.just("submit"), _spec),
    st.tuples(
        st.sampled_from([*_ACTS, "round", "start", "pause", "stand_still", "stand_still", "go_on", "go_on"]),
        st.integers(0, 30),
    ),
)


def who_want(state: State) -> list:
    """Paused jobs that want to go on and stand still with all of their tasks, by looking at each."""
    found = []
    for job in state.kept.jobs.values():
        if job.state == JobState.PAUSED and job.pause is not None and job.pause.wants:
            places = held_by(state, job).still
            if places is not None:
                found.append(((not job.pause.urgent, job.pause.since_ms, job.id), places))
    return [(turn[2], places) for turn, places in sorted(found)]


def check(state: State, now: int) -> int:
    """What is remembered is what looking at each job tells; how many want to go on."""
    table = Table(state, "default", now)
    still, want = _standstill(table), who_want(state)
    assert still.everybody() == want
    nodes = sorted(state.kept.nodes)
    for stirring in ((), nodes[:1], nodes[1:]):
        chosen = still.with_room(table.room, frozenset(stirring))
        assert [entry for entry in want if entry in chosen] == chosen, "in their turn"
        for name, places in want:
            pause = state.kept.jobs[name].pause
            is_asked = pause is not None and pause.urgent
            is_asked |= not _is_taken(table.room, places) or any(node in stirring for node, _ in places)
            assert ((name, places) in chosen) == is_asked
    check_holding(state)
    return len(want)


def check_holding(state: State) -> None:
    """Who is told to hold nothing does not."""
    index, groups = state.live_index, {job.spec.group for job in state.kept.jobs.values()}
    for group in groups:
        own = [job for job in state.kept.jobs.values() if job.state in LIVE and job.spec.group == group]
        holding = {
            job.id for job in own if any(task.gpus or task.cells or task_amounts(task) for task in state.tasks_of(job))
        }
        told = set(index.who_hold("default", group))
        assert holding <= told <= {job.id for job in own}


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(_act, min_size=1, max_size=60), st.integers(1, 3))
def test_what_is_known_of_paused_jobs_is_never_old(acts, every):
    story = Pauses()
    for number, (name, value) in enumerate(acts):
        story.act(name, value)
        if number % every == 0:
            check(story.state, story.world.at)
    check(State(story.state.kept), story.world.at)


def test_of_many_who_stand_still_only_those_with_room_are_looked_at() -> None:
    """More of them come and go than are kept in numbers once they have left, and nodes join meanwhile."""
    names = [f"n{k}" for k in range(4)]
    world = World(*(node(name, gpus=0, cpus=2) for name in names))
    small = spec(gpus=0, cpus=2, memory_mib=0)
    for number in range(160):
        job = world.submit_running(small, names[number % 4])
        suspend(world, job)
        resume(world, job)
        if number % 8 == 3:
            check(world.state, world.at)
        if number % 3:
            world.finish(job)
        if number == 80:
            world.see(node("a0", gpus=0, cpus=2))
    for name in names[1:]:
        world.submit_running(small, name)
    want = check(world.state, world.at)
    table = Table(world.state, "default", world.at)
    chosen = _standstill(table).with_room(table.room, ())
    assert 50 < want == len(world.in_state(JobState.PAUSED))
    assert 10 < len(chosen) < 20, "those on the one node that is free"
    assert {places[0][0] for _, places in chosen} == {names[0]}
    assert list(world.state.live_index.who_hold("default", "")) == world.in_state(JobState.RUNNING)


def test_each_step_of_a_pause_is_seen_at_once() -> None:
    world = World(node(gpus=1, cpus=4))
    job = world.submit_running(gpu_spec(1), "n1")

    def wanting(*facts: f.Fact, lane: str = "admission") -> int:
        if facts:
            world.tell(lane, *facts)
        return check(world.state, world.at)

    assert wanting() == 0
    assert wanting(f.HoldSet(job=job, held=True, by="ada", pause=True)) == 0
    assert wanting(f.HoldSet(job=job, held=False, by="ada")) == 0, "it does not stand still yet"
    task = world.tasks(job)[0].id
    assert wanting(f.TaskPaused(task=task), lane="agent.sim") == 1
    assert wanting(f.HoldSet(job=job, held=True, by="ada", pause=True)) == 0
    assert wanting(f.HoldSet(job=job, held=False, by="ada", urgent=True)) == 1
    world.round()
    assert wanting() == 0, "it went on"
    assert world.job(job).state != JobState.PAUSED
