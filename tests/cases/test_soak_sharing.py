"""Random scenes in which jobs take turns, are packed, paused, woken, and work beside others, while elastic ones grow.

Whatever meets, nothing is over capacity at any moment, everything ends, and the log replays. Jobs report their steps
and how busy their GPUs are; two that share a GPU get on well or badly by the draw. At second 900 nobody has to take
turns any more, and whoever was suspended by a user is let go on.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pytest
from tests.cases.drive import Ask, Drive
from tests.make import gpu_amount, group, node

from gangline_core import facts as f
from gangline_core.elasticity import POLICIES
from gangline_core.ids import JobId
from gangline_core.job import ENDS, Job, JobState, Task
from gangline_core.limits.usage_by_class import recompute
from gangline_core.pauses.packing import is_packed
from gangline_core.sizes.progress import Point, Progress
from gangline_core.spec import Elastic, Pausing, ResizeKind, Resources, Role, ServiceClass

MOST_MIB = 18_000
WOKEN_S, LAST_S = 900, 2400
REPORTS_S = 15


class Sharing(Drive):
    """Machines on which told tasks stand still a little later, and programs that report."""

    def __init__(self, draw: Random, *nodes: Any, groups: list[Any], policy: Mapping[str, Any]) -> None:
        self.draw = draw
        super().__init__(*nodes, groups=groups, policy=policy)

    def _act(self, task: Task, ask: Ask) -> None:
        super()._act(task, ask)
        job = self.state.job(task.job)
        if job is not None and job.pause is not None and task.pause and task.working is None and not task.stop:
            name = f"pause {job.pause.since_ms}"
            self._once(name, task.id, self.draw.choice([0, 0, 2, 7]), lambda: self._stands(task))

    def _stands(self, told: Task) -> None:
        task = self.state.kept.tasks.get(told.id)
        if task is not None and task.pause and task.working is None and not task.stop:
            self.tell(self._agent(task), f.TaskPaused(task=task.id))

    def _end(self, job_id: JobId, attempt: int, cause: f.ExitCause, code: int) -> None:
        job = self.state.job(job_id)
        if job is not None and job.state == JobState.PAUSED and job.attempt == attempt:
            self.later(self.now + 3, lambda: self._end(job_id, attempt, cause, code))
            return
        super()._end(job_id, attempt, cause, code)

    def report(self) -> None:
        """Each job that runs tells of its steps, and telemetry of its GPUs."""
        for job in list(self.state.live_jobs()):
            if job.state == JobState.RUNNING and len(job.spec.roles) == 1 and job.id in self.asks:
                self.tell("telemetry", *self._told(job))

    def _told(self, job: Job) -> list[f.Fact]:
        others = [one for one in self.state.live_jobs() if one.id != job.id and is_packed(self.state, one.id)]
        slow = 1.2 + (job.id % 5) * 0.3 if is_packed(self.state, job.id) and others else 1.0
        members = max(1, len(self.tasks(job.id)))
        step_us = round(100_000 * (1 + 0.1 * members) * slow * self.draw.uniform(0.95, 1.05))
        point = Point(nodes=1, members=members, batch=32, gathered=0, step_us=step_us)
        busy = f.JobUsed(job=job.id, gpu_percent=20 + job.id % 4 * 12, window_s=60)
        return [f.ProgressReported(job=job.id, progress=Progress(points=(point,))), busy]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_shares_gpus_everything_ends_and_the_log_replays(seed: int) -> None:
    drive, asks = scene(Random(f"sharing {seed}"))
    drive.finish_all()
    assert [drive.why(ask) for ask in asks if lives(drive, ask)] == []
    assert recompute(drive.state) == {}
    assert (drive.state.kept.packs, drive.state.kept.claims) == ({}, {})


def test_what_the_scenes_are_about_happens_in_them() -> None:
    seen: dict[str, int] = {}
    for seed in range(8):
        drive, _ = scene(Random(f"sharing {seed}"))
        drive.until(LAST_S)
        for decided in drive.decided:
            for name in ("packings", "pauses", "resumes", "growths", "evictions"):
                seen[name] = seen.get(name, 0) + len(getattr(decided, name))
    assert min(seen.values()) >= 3, seen


def scene(draw: Random) -> tuple[Sharing, list[Ask]]:
    """One scene before anything happened in it."""
    nodes = [node(f"n{k}", gpus=draw.choice([1, 1, 2, 4]), cpus=16) for k in range(draw.randint(1, 2))]
    groups = [group("a", guaranteed=gpu_amount(draw.randint(0, 2))), group("b")]
    policy = {
        "time_slice_s": draw.choice([60, 90]),
        "packing": draw.random() < 0.9,
        "elastic": draw.choice(sorted(POLICIES)),
        "elastic_interval_s": 30,
        "migration": draw.random() < 0.3,
        "shrink": draw.random() < 0.8,
    }
    drive = Sharing(draw, *nodes, groups=groups, policy=policy)
    asks = [drive.ask(draw.randint(0, 250), **_job(draw)) for _ in range(draw.randint(6, 20))]
    for _ in range(draw.randint(0, 16)):
        _meddle(draw, drive, draw.choice(asks))
    drive.later(WOKEN_S, lambda: drive.set_policy("default", time_slice_s=0))
    for ask in asks:
        drive.later(WOKEN_S, _held(drive, ask, held=False))
    for second in range(REPORTS_S, LAST_S, REPORTS_S):
        drive.later(second, drive.report)
    return drive, asks


def _job(draw: Random) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "group": draw.choice(["a", "b"]),
        "priority": draw.choice([0, 0, 0, 10]),
        "run": draw.randint(10, 50),
        "stop": draw.choice([0, 0, 5]),
    }
    kinds: list[Callable[[], dict[str, Any]]] = [
        lambda: _bounded(run=draw.randint(100, 500), pausing=Pausing(gpu_memory_mib=draw.choice([0, MOST_MIB]))),
        lambda: _bounded(run=draw.randint(100, 500), pausing=Pausing(gpu_memory_mib=MOST_MIB)),
        lambda: _bounded(run=draw.randint(100, 500), pausing=Pausing(gpu_memory_mib=MOST_MIB)),
        _bounded,
        lambda: {
            "gpus": 1,
            "tasks": 1,
            "minimum": 1,
            "maximum": 4,
            "elastic": Elastic(kind=draw.choice(list(ResizeKind))),
        },
        lambda: {"gpus": 0.5, "pausing": Pausing()},
        lambda: {"gpus": 0, "cpus": draw.randint(1, 12)},
        lambda: {"gpus": draw.choice([1, 2]), "preemptible": draw.random() < 0.7},
        _beside,
    ]
    # Half of them save their work when they are told to stop, without which nobody is stopped for a slice.
    return {**fields, "checkpoints": fields["run"] % 2 == 0, **draw.choice(kinds)()}


def _bounded(**fields: Any) -> dict[str, Any]:
    needs = Resources(gpu_milli=1000, gpu_memory_most_mib=MOST_MIB, cpu_milli=1000, memory_mib=1024)
    return {"roles": [_worker(needs)], **fields}


def _beside() -> dict[str, Any]:
    needs = Resources(beside=True, gpu_memory_mib=4_000, cpu_milli=1000, memory_mib=1024)
    return {"roles": [_worker(needs)], "service_class": ServiceClass.OPPORTUNISTIC}


def _worker(needs: Resources) -> Role:
    return Role(name="worker", count=1, min_count=1, max_count=1, command=("true",), resources=needs)


def _meddle(draw: Random, drive: Sharing, ask: Ask) -> None:
    """What a user or a machine does in the middle of it."""
    at, number = draw.randint(5, 400), draw.randint(1, 5)
    acts: list[Callable[[], object]] = [
        _held(drive, ask, held=True),
        _held(drive, ask, held=False),
        _held(drive, ask, held=False, urgent=True),
        lambda: lives(drive, ask) and drive.tell("admission", f.CancelRequested(job=ask.id, by="ada")),
        drive.restart,
        lambda: drive.set_policy("default", time_slice_s=50 + number * 20, packing=number % 2 == 0),
    ]
    drive.later(at, draw.choice(acts))


def _held(drive: Sharing, ask: Ask, *, held: bool, urgent: bool = False) -> Callable[[], object]:
    def act() -> None:
        if lives(drive, ask):
            drive.tell("admission", f.HoldSet(job=ask.id, held=held, by="ada", pause=held, urgent=urgent))

    return act


def lives(drive: Drive, ask: Ask) -> bool:
    """True for a job that was let in and has not ended."""
    return ask.id in drive.state.kept.jobs and drive.job(ask.id).state not in ENDS
