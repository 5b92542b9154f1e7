"""What a random scene is made of: machines, groups, users, policies and jobs, drawn from a seed."""

from collections.abc import Callable
from random import Random
from typing import Any

from msgspec.structs import replace
from tests.cases.drive import Drive
from tests.make import T0, gpu_amount, group, node, role

from gangline_core import facts as f
from gangline_core.cluster import Gpu, LevelRule, Node
from gangline_core.door.draft import Draft
from gangline_core.elasticity import POLICIES
from gangline_core.groups import BudgetMode, BudgetPeriod, Group, User
from gangline_core.limits.calendar import Season
from gangline_core.ordering import ORDERINGS
from gangline_core.room.mig import compute_milli
from gangline_core.settings import check_group
from gangline_core.spec import ArraySpec, Pausing, Resources, Role, ServiceClass
from gangline_core.spec import TopologyWish as Wish

PATHS = ("t", "t/a", "t/a/x", "t/b", "c")
LEAVES = ("t/a", "t/a/x", "t/b", "c", "c")
USERS = ("ada", "bob")
LIFTED_S = 2000
ORDERS = tuple(name for name in ORDERINGS if name != "gavel")
MIG = "a100-40gb"
PROFILES = ("1g.5gb", "2g.10gb", "3g.20gb")
MINUTE_OF_T0 = T0 // 60_000 % 1440


# --- what there is ------------------------------------------------------------------------------------------


def draw_machine(draw: Random, number: int, pool: str) -> Node:
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


def draw_amounts(draw: Random, most: int) -> dict[str, int]:
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


def draw_group(draw: Random, path: str) -> Group:
    """One group with whatever it may have; what the door would refuse is left out by the caller."""
    most = 24 if path == "t" else 10
    choices: dict[str, tuple[float, Callable[[], Any]]] = {
        "limit": (0.35, lambda: draw_amounts(draw, most)),
        "guaranteed": (0.6, lambda: gpu_amount(draw.randint(0, 6))),
        "lend_limit": (0.2, lambda: gpu_amount(draw.randint(0, 4))),
        "borrow_limit": (0.2, lambda: gpu_amount(draw.randint(0, 4))),
        "user_limit": (0.15, lambda: draw_amounts(draw, 6)),
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
        limit=draw_amounts(draw, most),
        user_limit=draw_amounts(draw, 4) if draw.random() < 0.2 else {},
    )


def draw_groups(draw: Random) -> list[Group]:
    """A tree that the door lets through, edit by edit."""
    known = Drive(groups=[group(path) for path in PATHS])
    for path in PATHS:
        for _ in range(4):
            wanted = draw_group(draw, path)
            if check_group(known.state, Draft(), wanted) is None:
                known.tell("admission", f.GroupSet(group=wanted, by="admin"))
                break
    return [known.state.kept.groups[path] for path in PATHS]


def draw_users(draw: Random) -> list[User]:
    found = []
    for path in ("t/a", "c"):
        if draw.random() < 0.3:
            found.append(User(name="ada", group=path, limit=gpu_amount(draw.randint(1, 2)), level=draw.randint(0, 3)))
            found.append(User(name="bob", group=path))
    return found


def draw_policy(draw: Random) -> dict[str, Any]:
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
    found = {name: value() for name, (part, value) in choices.items() if draw.random() < part}
    if found.get("ordering") == "least_attained" and draw.random() < 0.4:
        found["sinks_last"] = True
    return found


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


def draw_job(draw: Random) -> dict[str, Any]:
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
