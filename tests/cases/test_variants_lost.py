"""Reports about machines (K) once more in other shapes: closed in every way, silent in every pattern."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.cases.drive import Drive
from tests.make import World, node, spec

from gangline_core import facts as f
from gangline_core.cluster import Node
from gangline_core.ids import NodeId
from gangline_core.job import JobState
from gangline_core.spec import Elastic, ResizeKind, Toleration
from gangline_telemetry.config import Config
from gangline_telemetry.health import Watch
from gangline_wire.samples import NodeSample

# --- K04: closed machines are no room, for whatever is planned (kubernetes-sigs/kueue#3401) ---------------------------

WAYS = ("drained", "lost", "ill", "quarantined", "tainted")


def close(drive: Drive, name: str, way: str, *, opened: bool = False) -> None:
    """Close a node in one of the ways there are, or open it again."""
    known = drive.state.kept.nodes[NodeId(name)]
    plain = replace(known, drained=False, lost=False, quarantine="", quarantined_ms=0, problem="", taints=())
    match way:
        case "drained":
            drive.drain(name, drained=not opened)
        case "lost" if opened:
            drive.see(plain)
        case "lost":
            drive.lose(name)
        case "quarantined":
            drive.tell("telemetry", f.NodeQuarantined(node=NodeId(name), problem="" if opened else "starts fail"))
        case "ill":
            drive.see(replace(plain, problem="" if opened else "the driver does not answer"))
        case _:
            drive.see(node(name, gpus=len(known.gpus), taints=() if opened else ("maintenance",)))


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_planned_on_a_closed_machine_and_nobody_there_is_evicted_in_vain(way: str) -> None:
    drive = Drive(node("n1", gpus=4), node("n2", gpus=4))
    low = [drive.ask(0, gpus=4, priority=-1) for _ in range(2)]
    drive.until(1)
    [there] = [ask for ask in low if drive.where(ask) == ["n1"]]
    [here] = [ask for ask in low if ask is not there]
    close(drive, "n1", way)
    high = drive.ask(2, gpus=4, priority=10, run=50)
    drive.until(5)
    assert [one.victim for one in drive.evicted] == [here.id], "whose end makes room for it"
    assert drive.where(high) == ["n2"]
    assert drive.is_running(there) == [way != "lost"], "what works there goes on"
    for decided in drive.decided[-5:]:
        assert not any(place.node == "n1" for one in decided.reservations for place in one.tasks)


@pytest.mark.parametrize("way", ["drained", "tainted"])
def test_a_gang_that_would_begin_anew_on_a_closed_machine_is_not_made_smaller(way: str) -> None:
    """Made smaller it lost its place there, or began on a machine that keeps it away."""
    drive = Drive(node("n1", gpus=4), node("n2", gpus=4))
    gang = drive.ask(0, tasks=3, minimum=1, gpus=2, elastic=Elastic(kind=ResizeKind.RESTART))
    drive.until(1)
    assert sorted(drive.where(gang)) == ["n1", "n1", "n2"]
    close(drive, "n1", way)
    more = drive.asks_of(2, 2, gpus=2)
    drive.until(10)
    assert drive.is_running(gang, *more) == [True, True, False]
    assert drive.where(gang) == ["n1", "n1", "n2"], "what it gave up there would have helped, and cost it all the rest"
    close(drive, "n1", way, opened=True)
    drive.until(60)
    assert drive.is_running(gang, *more) == [True, True, True]


class Closures:
    """Nodes that are closed and opened while jobs come."""

    def __init__(self, drive: Drive) -> None:
        self.drive = drive
        self.how: dict[str, str] = {}

    def turn(self, name: str, way: str) -> None:
        """Close it, or open what is closed."""
        before = self.how.pop(name, "")
        close(self.drive, name, before or way, opened=bool(before))
        if not before:
            self.how[name] = way

    def may(self, job: int) -> set[str]:
        """Nodes on which new tasks of the job may be."""
        tolerates = {one.key for one in self.drive.job(job).spec.tolerations}
        return {
            name
            for name, known in self.drive.state.kept.nodes.items()
            if known.takes_work and {taint.key for taint in known.taints} <= tolerates
        }


class Watching(Drive):
    """A drive that looks at every decision as it is made."""

    closures: Closures | None = None

    def _note(self, fact: f.RoundDecided) -> None:
        super()._note(fact)
        if self.closures is None:
            return
        new = [(one.job, one.tasks) for one in (*fact.placements, *fact.growths)]
        new += [(one.job, one.placement.tasks) for one in fact.restarts]
        new += [(one.job, one.tasks) for one in fact.reservations]
        for job, places in new:
            assert {place.node for place in places} <= self.closures.may(job), (job, self.closures.how)
        for eviction in fact.evictions:
            assert eviction.beneficiary in self.state.kept.jobs


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_whatever_is_closed_when_no_plan_touches_it(data: st.DataObject) -> None:
    drive = Watching(*(node(f"n{k}", gpus=4) for k in range(3)), policy={"migration": True, "elastic_interval_s": 5})
    drive.closures = closures = Closures(drive)
    for k in range(data.draw(st.integers(2, 7))):
        kind = data.draw(st.sampled_from(list(ResizeKind)))
        least = data.draw(st.integers(1, 3))
        drive.ask(
            data.draw(st.integers(0, 40)),
            tasks=least,
            minimum=1,
            maximum=data.draw(st.sampled_from([least, 6])),
            gpus=data.draw(st.sampled_from([1, 2])),
            priority=data.draw(st.integers(0, 2)),
            run=data.draw(st.sampled_from([None, 15])),
            elastic=Elastic(kind=kind),
            tolerations=(Toleration(key="maintenance"),) if k % 3 == 0 else (),
            limit=data.draw(st.sampled_from([0, 60])),
        )
    for _ in range(data.draw(st.integers(1, 6))):
        name, way = f"n{data.draw(st.integers(0, 2))}", data.draw(st.sampled_from(WAYS))
        drive.later(data.draw(st.integers(0, 60)), lambda name=name, way=way: closures.turn(name, way))
    drive.until(120)
    assert drive.decided


# --- K02: silence (skypilot-org/skypilot#10155) -----------------------------------------------------------------------


def heard_in(world: World, watch: Watch, seconds: int, silent: Any, begin: int = 0) -> list[tuple[int, f.Fact]]:
    """Play so many seconds in which a node speaks each second, but in those for which `silent` holds."""
    found: list[tuple[int, f.Fact]] = []
    for second in range(begin, begin + seconds):
        known: Node = world.state.kept.nodes[NodeId("n1")]
        if not silent(second):
            watch.hear(NodeSample(node="n1", at=world.at), float(second))
            if known.lost:
                world.see(node("n1"))
        for fact in watch.judge(world.state, second + 0.5):
            if isinstance(fact, f.NodeLost):
                found.append((second, fact))
                world.tell("telemetry", fact)
    return found


def test_one_long_silence_is_one_loss_and_none_of_the_short_ones_for_nineteen_hours_after_it_is_another() -> None:
    world, watch = World(node("n1")), Watch(Config(), 0.0)

    def silent(second: int) -> bool:
        return 3600 <= second < 3690 or (second > 3700 and second % 1800 < 5)

    found = heard_in(world, watch, 20 * 3600, silent)
    assert [second for second, _ in found] == [3629]


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(1, 45), st.integers(1, 40)), min_size=1, max_size=12))
def test_a_node_is_lost_once_per_silence_that_is_longer_than_the_limit_and_never_for_many_short_ones(
    story: list[tuple[int, int]],
) -> None:
    world, watch = World(node("n1")), Watch(Config(), 0.0)
    quiet: set[int] = set()
    second, long = 1, 0
    for silence, speech in story:
        quiet |= set(range(second, second + silence))
        long += silence >= 30
        second += silence + speech
    found = heard_in(world, watch, second, quiet.__contains__)
    assert len(found) == long


@pytest.mark.parametrize("change", [5, 29, 31, 200])
def test_who_takes_over_the_watch_counts_silence_from_its_own_beginning(change: int) -> None:
    world = World(node("n1"))
    assert len(heard_in(world, Watch(Config(), 0.0), change, lambda second: second > 3)) == (change > 33)
    again = Watch(Config(), float(change))
    world.see(node("n1"))
    assert heard_in(world, again, 30, lambda _: True, begin=change) == []


# --- J10: a node that joins a pool nobody knows or that is emptied (dstackai/dstack#3449) -----------------------------


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["assign", "see", "lose"]), st.integers(0, 2), st.sampled_from(["default", "a", "b"])
        ),
        max_size=12,
    ),
)
def test_however_nodes_move_between_pools_none_is_without_one_and_what_works_there_goes_on(
    story: list[tuple[str, int, str]],
) -> None:
    world = World(*(node(f"n{k}", gpus=1) for k in range(3)))
    jobs = {f"n{k}": world.submit_running(spec(gpus=1), f"n{k}") for k in range(3)}
    for what, number, pool in story:
        name = f"n{number}"
        known = world.state.kept.nodes[NodeId(name)]
        match what:
            case "assign" if pool in world.state.kept.pools:
                world.tell("admission", f.NodeAssigned(node=NodeId(name), pool=pool, by="root"))
            case "see":
                world.tell("agent.sim", f.NodeSeen(node=replace(known, pool=known.home or pool, home="")))
            case "lose":
                world.tell("telemetry", f.NodeLost(node=NodeId(name), silent_ms=30_000))
                jobs.pop(name, None)
    kept = world.state.kept
    assert all(known.pool in kept.pools for known in kept.nodes.values())
    assert all(world.job(job).state in (JobState.RUNNING, JobState.WAITING) for job in jobs.values())
    assert sum(len(world.tasks(job)) for job in jobs.values()) == len(jobs), "whose node was not lost is still there"
