"""Guarantees of shape while machines break and heal, and jobs of one group that need each other's cells."""

import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.test_cells import SIZES, machine, places, world
from tests.make import spec

from gangline_core import facts as f
from gangline_core.cluster import PinnedCell, Pool
from gangline_core.job import JobState, TaskState
from gangline_core.spec import ServiceClass

TABLE = json.loads((Path(__file__).parent.parent / "oracles" / "data" / "hived.json").read_text(encoding="utf-8"))
DIVISIONS = TABLE["invariant"]["divisions"]
PARTS = {
    "rack": [[0, 1, 2, 3], [4, 5, 6, 7]],
    "node": [[0, 1], [2, 3], [4, 5], [6, 7]],
    "socket": [[k] for k in range(8)],
}
"""The cells of four machines in two racks as sets of sockets, numbered through."""


def can_all_be_placed(owed: list[str], free: set[int]) -> bool:
    """Brute force: is there a place for each of these cells beside the others?"""
    if not owed:
        return True
    return any(can_all_be_placed(owed[1:], free - set(sockets)) for sockets in PARTS[owed[0]] if set(sockets) <= free)


def sockets_of(label: str) -> set[int]:
    """The sockets of the cell that a task carries, such as "a:socket:n1/0"."""
    _, level, name = label.split(":")
    node, _, part = name.lstrip("rn").partition("/")
    number = int(node) if level != "socket" else 2 * int(node) + int(part)
    return set(PARTS[level][number])


def free_sockets(made, in_use) -> set[int]:
    """Sockets whose GPUs are all well and free, and in no cell in use."""
    found = set()
    for k in range(4):
        node, use = made.state.kept.nodes[f"n{k}"], made.state.use[f"n{k}"]
        for socket in (0, 1):
            gpus = range(4 * socket, 4 * socket + 4)
            if node.takes_work and all(node.gpus[g].healthy and not use.gpu_milli[g] for g in gpus):
                found.add(2 * k + socket)
    return found - {number for label in in_use for number in sockets_of(label)}


EVENTS = st.one_of(
    st.tuples(st.sampled_from(["a", "b", "c", "d"]), st.sampled_from([1, 2, 4, 8])),
    st.tuples(st.sampled_from(["end", "lose", "return", "drain", "resume"]), st.integers(0, 3)),
    st.tuples(st.sampled_from(["break", "heal"]), st.integers(0, 31)),
)


class Story:
    """Allocations, frees and failures in any order."""

    def __init__(self, cells) -> None:
        self.world = world(*(machine(f"n{k}", f"r{k // 2}") for k in range(4)), cells=cells)
        self.machines = {f"n{k}": self.world.state.kept.nodes[f"n{k}"] for k in range(4)}

    def happen(self, what: str, number: int) -> None:
        match what:
            case "end":
                running = self.world.in_state(JobState.RUNNING)
                if running:
                    self.world.finish(running[number % len(running)])
            case "lose":
                self.world.tell("telemetry", f.NodeLost(node=f"n{number}", silent_ms=30_000))
            case "return":
                self.world.see(self.machines[f"n{number}"])
            case "drain" | "resume":
                drained = what == "drain"
                self.world.tell("admission", f.DrainSet(node=f"n{number}", drained=drained, by="admin"))
            case "break":
                self.world.tell("telemetry", f.GpuFailed(node=f"n{number // 8}", gpu=number % 8, problem="Xid 79"))
            case "heal":
                self.world.tell("telemetry", f.GpuHealthy(node=f"n{number // 8}", gpu=number % 8))
            case group:
                self.world.submit(spec(gpus=number, group=group))
        # Whoever waits still is no part of the question, nor is who would come back after a failure.
        self.world.round()
        self.world.start(*self.world.in_state(JobState.STARTING))
        lost = {name for name, task in self.world.state.kept.tasks.items() if task.state == TaskState.LOST}
        stopping = sorted(set(self.world.state.stopping_tasks) - lost)
        self.world.exit(*stopping, code=143, cause=f.ExitCause.STOPPED).empty(*stopping)
        for job in self.world.in_state(JobState.WAITING):
            self.world.cancel(job)


@settings(max_examples=60, deadline=None)
@given(st.lists(EVENTS, min_size=1, max_size=16), st.sampled_from(DIVISIONS))
def test_whatever_broke_a_job_that_fits_its_groups_free_cells_starts_at_once(events, cells):
    story = Story(cells)
    for what, number in events:
        story.happen(what, number)
    made = story.world
    in_use = {label for task in made.state.kept.tasks.values() if task.state != TaskState.LOST for label in task.cells}
    owed = [
        (group, level)
        for group, own in cells.items()
        for level, count in own.items()
        for _ in range(count - sum(label.startswith(f"{group}:{level}:") for label in in_use))
    ]
    owed.sort(key=lambda one: -SIZES[one[1]])
    if not can_all_be_placed([level for _, level in owed], free_sockets(made, in_use)):
        # Too much is broken: some cells are doomed, and who has them is a question of order only.
        return
    jobs = [
        made.submit(spec(gpus=min(8, SIZES[level]), tasks=max(1, SIZES[level] // 8), group=group))
        for group, level in owed
    ]
    made.round()
    assert [made.job(job).state for job in jobs] == [JobState.STARTING] * len(jobs)


def test_without_failures_everything_that_is_owed_can_always_be_placed():
    story = Story(DIVISIONS[0])
    for what, number in [("a", 8), ("b", 4), ("c", 4), ("d", 8), ("d", 4), ("end", 1), ("b", 8)]:
        story.happen(what, number)
    in_use = {label for task in story.world.state.kept.tasks.values() for label in task.cells}
    owed = sum(count for own in DIVISIONS[0].values() for count in own.values())
    assert len(in_use) < owed
    assert can_all_be_placed(["node"] * 3, set(range(8)))
    assert not can_all_be_placed(["node"] * 3, {0, 2, 4, 5, 6, 7})


# --- lazy preemption --------------------------------------------------------------------------------------------


def running(made, **fields):
    job = made.submit(spec(**fields))
    made.round()
    made.start(job)
    assert made.job(job).state == JobState.RUNNING
    return job


def test_a_lazy_job_runs_on_without_its_cell_when_its_group_needs_the_cell():
    made = world(machine("n1"), machine("n2"), cells={"a": {"node": 1}})
    first = running(made, gpus=8, group="a", lazy_preemption=True)
    second = made.submit(spec(gpus=8, group="a", priority=1))
    decided = made.round()
    assert [(one.job, one.beneficiary) for one in decided.lowerings] == [(first, second)]
    assert not decided.evictions
    assert (made.job(first).state, made.job(second).state) == (JobState.RUNNING, JobState.STARTING)
    assert made.job(first).lowered_for == second
    assert made.tasks(first)[0].cells == ()
    assert made.tasks(second)[0].cells == (f"a:node:{places(made, second)[0][0]}",)


def test_a_lowered_job_is_the_first_to_go_when_an_owner_comes():
    made = world(machine("n1"), machine("n2"), cells={"a": {"node": 1}, "b": {"node": 1}})
    first = running(made, gpus=8, group="a", lazy_preemption=True)
    second = running(made, gpus=8, group="a", priority=1)
    owner = made.submit(spec(gpus=8, group="b", priority=-5))
    decided = made.round()
    assert [(one.job, one.beneficiary, one.rule) for one in decided.evictions] == [(first, owner, "opportunistic")]
    made.settle()
    assert [made.job(job).state for job in (first, second, owner)] == [
        JobState.WAITING,
        JobState.RUNNING,
        JobState.RUNNING,
    ]


def test_a_job_that_is_not_lazy_is_evicted_for_its_group_instead():
    made = world(machine("n1"), machine("n2"), cells={"a": {"node": 1}})
    first = running(made, gpus=8, group="a")
    second = made.submit(spec(gpus=8, group="a", priority=1))
    decided = made.round()
    assert not decided.lowerings
    assert [(one.job, one.beneficiary) for one in decided.evictions] == [(first, second)]


def test_nobody_is_lowered_where_that_is_no_help():
    made = world(machine("n1"), machine("n2"), cells={"a": {"node": 2}})
    lazy = [running(made, gpus=8, group="a", lazy_preemption=True) for _ in range(2)]
    second = made.submit(spec(gpus=8, group="a", priority=1))
    decided = made.round()
    assert not decided.lowerings
    assert [one.job for one in decided.evictions] == [lazy[1]]
    assert [claim.job for claim in decided.claims] == [second]


def test_only_as_many_are_lowered_as_cells_are_needed():
    made = world(*(machine(f"n{k}") for k in range(3)), cells={"a": {"node": 2}})
    lazy = [running(made, gpus=8, group="a", lazy_preemption=True) for _ in range(2)]
    made.submit(spec(gpus=8, group="a", priority=1))
    decided = made.round()
    assert [one.job for one in decided.lowerings] == [lazy[1]]


def test_where_the_other_cell_is_lent_the_borrower_goes_and_the_lazy_job_runs_on():
    made = world(machine("n1"), machine("n2"), cells={"a": {"node": 1}})
    lazy = running(made, gpus=8, group="a", lazy_preemption=True)
    borrower = running(made, gpus=8, group="c", service_class=ServiceClass.OPPORTUNISTIC)
    owner = made.submit(spec(gpus=8, group="a", priority=1))
    decided = made.round()
    assert [one.job for one in decided.lowerings] == [lazy]
    assert [(one.job, one.beneficiary) for one in decided.evictions] == [(borrower, owner)]
    made.settle()
    assert (made.job(lazy).state, made.job(owner).state) == (JobState.RUNNING, JobState.RUNNING)


def test_a_job_that_starts_again_has_its_class_again():
    made = world(machine("n1"), machine("n2"), cells={"a": {"node": 1}, "b": {"node": 1}})
    first = running(made, gpus=8, group="a", lazy_preemption=True)
    second = running(made, gpus=8, group="a", priority=1)
    running(made, gpus=8, group="b") if made.job(first).state != JobState.RUNNING else None
    owner = made.submit(spec(gpus=8, group="b"))
    made.round()
    made.settle()
    assert made.job(owner).state == JobState.RUNNING
    made.finish(second)
    made.settle()
    assert made.job(first).state == JobState.RUNNING
    assert made.job(first).lowered_for == 0
    assert made.tasks(first)[0].cells


# --- pinned cells -----------------------------------------------------------------------------------------------


def pinned_world():
    made = world(machine("n1"), machine("n2"), cells={"a": {"node": 1}})
    pool = Pool(
        name="default", cells={"a": {"node": 1}}, pinned={"mine": PinnedCell(group="a", level="node", cell="n1")}
    )
    made.tell("admission", f.PoolSet(pool=pool, by="admin"))
    return made


def test_a_pinned_cell_is_for_those_who_ask_for_it_by_name():
    made = pinned_world()
    plain = running(made, gpus=8, group="a")
    assert places(made, plain)[0][0] == "n2"
    other = made.submit(spec(gpus=1, group="c"))
    more = made.submit(spec(gpus=1, group="a"))
    made.round()
    assert made.job(other).state == made.job(more).state == JobState.WAITING
    pinned = running(made, gpus=8, group="a", pinned_cell="mine")
    assert places(made, pinned)[0][0] == "n1"


def test_nobody_else_gets_a_pinned_cell_by_naming_it():
    made = pinned_world()
    thief = made.submit(spec(gpus=1, group="c", pinned_cell="mine"))
    made.round()
    assert made.job(thief).state == JobState.WAITING


def test_a_pinned_cell_of_a_broken_machine_waits_for_it():
    made = pinned_world()
    made.tell("telemetry", f.NodeLost(node="n1", silent_ms=30_000))
    pinned = made.submit(spec(gpus=8, group="a", pinned_cell="mine"))
    made.round()
    assert made.job(pinned).state == JobState.WAITING
    made.see(machine("n1"))
    made.round()
    assert places(made, pinned)[0][0] == "n1"


# --- taking over a claim ----------------------------------------------------------------------------------------


def test_a_more_important_job_takes_over_the_room_that_is_cleared_and_nobody_new_goes():
    made = world(machine("n1"), cells={"a": {"node": 1}})
    low = running(made, gpus=8, group="a")
    middle = made.submit(spec(gpus=8, group="a", priority=1))
    made.round()
    high = made.submit(spec(gpus=8, group="a", priority=2))
    decided = made.round()
    assert decided.claims_dropped == (middle,)
    assert [(claim.job, claim.victims) for claim in decided.claims] == [(high, (made.tasks(low)[0].id,))]
    assert not decided.evictions
    made.settle()
    assert (made.job(high).state, made.job(middle).state) == (JobState.RUNNING, JobState.WAITING)


def test_a_claim_is_not_taken_over_by_an_equal_or_where_it_does_not_help():
    made = world(machine("n1"), machine("n2"), cells={"a": {"node": 1}})
    running(made, gpus=8, group="a")
    middle = made.submit(spec(gpus=8, group="a", priority=1))
    made.round()
    equal = made.submit(spec(gpus=8, group="a", priority=1))
    stranger = made.submit(spec(gpus=8, tasks=2, group="c", priority=9))
    decided = made.round()
    assert not decided.claims_dropped
    assert not decided.claims
    made.settle()
    assert made.job(middle).state == JobState.RUNNING
    assert made.job(equal).state == made.job(stranger).state == JobState.WAITING


def test_of_several_claims_only_the_needed_ones_are_taken_over_the_least_important_first():
    made = world(machine("n1"), machine("n2"), machine("n3"), machine("n4"), cells={"a": {"node": 4}})
    for _ in range(4):
        running(made, gpus=8, group="a")
    claims = [made.submit(spec(gpus=8, group="a", priority=priority)) for priority in (3, 2, 1, 1)]
    made.round()
    assert len(made.state.kept.claims) == 4
    made.submit(spec(gpus=8, tasks=2, group="a", priority=5))
    decided = made.round()
    assert set(decided.claims_dropped) == {claims[2], claims[3]}
