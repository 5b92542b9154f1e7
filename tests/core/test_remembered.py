"""What is remembered from round to round is never old: it is what somebody finds who remembers nothing.

The random world of the fold's properties, in which jobs are paused and go on as well, is looked at after every message.
"""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.core.test_fold_properties import _ACTS, Story, _spec
from tests.make import spec

from gangline_core import facts as f
from gangline_core.foresight.forecast import held_by
from gangline_core.foresight.history import classes
from gangline_core.ids import JobId
from gangline_core.job import LIVE, JobState
from gangline_core.reserving.releases import _tenants
from gangline_core.scoring import columns as c
from gangline_core.scoring.columns import Columns
from gangline_core.state import State

_act = st.one_of(
    st.tuples(st.just("submit"), _spec),
    st.tuples(st.sampled_from([*_ACTS, "pause", "stand_still", "stand_still", "go_on"]), st.integers(0, 30)),
)


class Pauses(Story):
    """The same story with pauses."""

    def do_pause(self, k: int) -> None:
        if (job := self.pick(k, JobState.RUNNING)) is not None:
            self.world.tell("admission", f.HoldSet(job=job.id, held=True, by="ada", pause=True))

    def do_stand_still(self, k: int) -> None:
        names = sorted(self.state.told.pausing)
        if names:
            self.world.tell("agent.sim", f.TaskPaused(task=names[k % len(names)]))

    def do_go_on(self, k: int) -> None:
        if (job := self.pick(k, JobState.PAUSED)) is not None:
            self.world.tell("admission", f.HoldSet(job=job.id, held=False, by="ada"))


def check(state: State) -> None:
    tasks = state.kept.tasks
    assert set(state.told.stopping) == {name for name, task in tasks.items() if task.stop}
    assert set(state.told.pausing) == {name for name, task in tasks.items() if task.pause and task.working is None}
    live = [job for job in state.kept.jobs.values() if job.state in LIVE]
    protected = state.live_index.protected.get("default", {})
    assert set(protected) == {job.id for job in live if job.spec.protected_s}
    shielded = set(state.live_index.shielded.get("default", {}))
    assert {job.id for job in live if job.shield_ms} <= shielded <= {job.id for job in live}
    for job in live:
        own = state.tasks_of(job)
        places = [(task.node, task.working.cpu_milli) for task in own if task.working is not None]
        held = held_by(state, job)
        assert held.still == (tuple(places) if len(places) == len(own) else None)
        assert held.is_bare == (not any(task.gpus or task.cells for task in own))
    if "default" in state.columns:
        columns = state.columns["default"]
        assert columns.field(columns.slots(), c.ID).tolist() == sorted(state.waiting["default"])
        for job_id in state.waiting["default"]:
            kind = columns.kind_of(job_id)
            assert kind is not None
            assert columns.alike[kind] == classes(state.kept.jobs[job_id].spec)
    check_tenants(state)


def check_tenants(state: State) -> None:
    """Expected ends are those that come of reading every node anew."""
    layout = state.room("default").layout
    ends, lines = _tenants(state, layout)
    assert (np.diff(ends) >= 0).all()
    layout.tenants, layout.stale = None, set(range(len(layout.nodes)))
    fresh = _tenants(state, layout)
    assert together(ends, lines) == together(*fresh)
    layout.tenants = ends, lines


def together(ends, lines) -> list[list[int]]:
    return sorted(np.column_stack([ends, lines]).tolist())


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(_act, min_size=1, max_size=50), st.integers(1, 3))
def test_nothing_remembered_is_old_whatever_happens_between_two_looks(acts, every):
    story = Pauses()
    for number, (name, value) in enumerate(acts):
        story.act(name, value)
        if number % every == 0:
            check(story.state)


_move = st.tuples(st.sampled_from(["enter", "enter", "leave", "look"]), st.integers(1, 12))


@given(st.lists(_move, max_size=80))
def test_waiting_jobs_stand_by_id_however_they_come_leave_and_come_back(moves):
    story = Story()
    jobs = {number: story.world.job(story.world.submit(spec(gpus=1))) for number in range(1, 13)}
    columns, inside = Columns(), set[JobId]()
    for what, number in moves:
        job = jobs[number]
        if what == "enter" and job.id not in inside:
            columns.enter(job, 1, 1)
            inside.add(job.id)
        elif what == "leave":
            columns.leave(job.id)
            inside.discard(job.id)
        elif what == "look":
            assert columns.field(columns.slots(), c.ID).tolist() == sorted(inside)
    assert columns.field(columns.slots(), c.ID).tolist() == sorted(inside)
