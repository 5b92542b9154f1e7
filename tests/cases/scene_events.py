"""What interferes with a random scene: people, machines and calendars, each through the door's own checks."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from tests.cases.scene_parts import LEAVES, ORDERS, PATHS, USERS, draw_amounts, draw_group, draw_policy
from tests.make import T0

from gangline_core import facts as f
from gangline_core.door.draft import Draft
from gangline_core.door.edits import JobEdit
from gangline_core.door.job_rights import Standing, check_edit, check_top, top_scope
from gangline_core.door.removal import check_group_removal
from gangline_core.groups import User
from gangline_core.ids import JobId
from gangline_core.job import ENDS, JobState
from gangline_core.reserving.windows import Window
from gangline_core.settings import check_group, check_policy, check_user
from gangline_core.settings.dated import check_window

if TYPE_CHECKING:
    from tests.cases.scenes import Scene

# --- what interferes ----------------------------------------------------------------------------------------


def interfere(scene: "Scene") -> None:
    """One thing that somebody or something does in the middle of it, and what ends it."""
    draw = scene.draw
    at = draw.randint(5, 300)
    kinds: list[Callable[[Scene, int, int], None]] = [
        _node_trouble, _node_trouble, _window, _group_edit, _group_edit, _policy_edit, _cancel, _hold,
        _edit, _edit, _edit, _top, _size_wish, _move_node, _user_edit, _prices, _close_group, _pause,
    ]  # fmt: skip
    draw.choice(kinds)(scene, at, at + draw.randint(1, 90))


def _node_trouble(scene: "Scene", at: int, end: int) -> None:
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


def _move_node(scene: "Scene", at: int, end: int) -> None:
    machine, pool = scene.draw.choice(scene.machines), scene.draw.choice(sorted(scene.state.kept.pools))
    scene.later(at, lambda: scene.tell("admission", f.NodeAssigned(node=machine.id, pool=pool, by="admin")))
    scene.later(end, lambda: scene.tell("admission", f.NodeAssigned(node=machine.id, pool="", by="admin")))


def _window(scene: "Scene", at: int, end: int) -> None:
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


def _group_edit(scene: "Scene", at: int, end: int) -> None:
    wanted = draw_group(scene.draw, scene.draw.choice(PATHS))

    def write() -> None:
        if wanted.path in scene.state.kept.groups and check_group(scene.state, Draft(), wanted) is None:
            scene.tell("admission", f.GroupSet(group=wanted, by="admin"))

    scene.later(at, write)


def _close_group(scene: "Scene", at: int, end: int) -> None:
    path = scene.draw.choice(("t/a/x", "c"))

    def write() -> None:
        if path in scene.state.kept.groups and check_group_removal(scene.state, path, drain=True) is None:
            closing = replace(scene.state.kept.groups[path], closing=True)
            scene.tell("admission", f.GroupSet(group=closing, by="admin"))

    if scene.draw.random() < 0.4:
        scene.later(at, write)


def _user_edit(scene: "Scene", at: int, end: int) -> None:
    amounts = draw_amounts(scene.draw, 4) if scene.draw.random() < 0.7 else {}
    user = User(name=scene.draw.choice(USERS), group=scene.draw.choice(LEAVES), limit=amounts)

    def write() -> None:
        if user.group in scene.state.kept.groups and check_user(scene.state, Draft(), user) is None:
            scene.tell("admission", f.UserSet(user=user, by="admin"))

    scene.later(at, write)


def _prices(scene: "Scene", at: int, end: int) -> None:
    milli = {"a100": scene.draw.choice([500, 4000]), "*": scene.draw.choice([1000, 20_000])}
    scene.later(at, lambda: scene.tell("admission", f.PricesSet(milli=milli, by="admin")))


def _policy_edit(scene: "Scene", at: int, end: int) -> None:
    fields = {"ordering": scene.draw.choice(ORDERS), **draw_policy(scene.draw)}
    pool = scene.draw.choice(sorted(scene.state.kept.pools))

    def write() -> None:
        known = scene.state.kept.pools[pool]
        if check_policy(scene.state, replace(known.policy, **fields), pool) is None:
            scene.set_policy(pool, **fields)

    scene.later(at, write)


def _of_job(scene: "Scene", make: Callable[[JobId], f.Fact | None]) -> Callable[[], object]:
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


def _cancel(scene: "Scene", at: int, end: int) -> None:
    scene.later(at, _of_job(scene, lambda job: f.CancelRequested(job=job, by="ada")))


def _hold(scene: "Scene", at: int, end: int) -> None:
    state = scene.draw.getstate()
    scene.later(at, _of_job(scene, lambda job: f.HoldSet(job=job, held=True, by="ada")))
    scene.draw.setstate(state)
    scene.later(end, _of_job(scene, lambda job: f.HoldSet(job=job, held=False, by="ada")))


def _pause(scene: "Scene", at: int, end: int) -> None:
    urgent = scene.draw.random() < 0.3
    state = scene.draw.getstate()
    scene.later(at, _of_job(scene, lambda job: f.HoldSet(job=job, held=True, by="ada", pause=True)))
    scene.draw.setstate(state)
    scene.later(end, _of_job(scene, lambda job: f.HoldSet(job=job, held=False, by="ada", urgent=urgent)))


def _edit(scene: "Scene", at: int, end: int) -> None:
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


def _top(scene: "Scene", at: int, end: int) -> None:
    among = scene.draw.choice(["user", "group", "all"])

    def make(job: JobId) -> f.Fact | None:
        if check_top(scene.state, job=job) is not None:
            return None
        scope = top_scope(scene.job(job), Standing.ADMIN, among)
        return f.JobTopped(job=job, among=scope, by="admin") if isinstance(scope, str) else None

    scene.later(at, _of_job(scene, make))


def _size_wish(scene: "Scene", at: int, end: int) -> None:
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
