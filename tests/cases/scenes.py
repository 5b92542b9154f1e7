"""Random scenes in which everything that users, heads, administrators, machines and calendars may do meets.

A scene is drawn from a seed: pools of machines (some with cut cards), a tree of groups that lend, borrow, have seasons,
budgets and caps, a policy, jobs of all kinds that follow each other, and what interferes. Whatever people ask for goes
through the door's own checks, so only what could have been written is. At second LIFTED_S everything that keeps jobs
from running is taken away, so that whatever still waits can run.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace
from tests.cases.drive import Ask, Drive
from tests.make import HOUR, T0, gpu_amount, group, node, role

from gangline_core import accounting
from gangline_core import facts as f
from gangline_core.admission import Draft
from gangline_core.calendar import Season
from gangline_core.cluster import Gpu, LevelRule, Node
from gangline_core.edits import JobEdit
from gangline_core.elasticity import POLICIES
from gangline_core.groups import BudgetMode, BudgetPeriod, Group, User
from gangline_core.ids import JobId
from gangline_core.job import ENDS, Job, JobState
from gangline_core.job_rights import Standing, check_edit, check_top, top_scope
from gangline_core.mig import compute_milli
from gangline_core.never_fits import never_fits
from gangline_core.ordering import ORDERINGS
from gangline_core.reasons import ReasonCode
from gangline_core.removal import check_group_removal
from gangline_core.settings import check_group, check_policy, check_user
from gangline_core.settings_dated import check_window
from gangline_core.spec import ArraySpec, Dependency, DependencyKind, Pausing, Resources, Role, ServiceClass
from gangline_core.spec import TopologyWish as Wish
from gangline_core.terms import followed
from gangline_core.windows import Window

PATHS = ("t", "t/a", "t/a/x", "t/b", "c")
LEAVES = ("t/a", "t/a/x", "t/b", "c", "c")
USERS = ("ada", "bob")
LIFTED_S = 2000
ORDERS = tuple(name for name in ORDERINGS if name != "gavel")
MIG = "a100-40gb"
PROFILES = ("1g.5gb", "2g.10gb", "3g.20gb")
MINUTE_OF_T0 = T0 // 60_000 % 1440


class Scene(Drive):
    """A drive in which charges are booked as they fall due, and which may be restarted after every instant."""

    def __init__(self, seed: int, *, restarts: bool = False, ordering: str = "") -> None:
        """Draw the scene; `restarts` forgets everything that is not in the log after every instant."""
        self.draw = draw = Random(seed)
        self.restarts = restarts
        pools = draw.choice([("default",), ("default",), ("default", "other")])
        self.machines = [_machine(draw, k, draw.choice(pools) if k else "default") for k in range(draw.randint(1, 6))]
        policy = _policy(draw)
        if ordering:
            policy["ordering"] = ordering
        super().__init__(*self.machines, groups=_groups(draw), users=_users(draw), policy=policy)
        self.asked: list[Ask] = []
        for _ in range(draw.randint(8, 36)):
            self._draw_job()
        for _ in range(draw.randint(0, 24)):
            _interfere(self)
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

    def _draw_job(self) -> None:
        fields = _job(self.draw)
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
    """A whole scene to its end; everything ended, or can never run on the machines that there are."""
    scene = Scene(seed, restarts=restarts, ordering=ordering)
    scene.until(LIFTED_S + 1)
    while scene._events and scene.at < T0 + 100 * HOUR:
        scene.until((scene._events[0][0] - T0) / 1000)
    left = [scene.job(job) for job in scene.state.kept.jobs if scene.job(job).state not in ENDS]
    left = [job for job in left if not _is_stranded(scene, job)]
    told = [(job.id, job.state, scene.why(scene.asks[job.id])) for job in left]
    assert not told, told
    return scene


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


# --- what there is ------------------------------------------------------------------------------------------


def _machine(draw: Random, number: int, pool: str) -> Node:
    size, model = draw.choice([1, 2, 4, 8]), draw.choice(["A100", "A100", "V100"])
    found = node(
        f"n{number}",
        gpus=size,
        model=model,
        pool=pool,
        cpus=draw.choice([8, 32, 64]),
        labels={"rack": f"r{number % 2}"},
        devices={"rdma": draw.randint(0, 4)},
        taints=("dedicated",) if draw.random() < 0.1 else (),
    )
    if draw.random() < 0.2:
        cut: tuple[Gpu, ...] = tuple(replace(gpu, model="A100", mig=MIG) for gpu in found.gpus)
        return replace(found, gpus=cut)
    return found


def _amounts(draw: Random, most: int) -> dict[str, int]:
    kinds: list[Callable[[], dict[str, int]]] = [
        lambda: gpu_amount(draw.randint(0, most)),
        lambda: gpu_amount(draw.randint(0, most)),
        lambda: gpu_amount(draw.randint(0, most), "A100"),
        lambda: {"cpu_milli": 1000 * draw.randint(1, 8 * most)},
        lambda: {"gpu_memory_mib": 10_240 * draw.randint(1, 4 * most)},
        lambda: {**gpu_amount(draw.randint(0, most)), "jobs": draw.randint(1, 6)},
        lambda: {"device:rdma": draw.randint(0, 4)},
    ]
    return draw.choice(kinds)()


def _group(draw: Random, path: str) -> Group:
    """One group with whatever it may have; what the door would refuse is left out by the caller."""
    most = 24 if path == "t" else 10
    choices: dict[str, tuple[float, Callable[[], Any]]] = {
        "limit": (0.35, lambda: _amounts(draw, most)),
        "guaranteed": (0.6, lambda: gpu_amount(draw.randint(0, 6))),
        "lend_limit": (0.2, lambda: gpu_amount(draw.randint(0, 4))),
        "borrow_limit": (0.2, lambda: gpu_amount(draw.randint(0, 4))),
        "user_limit": (0.15, lambda: _amounts(draw, 6)),
        "weight": (0.4, lambda: draw.randint(1, 3)),
        "level": (0.2, lambda: draw.randint(0, 5)),
        "queued_jobs_max": (0.05, lambda: draw.randint(4, 20)),
        "time_limit_s_max": (0.05, lambda: 100),
        "budget_gpu_hours": (0.25, lambda: 1),
        "budget_mode": (1.0, lambda: draw.choice(list(BudgetMode))),
        "budget_period": (0.3, lambda: draw.choice(list(BudgetPeriod))),
        "seasons": (0.2, lambda: (_season(draw, most),)),
        "heads": (0.5, lambda: ("ada",)),
    }
    return group(path, **{name: value() for name, (part, value) in choices.items() if draw.random() < part})


def _season(draw: Random, most: int) -> Season:
    """Something that begins or ends in the first minutes of the scene, or lasts for all of them."""
    start = (MINUTE_OF_T0 + draw.randint(-3, 4)) % 1440
    return Season(
        name="s",
        start_minute=start,
        end_minute=(start + draw.randint(1, 4)) % 1440,
        limit=_amounts(draw, most),
        user_limit=_amounts(draw, 4) if draw.random() < 0.2 else {},
    )


def _groups(draw: Random) -> list[Group]:
    """A tree that the door lets through, edit by edit."""
    known = Drive(groups=[group(path) for path in PATHS])
    for path in PATHS:
        for _ in range(4):
            wanted = _group(draw, path)
            if check_group(known.state, Draft(), wanted) is None:
                known.tell("admission", f.GroupSet(group=wanted, by="admin"))
                break
    return [known.state.kept.groups[path] for path in PATHS]


def _users(draw: Random) -> list[User]:
    found = []
    for path in ("t/a", "c"):
        if draw.random() < 0.3:
            found.append(User(name="ada", group=path, limit=gpu_amount(draw.randint(1, 2)), level=draw.randint(0, 3)))
            found.append(User(name="bob", group=path))
    return found


def _policy(draw: Random) -> dict[str, Any]:
    """Leases and slices are longer than any job runs: nothing here saves what it did when it has to stop."""
    choices: dict[str, tuple[float, Callable[[], Any]]] = {
        "ordering": (0.6, lambda: draw.choice(ORDERS)),
        "placement": (0.3, lambda: draw.choice(["spread", "best_fit", "topology", "fgd"])),
        "elastic": (0.3, lambda: draw.choice(sorted(POLICIES))),
        "preemption": (0.15, lambda: False),
        "shrink": (0.1, lambda: False),
        "backfill": (0.15, lambda: False),
        "backfill_depth": (0.25, lambda: draw.randint(0, 8)),
        "time_slice_s": (0.15, lambda: draw.choice([150, 300])),
        "lease_s": (0.1, lambda: draw.choice([200, 400])),
        "oldest_preempts": (0.15, lambda: True),
        "start_limit_s": (0.2, lambda: 10),
        "starvation_s": (0.3, lambda: draw.choice([0, 30, 200])),
        "levels": (0.4, lambda: _levels(draw)),
        "service_thresholds": (0.2, lambda: (20, 100)),
        "promote_after": (0.2, lambda: 2),
        "half_life_s": (0.2, lambda: draw.choice([0, 60])),
        "candidates_max": (0.1, lambda: draw.randint(1, 5)),
        "candidates_per_shape": (0.1, lambda: draw.randint(1, 2)),
        "node_tasks_max": (0.1, lambda: draw.randint(2, 6)),
    }
    return {name: value() for name, (part, value) in choices.items() if draw.random() < part}


def _levels(draw: Random) -> dict[str, LevelRule]:
    rules = {}
    for level, to in (("high", "normal"), ("normal", "low"), ("low", "")):
        if draw.random() < 0.5:
            moves = bool(to) and draw.random() < 0.6
            after = draw.choice([(10, 0), (0, 40), (30, 30)])
            rules[level] = LevelRule(
                strict=draw.random() < 0.4,
                head_wait_s=draw.choice([0, 20, 100]),
                to=to if moves else "",
                after_gpu_s=after[0] if moves else 0,
                after_wait_s=after[1] if moves else 0,
            )
    return rules


# --- what is asked for --------------------------------------------------------------------------------------


def _job(draw: Random) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "group": draw.choice(LEAVES),
        "user": draw.choice(USERS),
        "pool": "default",
        "priority": draw.choice([0, 0, 0, 10, 50]),
        "run": draw.randint(1, 90),
        "start": draw.choice([0, 0, 3]),
        "stop": draw.choice([0, 0, 5, 30]),
        "level": draw.choice(["normal", "normal", "high", "low"]),
    }
    terms: dict[str, tuple[float, Callable[[], Any]]] = {
        "limit": (0.35, lambda: fields["run"] + draw.randint(0, 30)),
        "estimate_s": (0.2, lambda: draw.randint(1, 200)),
        "protected_s": (0.2, lambda: draw.choice([10, 100, -1])),
        "preemptible": (0.1, lambda: False),
        "service_class": (0.2, lambda: draw.choice(list(ServiceClass))),
        "retries": (0.15, lambda: draw.randint(1, 3)),
        "code": (0.15, lambda: 1),
        "repair_s": (0.15, lambda: 30),
        "topology": (0.2, lambda: draw.choice(["rack", "node", Wish(preferred="rack")])),
        "not_before_ms": (0.1, lambda: T0 + 1000 * draw.randint(0, 400)),
        "deadline_ms": (0.1, lambda: T0 + 1000 * draw.randint(100, 900)),
        "pausing": (0.2, Pausing),
        "lazy_preemption": (0.1, lambda: True),
        "hold": (0.05, lambda: True),
        "same_model": (0.1, lambda: True),
    }
    fields.update({name: value() for name, (part, value) in terms.items() if draw.random() < part})
    if draw.random() < 0.1:
        fields.update(name="one", singleton=True)
    return {**fields, **_size(draw)}


def _size(draw: Random) -> dict[str, Any]:
    least = draw.randint(1, 2)
    profile = draw.choice(PROFILES)
    slice_of = Resources(gpu_milli=compute_milli(profile), mig=profile, cpu_milli=1000, memory_mib=1024)
    tasks = draw.randint(1, 3)
    sizes: list[dict[str, Any]] = [
        {"tasks": draw.randint(1, 6), "gpus": draw.choice([1, 2])},
        {"tasks": draw.randint(2, 5), "minimum": least, "maximum": 6, "gpus": draw.choice([1, 1, 0.5])},
        {"tasks": 4, "minimum": 2, "maximum": 6, "sizes": (2, 4, 6), "gpus": 1},
        {"gpus": draw.choice([0.25, 0.5, 0.33])},
        {"gpus": 0, "gpu_memory_mib": draw.choice([1000, 20_000, 40_960])},
        {"gpus": 0, "cpus": draw.randint(1, 40), "devices": {"rdma": draw.randint(0, 2)}},
        {"gpus": 1, "array": ArraySpec(ranges=((0, draw.randint(1, 6), 1),), at_most=draw.randint(0, 3))},
        {"gpus": 0.5, "array": ArraySpec(ranges=((1, 9, 2),), at_most=draw.randint(0, 3))},
        {"roles": [role("a", gpus=1), role("b", tasks=draw.randint(1, 3), gpus=draw.choice([0, 1]))]},
        {"roles": [role("a", gpus=1), role("b", tasks=2, minimum=1, maximum=3, gpus=1)]},
        {"roles": [Role("worker", tasks, tasks, tasks, slice_of, ("true",))]},
        {"gpus": draw.choice([1, 2, 4, 8]), "gpu_models": draw.choice([(), ("A100",), ("V100", "A100")])},
    ]
    return draw.choice(sizes)


# --- what interferes ----------------------------------------------------------------------------------------


def _interfere(scene: Scene) -> None:
    """One thing that somebody or something does in the middle of it, and what ends it."""
    draw = scene.draw
    at = draw.randint(5, 300)
    kinds: list[Callable[[Scene, int, int], None]] = [
        _node_trouble, _node_trouble, _window, _group_edit, _group_edit, _policy_edit, _cancel, _hold,
        _edit, _edit, _edit, _top, _size_wish, _move_node, _user_edit, _prices, _close_group, _pause,
    ]  # fmt: skip
    draw.choice(kinds)(scene, at, at + draw.randint(1, 90))


def _node_trouble(scene: Scene, at: int, end: int) -> None:
    machine, gpu = scene.draw.choice(scene.machines), 0
    gpu = scene.draw.randrange(len(machine.gpus))
    kind = scene.draw.randrange(4)
    if kind == 0:
        scene.later(at, lambda: scene.lose(machine.id))
        scene.later(end, lambda: scene.see(machine))
    elif kind == 1:
        scene.later(at, lambda: scene.drain(machine.id))
        scene.later(end, lambda: scene.drain(machine.id, drained=False))
    elif kind == 2:
        scene.later(at, lambda: scene.tell("telemetry", f.GpuFailed(node=machine.id, gpu=gpu, problem="Xid 79")))
        scene.later(end, lambda: scene.tell("telemetry", f.GpuHealthy(node=machine.id, gpu=gpu)))
    elif not scene.restarts:
        scene.later(at, scene.restart)


def _move_node(scene: Scene, at: int, end: int) -> None:
    machine, pool = scene.draw.choice(scene.machines), scene.draw.choice(sorted(scene.state.kept.pools))
    scene.later(at, lambda: scene.tell("admission", f.NodeAssigned(node=machine.id, pool=pool, by="admin")))
    scene.later(end, lambda: scene.tell("admission", f.NodeAssigned(node=machine.id, pool="", by="admin")))


def _window(scene: Scene, at: int, end: int) -> None:
    machine = scene.draw.choice(scene.machines)
    window = Window(
        name=f"w{at}",
        pool=machine.pool,
        start_ms=T0 + at * 1000,
        end_ms=T0 + end * 1000,
        nodes=scene.draw.choice([(), (machine.id,)]),
        groups=scene.draw.choice([(), (), ("t/a",), ("c",)]),
        users=scene.draw.choice([(), (), ("bob",)]),
    )

    def write() -> None:
        if check_window(scene.state, window, scene.at) is None:
            scene.tell("admission", f.WindowSet(window=window, by="admin"))

    scene.later(at - scene.draw.randint(1, at), write)
    if scene.draw.random() < 0.3:
        gone = f.WindowRemoved(name=window.name, by="admin")
        scene.later((at + end) / 2, lambda: window.name in scene.state.kept.windows and scene.tell("admission", gone))


def _group_edit(scene: Scene, at: int, end: int) -> None:
    wanted = _group(scene.draw, scene.draw.choice(PATHS))

    def write() -> None:
        if wanted.path in scene.state.kept.groups and check_group(scene.state, Draft(), wanted) is None:
            scene.tell("admission", f.GroupSet(group=wanted, by="admin"))

    scene.later(at, write)


def _close_group(scene: Scene, at: int, end: int) -> None:
    path = scene.draw.choice(("t/a/x", "c"))

    def write() -> None:
        if path in scene.state.kept.groups and check_group_removal(scene.state, path, drain=True) is None:
            closing = replace(scene.state.kept.groups[path], closing=True)
            scene.tell("admission", f.GroupSet(group=closing, by="admin"))

    if scene.draw.random() < 0.4:
        scene.later(at, write)


def _user_edit(scene: Scene, at: int, end: int) -> None:
    amounts = _amounts(scene.draw, 4) if scene.draw.random() < 0.7 else {}
    user = User(name=scene.draw.choice(USERS), group=scene.draw.choice(LEAVES), limit=amounts)

    def write() -> None:
        if user.group in scene.state.kept.groups and check_user(scene.state, Draft(), user) is None:
            scene.tell("admission", f.UserSet(user=user, by="admin"))

    scene.later(at, write)


def _prices(scene: Scene, at: int, end: int) -> None:
    milli = {"a100": scene.draw.choice([500, 4000]), "*": scene.draw.choice([1000, 20_000])}
    scene.later(at, lambda: scene.tell("admission", f.PricesSet(milli=milli, by="admin")))


def _policy_edit(scene: Scene, at: int, end: int) -> None:
    fields = {"ordering": scene.draw.choice(ORDERS), **_policy(scene.draw)}
    pool = scene.draw.choice(sorted(scene.state.kept.pools))

    def write() -> None:
        known = scene.state.kept.pools[pool]
        if check_policy(scene.state, replace(known.policy, **fields), pool) is None:
            scene.set_policy(pool, **fields)

    scene.later(at, write)


def _of_job(scene: Scene, make: Callable[[JobId], f.Fact | None]) -> Callable[[], object]:
    """What is said of a job, or of one element of an array, when the time comes and while it lives."""
    ask, part = scene.draw.choice(scene.asked), scene.draw.randint(0, 3)

    def say() -> None:
        job = JobId(ask.id + part) if ask.id in scene.state.kept.arrays and part else ask.id
        known = scene.state.kept.jobs.get(job)
        if job in scene.state.kept.arrays or (known is not None and known.state not in ENDS):
            fact = make(job)
            if fact is not None:
                scene.tell("admission", fact)

    return say


def _cancel(scene: Scene, at: int, end: int) -> None:
    scene.later(at, _of_job(scene, lambda job: f.CancelRequested(job=job, by="ada")))


def _hold(scene: Scene, at: int, end: int) -> None:
    state = scene.draw.getstate()
    scene.later(at, _of_job(scene, lambda job: f.HoldSet(job=job, held=True, by="ada")))
    scene.draw.setstate(state)
    scene.later(end, _of_job(scene, lambda job: f.HoldSet(job=job, held=False, by="ada")))


def _pause(scene: Scene, at: int, end: int) -> None:
    urgent = scene.draw.random() < 0.3
    state = scene.draw.getstate()
    scene.later(at, _of_job(scene, lambda job: f.HoldSet(job=job, held=True, by="ada", pause=True)))
    scene.draw.setstate(state)
    scene.later(end, _of_job(scene, lambda job: f.HoldSet(job=job, held=False, by="ada", urgent=urgent)))


def _edit(scene: Scene, at: int, end: int) -> None:
    draw = scene.draw
    edits: list[dict[str, Any]] = [
        {"priority": draw.choice([0, 5, 20, 60])},
        {"level": draw.choice(["high", "normal", "low"])},
        {"pool": draw.choice(sorted(scene.state.kept.pools))},
        {"time_limit_s": draw.randint(10, 300)},
        {"deadline_ms": T0 + 1000 * draw.randint(at, 900)},
        {"not_before_ms": T0 + 1000 * draw.randint(at, 500)},
        {"preemptible": draw.random() < 0.5},
        {"retries": draw.randint(0, 3)},
        {"estimate_s": draw.randint(1, 300)},
        {"at_most": draw.randint(0, 3)},
    ]
    edit = JobEdit(**draw.choice(edits))

    def make(job: JobId) -> f.Fact | None:
        standing = Standing.ADMIN
        problem = check_edit(scene.state, Draft(), job=job, edit=edit, standing=standing, by="admin", at=scene.at)
        return None if problem else f.JobEdited(job=job, edit=edit, by="admin")

    scene.later(at, _of_job(scene, make))


def _top(scene: Scene, at: int, end: int) -> None:
    among = scene.draw.choice(["user", "group", "all"])

    def make(job: JobId) -> f.Fact | None:
        if check_top(scene.state, job=job) is not None:
            return None
        scope = top_scope(scene.job(job), Standing.ADMIN, among)
        return f.JobTopped(job=job, among=scope, by="admin") if isinstance(scope, str) else None

    scene.later(at, _of_job(scene, make))


def _size_wish(scene: Scene, at: int, end: int) -> None:
    size = scene.draw.randint(1, 6)

    def make(job: JobId) -> f.Fact | None:
        known = scene.state.kept.jobs.get(job)
        if known is None or known.state != JobState.RUNNING:
            return None
        of_role = known.spec.roles[-1]
        if not of_role.is_elastic or not of_role.allows(size):
            return None
        return f.ResizeAsked(job=job, role=of_role.name, size=size, by="ada")

    scene.later(at, _of_job(scene, make))
