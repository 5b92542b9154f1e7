"""Random scenes in which everything meets: whatever happens, changes end, everything ends, and the log replays.

A scene is drawn from a seed: some nodes, groups that lend and borrow, a policy, jobs of all kinds, and people and
machines that interfere. At second 2000 all limits are lifted, so that whatever still waits can run.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from tests.cases.drive import Ask, Drive
from tests.make import T0, gpu_amount, group, node, role

from gangline_core import facts as f
from gangline_core.cluster import Node
from gangline_core.door.edits import JobEdit
from gangline_core.elasticity import POLICIES
from gangline_core.groups import Group
from gangline_core.ids import JobId
from gangline_core.job import ENDS
from gangline_core.limits.usage_by_class import recompute
from gangline_core.ordering import ORDERINGS
from gangline_core.reserving.windows import Window
from gangline_core.spec import ArraySpec, Pausing, ServiceClass, TopologyWish

GROUPS = ("t/a", "t/b", "c")
LIFTED_S = 2000
ORDERS = [name for name in ORDERINGS if name != "gavel"]


@pytest.mark.parametrize("seed", range(16))
def test_whatever_meets_everything_ends_and_the_log_replays(seed):
    draw = Random(seed)
    nodes = [_node(draw, k) for k in range(draw.randint(1, 6))]
    drive = Drive(*nodes, groups=_groups(draw), policy=_policy(draw))
    asks = []
    for _ in range(draw.randint(10, 45)):
        asks.append(drive.ask(draw.randint(0, 300), **_job(draw, len(asks))))
    for _ in range(draw.randint(0, 20)):
        _trouble(draw, drive, asks, nodes)
    for path in ("t", *GROUPS):
        drive.later(LIFTED_S, lambda path=path: drive.set_group(path))
    drive.finish_all()
    assert [drive.why(ask) for ask in asks if _lives(drive, ask)] == []
    assert recompute(drive.state) == {}


def _node(draw: Random, number: int) -> Node:
    size, model, cpus = draw.choice([1, 2, 4, 8]), draw.choice(["A100", "A100", "V100"]), draw.choice([8, 32, 64])
    return node(f"n{number}", gpus=size, model=model, cpus=cpus, labels={"rack": f"r{number % 2}"})


def _groups(draw: Random) -> list[Group]:
    def sometimes(part: float, most: int) -> dict[str, int]:
        return gpu_amount(draw.randint(0, most)) if draw.random() < part else {}

    return [
        group("t", limit=gpu_amount(draw.randint(4, 30)) if draw.random() < 0.4 else {}),
        group("t/a", guaranteed=gpu_amount(draw.randint(0, 6)), lend_limit=sometimes(0.2, 4)),
        group("t/b", guaranteed=gpu_amount(draw.randint(0, 6)), borrow_limit=sometimes(0.2, 4), weight=2),
        group("c", limit=gpu_amount(draw.randint(1, 12)) if draw.random() < 0.5 else {}),
    ]


def _policy(draw: Random) -> dict[str, Any]:
    """Leases and slices are longer than any job runs: nothing here saves what it did when it has to stop."""
    choices: dict[str, tuple[float, Callable[[], Any]]] = {
        "ordering": (0.5, lambda: draw.choice(ORDERS)),
        "placement": (0.3, lambda: draw.choice(["spread", "best_fit", "topology", "fgd"])),
        "elastic": (0.3, lambda: draw.choice(sorted(POLICIES))),
        "preemption": (0.2, lambda: False),
        "backfill": (0.2, lambda: False),
        "backfill_depth": (0.2, lambda: draw.randint(2, 8)),
        "time_slice_s": (0.2, lambda: draw.choice([150, 300])),
        "lease_s": (0.15, lambda: draw.choice([200, 400])),
        "oldest_preempts": (0.15, lambda: True),
        "start_limit_s": (0.2, lambda: 10),
    }
    return {name: value() for name, (part, value) in choices.items() if draw.random() < part}


def _job(draw: Random, before: int) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "group": draw.choice(GROUPS),
        "user": draw.choice(["ada", "bob"]),
        "priority": draw.choice([0, 0, 0, 10, 50]),
        "run": draw.randint(1, 90),
        "start": draw.choice([0, 0, 3]),
        "stop": draw.choice([0, 0, 5, 30]),
    }
    terms: dict[str, tuple[float, Callable[[], Any]]] = {
        "limit": (0.3, lambda: fields["run"] + draw.randint(0, 30)),
        "protected_s": (0.2, lambda: draw.choice([10, 100])),
        "preemptible": (0.1, lambda: False),
        "service_class": (0.15, lambda: draw.choice(list(ServiceClass))),
        "retries": (0.15, lambda: draw.randint(1, 3)),
        "code": (0.1, lambda: 1),
        "repair_s": (0.15, lambda: 30),
        "topology": (0.2, lambda: draw.choice(["rack", "node", TopologyWish(preferred="rack")])),
        "not_before_ms": (0.1, lambda: T0 + 1000 * draw.randint(0, 400)),
        "pausing": (0.2, Pausing),
        "lazy_preemption": (0.15, lambda: True),
        "after": (0.1 if before else 0, lambda: [draw.randint(1, before)]),
    }
    fields.update({name: value() for name, (part, value) in terms.items() if draw.random() < part})
    return {**fields, **_size(draw)}


def _size(draw: Random) -> dict[str, Any]:
    least = draw.randint(1, 2)
    sizes: list[dict[str, Any]] = [
        {"tasks": draw.randint(1, 6), "gpus": draw.choice([1, 2])},
        {"tasks": draw.randint(2, 5), "minimum": least, "maximum": 6, "gpus": draw.choice([1, 1, 0.5])},
        {"gpus": draw.choice([0.25, 0.5, 0.33])},
        {"gpus": 0, "gpu_memory_mib": draw.choice([1000, 20_000, 40_960])},
        {"gpus": 0, "cpus": draw.randint(1, 40)},
        {"gpus": 1, "array": ArraySpec(ranges=((0, draw.randint(1, 6), 1),), at_most=draw.randint(0, 3))},
        {"roles": [role("a", gpus=1), role("b", tasks=draw.randint(1, 3), gpus=draw.choice([0, 1]))]},
        {"gpus": draw.choice([1, 2, 4, 8]), "gpu_models": draw.choice([(), ("A100",), ("V100", "A100")])},
    ]
    return draw.choice(sizes)


def _lives(drive: Drive, ask: Ask) -> bool:
    return ask.id in drive.state.kept.jobs and drive.job(ask.id).state not in ENDS


def _trouble(draw: Random, drive: Drive, asks: list[Ask], nodes: list[Node]) -> None:
    """One thing that somebody or something does in the middle of it, and what ends it."""
    ask, machine, path = draw.choice(asks), draw.choice(nodes), draw.choice(GROUPS)
    at = draw.randint(5, 300)
    end, gpu, number = at + draw.randint(1, 90), draw.randrange(len(machine.gpus)), draw.randint(0, 8)

    def of_job(make: Callable[[JobId], f.Fact]) -> Callable[[], object]:
        return lambda: _lives(drive, ask) and drive.tell("admission", make(ask.id))

    def of_machine(fact: f.Fact) -> Callable[[], object]:
        return lambda: drive.tell("telemetry", fact)

    window = Window(name="w", pool="default", start_ms=T0 + at * 1000, end_ms=T0 + end * 1000, nodes=(machine.id,))
    kinds: list[list[tuple[float, Callable[[], object]]]] = [
        [(at, lambda: drive.lose(machine.id)), (end, lambda: drive.see(machine))],
        [(at, lambda: drive.drain(machine.id)), (end, lambda: drive.drain(machine.id, drained=False))],
        [
            (at, of_machine(f.GpuFailed(node=machine.id, gpu=gpu, problem="Xid 79"))),
            (end, of_machine(f.GpuHealthy(node=machine.id, gpu=gpu))),
        ],
        [(at / 2, lambda: drive.tell("admission", f.WindowSet(window=window, by="admin")))],
        [(at, lambda: drive.set_group(path, limit=gpu_amount(number)))],
        [(at, lambda: drive.set_group(path, guaranteed=gpu_amount(number // 2)))],
        [(at, lambda: drive.set_policy("default", ordering=ORDERS[number % len(ORDERS)]))],
        [(at, drive.restart)],
        [(at, of_job(lambda job: f.CancelRequested(job=job, by="ada")))],
        [
            (at, of_job(lambda job: f.HoldSet(job=job, held=True, by="ada"))),
            (end, of_job(lambda job: f.HoldSet(job=job, held=False, by="ada"))),
        ],
        [(at, of_job(lambda job: f.JobEdited(job=job, edit=JobEdit(priority=10 * number), by="ada")))],
        [(at, lambda: _ask_for_size(drive, ask, number))],
    ]
    for second, act in draw.choice(kinds):
        drive.later(second, act)


def _ask_for_size(drive: Drive, ask: Ask, size: int) -> None:
    """What the door lets through: a running job of one role, within its sizes."""
    first = ask.spec.roles[0]
    if _lives(drive, ask) and drive.is_running(ask) == [True] and first.min_count <= size <= first.max_count:
        drive.tell("admission", f.ResizeAsked(job=ask.id, role=first.name, size=size, by="ada"))
