"""Random scenes in which everything that users, heads, administrators, machines and calendars may do meets.

A scene is drawn from a seed: pools of machines (some with cut cards), a tree of groups that lend, borrow, have seasons,
budgets and caps, a policy, jobs of all kinds that follow each other, and what interferes. Whatever people ask for goes
through the door's own checks, so only what could have been written is. At second LIFTED_S everything that keeps jobs
from running is taken away, so that whatever still waits can run.
"""

from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace
from tests.cases.drive import Ask, Drive
from tests.cases.scene_events import interfere
from tests.cases.scene_parts import LIFTED_S, PATHS, draw_groups, draw_job, draw_machine, draw_policy, draw_users
from tests.cases.scene_parts import ORDERS as ORDERS
from tests.make import HOUR, T0

from gangline_core import facts as f
from gangline_core.door.never_fits import never_fits
from gangline_core.door.terms import followed
from gangline_core.groups import User
from gangline_core.job import ENDS, Job, JobState
from gangline_core.limits import accounting
from gangline_core.reasons import ReasonCode
from gangline_core.spec import Dependency, DependencyKind


class Scene(Drive):
    """A drive in which charges are booked as they fall due, and which may be restarted after every instant."""

    def __init__(self, seed: int, *, restarts: bool = False, ordering: str = "") -> None:
        """Draw the scene; `restarts` forgets everything that is not in the log after every instant."""
        self.draw = draw = Random(seed)
        self.restarts = restarts
        pools = draw.choice([("default",), ("default",), ("default", "other")])
        self.machines = [
            draw_machine(draw, k, draw.choice(pools) if k else "default") for k in range(draw.randint(1, 6))
        ]
        policy = draw_policy(draw)
        if ordering:
            policy["ordering"] = ordering
        super().__init__(*self.machines, groups=draw_groups(draw), users=draw_users(draw), policy=policy)
        self.asked: list[Ask] = []
        for _ in range(draw.randint(8, 36)):
            self._draw_job()
        for _ in range(draw.randint(0, 24)):
            interfere(self)
        self.later(LIFTED_S, self.lift)

    def one_of(self, *choices: Any) -> Any:
        """Any of these."""
        return self.draw.choice(choices)

    def lives(self, ask: Ask) -> bool:
        """The job was let in and has not ended."""
        if ask.id in self.state.kept.arrays:
            return True
        return ask.id in self.state.kept.jobs and self.job(ask.id).state not in ENDS

    def lift(self) -> None:
        """Nothing of what people have set keeps anybody from running any more."""
        self.tell("admission", f.PricesSet(milli={}, by="admin"))
        for path in ("", *PATHS):
            if path in self.state.kept.groups:
                self.set_group(path)
        for user in list(self.state.kept.users.values()):
            self.tell("admission", f.UserSet(user=User(name=user.name, group=user.group), by="admin"))
        for name in list(self.state.kept.windows):
            self.tell("admission", f.WindowRemoved(name=name, by="admin"))
        for machine in self.machines:
            self.tell("admission", f.NodeAssigned(node=machine.id, pool="", by="admin"))
            self.drain(machine.id, drained=False)
            self.see(replace(machine, taints=()))
        for pool in self.state.kept.pools:
            self.set_policy(pool, levels={})
        for job in [*self.in_state(JobState.HELD), *self.in_state(JobState.SUSPENDED)]:
            self.tell("admission", f.HoldSet(job=job, held=False, by="admin"))
        for array in list(self.state.kept.arrays):
            self.tell("admission", f.HoldSet(job=array, held=False, by="admin"))

    def fields_of_job(self) -> dict[str, Any]:
        """What one more job asks for, and how it behaves."""
        return draw_job(self.draw)

    def _draw_job(self) -> None:
        fields = self.fields_of_job()
        ask = self.ask(self.draw.randint(0, 300), **fields)
        if self.asked and self.draw.random() < 0.15:
            other, kind = self.draw.choice(self.asked), self.draw.choice(list(DependencyKind))
            index = 0 if other.spec.array is not None and self.draw.random() < 0.5 else -1
            self._follows[id(ask)] = (other, kind, index)
        self.asked.append(ask)

    def knock(self, *asks: Ask) -> None:
        """Jobs come to the door; those that follow another name it by the number that it got."""
        for ask in asks:
            other, kind, index = self._follows.get(id(ask), (None, DependencyKind.ANY, -1))
            if other is not None and other.id:
                ask.spec = replace(ask.spec, after=(Dependency(job=other.id, kind=kind, index=index),))
        super().knock(*asks)

    @property
    def _follows(self) -> dict[int, tuple[Any, DependencyKind, int]]:
        return self.__dict__.setdefault("follows", {})

    def _settle(self) -> None:
        """As in any drive; then what ended is charged, budgets are looked at, and rounds follow what that changed."""
        super()._settle()
        for _ in range(20):
            facts = accounting.charge(self.state, self.at)
            if not facts:
                break
            self.tell("accounting", *facts)
            super()._settle()
        else:
            raise AssertionError("budgets change without end")
        ends = accounting.next_budget_end_ms(self.state, self.at)
        if ends is not None and ends > self.at:
            self.later((ends - T0) / 1000, lambda: None)
        if self.restarts:
            self.restart()


def play(seed: int, *, restarts: bool = False, ordering: str = "") -> Scene:
    """A whole scene to its end."""
    scene = Scene(seed, restarts=restarts, ordering=ordering)
    play_out(scene)
    return scene


def play_out(scene: Scene) -> None:
    """To its end: everything ended, or can never run on the machines that there are."""
    scene.until(LIFTED_S + 1)
    while scene._events and scene.at < T0 + 100 * HOUR:
        scene.until((scene._events[0][0] - T0) / 1000)
    left = [scene.job(job) for job in scene.state.kept.jobs if scene.job(job).state not in ENDS]
    left = [job for job in left if not _is_stranded(scene, job)]
    told = [(job.id, job.state, scene.why(scene.asks[job.id])) for job in left]
    assert not told, told


def _is_stranded(scene: Scene, job: Job) -> bool:
    """The job was let in while other machines served its pool; or it follows one of which that is so."""
    if any(_is_stranded(scene, other) for other in followed(scene.state, job.spec) if other.state not in ENDS):
        return True
    namesakes = [other for other in scene.state.kept.jobs.values() if other.spec.name == job.spec.name]
    if job.spec.singleton and job.reason is not None and job.reason.code == ReasonCode.SINGLETON:
        return any(other.id != job.id and _is_stranded(scene, other) for other in namesakes)
    pool = scene.state.kept.pools[job.spec.pool].pool
    inventory = scene.state.inventory(pool.name)
    return not inventory.nodes or never_fits(inventory, pool, job.spec) is not None


def log_of(scene: Scene) -> list[bytes]:
    """Everything that was written."""
    return [msgspec.json.encode((m.lane, m.at, m.facts)) for m in scene.log]
