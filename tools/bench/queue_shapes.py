"""Kueue's performance shapes as data, run through the pure core in simulated time.

Source: kubernetes-sigs/kueue, test/performance/scheduler: cohorts of equal queues, each queue with three classes of
workloads that arrive on a clock; nominal quota 20, borrowing up to 100 more inside the cohort, higher classes first.
The topology shape has 640 machines in ten racks of one block, and workloads of as many members as they have units, a
third each that must stand in one rack, that would rather, and that are spread evenly over racks (balanced).
"""

import time

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.cluster import Node, Policy
from gangline_core.groups import Group
from gangline_core.ids import NodeId
from gangline_core.spec import JobSpec, Resources, Role, TopologyWish
from gangline_kit.loop import calm_collector
from gangline_lab.sim.conditions import Conditions
from gangline_lab.sim.engine import Scenario, simulate
from gangline_lab.sim.fleet import AGENT, Fleet
from gangline_lab.sim.workload import Arrival, Work, Workload

NOMINAL, BORROWED = 20, 100
UNIT_MILLI = 1000


class Class(Struct, frozen=True):
    """One class of workloads of a queue."""

    name: str
    count: int
    every_ms: int
    units: int
    run_ms: int
    priority: int


CLASSES = (
    Class(name="small", count=350, every_ms=100, units=1, run_ms=200, priority=50),
    Class(name="medium", count=100, every_ms=500, units=5, run_ms=500, priority=100),
    Class(name="large", count=50, every_ms=1_200, units=20, run_ms=1_000, priority=200),
)


class Shape(Struct, frozen=True):
    """So many cohorts of so many queues, each with a part of the classes' counts."""

    name: str
    cohorts: int
    queues: int
    part: float
    """How many of each class's workloads a queue has, as a part."""
    racks: int = 0
    """Racks of `RACK` machines of one unit each; 0 is one machine that stands for the whole quota."""


DEFAULT = Shape(name="default", cohorts=5, queues=6, part=1.0)
"""15,000 workloads."""
LARGE = Shape(name="large_scale", cohorts=10, queues=100, part=0.1)
"""50,000 workloads."""


TOPOLOGY = Shape(name="topology", cohorts=5, queues=6, part=1.0, racks=10)
"""15,000 workloads on 640 machines."""


class Outcome(Struct, frozen=True):
    """What a run came to."""

    jobs: int
    wall_s: float
    """Process time of the whole run."""
    use: float
    """Units in use over units there are, until the last workload ended."""
    waits_s: dict[str, float]
    """Mean wait by class, in simulated time."""


RACK = 64
LEVELS = {"block": "topology.gangline.dev/block", "rack": "topology.gangline.dev/rack"}
"""The labels by which a pool knows its levels unless told otherwise."""
WISHES = (
    TopologyWish(required="rack"),
    TopologyWish(preferred="rack"),
    TopologyWish(spread_level="rack", spread_most=2),
)
"""Required, preferred, balanced: of the balanced ones no rack holds more than a tenth of the largest."""
POLICY = Policy(
    ordering="priority",
    starvation_s=0,
    elastic_growth=False,
    placement="best_fit",
    node_tasks_max=100_000,
)
"""The one machine stands for the whole quota, so no limit of tasks per machine may hold it back."""


def run_shape(shape: Shape) -> Outcome:
    """The whole shape through the door, the rounds and the fold."""
    calm_collector()  # as every service of ours does
    units = shape.cohorts * shape.queues * NOMINAL
    scenario = Scenario(
        trace=Workload(name=shape.name, arrivals=tuple(arrivals(shape))),
        fleet=Fleet(nodes=machines(shape)),
        groups=tuple(groups(shape)),
        policies={"default": policy(shape)},
        conditions=Conditions(),
    )
    begun = time.process_time()
    result = simulate(scenario)
    wall_s = time.process_time() - begun
    waits: dict[str, list[int]] = {one.name: [] for one in CLASSES}
    for job in result.jobs:
        waits[job.name.split("-")[0]].append(job.waited_ms)
    used = sum(len(waits[one.name]) * one.units * one.run_ms for one in CLASSES)
    return Outcome(
        jobs=len(result.jobs),
        wall_s=wall_s,
        use=used / (units * result.end_ms),
        waits_s={name: sum(own) / max(1, len(own)) / 1000 for name, own in waits.items()},
    )


def policy(shape: Shape) -> Policy:
    """Higher classes first, and in the topology shape places that keep to racks."""
    return replace(POLICY, placement="topology") if shape.racks else POLICY


def arrivals(shape: Shape) -> list[Arrival]:
    queues = [f"c{cohort}/q{queue}" for cohort in range(shape.cohorts) for queue in range(shape.queues)]
    found = [
        _arrival(shape, one, path, number)
        for path in queues
        for one in CLASSES
        for number in range(round(one.count * shape.part))
    ]
    return sorted(found, key=lambda arrival: arrival.at_ms)


def _arrival(shape: Shape, one: Class, group: str, number: int) -> Arrival:
    """One workload: all its units in one task, or where there are racks a task of one unit each."""
    members = one.units if shape.racks else 1
    need = Resources(cpu_milli=one.units * UNIT_MILLI // members)
    role = Role(name="main", count=members, min_count=members, max_count=members, resources=need, command=("true",))
    spec = JobSpec(
        name=f"{one.name}-{group.replace('/', '-')}-{number}",
        group=group,
        user="bench",
        roles=(role,),
        priority=one.priority,
        grace_s=0,
        topology=WISHES[number % len(WISHES)] if shape.racks else TopologyWish(),
    )
    return Arrival(at_ms=number * one.every_ms, spec=spec, work=Work(run_ms=one.run_ms))


def groups(shape: Shape) -> list[Group]:
    """Cohorts with their queues."""
    found = []
    for cohort in range(shape.cohorts):
        whole = _units(shape.queues * NOMINAL)
        found.append(Group(path=f"c{cohort}", guaranteed=whole, limit=whole))
        for queue in range(shape.queues):
            path = f"c{cohort}/q{queue}"
            found.append(Group(path=path, guaranteed=_units(NOMINAL), borrow_limit=_units(BORROWED)))
    return found


def _units(number: int) -> dict[str, int]:
    return {"cpu_milli": number * UNIT_MILLI}


def machines(shape: Shape) -> tuple[Node, ...]:
    """One machine for the whole quota, or racks of machines of one unit."""
    if not shape.racks:
        units = shape.cohorts * shape.queues * NOMINAL
        return (Node(id=NodeId("quota"), agent=AGENT, cpu_milli=units * UNIT_MILLI, memory_mib=1 << 40),)
    return tuple(
        Node(
            id=NodeId(f"n-{rack:02d}-{place:02d}"),
            agent=AGENT,
            cpu_milli=UNIT_MILLI,
            memory_mib=1 << 20,
            labels={LEVELS["block"]: "b0", LEVELS["rack"]: f"r{rack}"},
        )
        for rack in range(shape.racks)
        for place in range(RACK)
    )
