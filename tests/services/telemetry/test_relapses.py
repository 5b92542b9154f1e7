"""A node that is lost again and again takes no new work for a while, unless it is not the node's own fault."""

from tests.make import World, node, spec

from gangline_core import facts as f
from gangline_core.groups import Group, User
from gangline_core.ids import NodeId
from gangline_core.job import JobState
from gangline_core.reasons import ReasonCode
from gangline_telemetry.config import Config
from gangline_telemetry.relapses import NODES_OF_A_JOB, Relapses
from gangline_telemetry.starts import Starts

CONFIG = Config(relapses=3, relapse_s=3600, retest_s=600)


class Scene:
    """Some nodes, and who watches them."""

    def __init__(self, nodes: int = 2) -> None:
        self.nodes = {NodeId(f"n{k + 1}"): node(f"n{k + 1}") for k in range(nodes)}
        self.world = World(*self.nodes.values(), groups=[Group(path="lab")], users=[User(name="ann", group="lab")])
        self.relapses, self.starts = Relapses(CONFIG), Starts(CONFIG)

    def tell(self, lane: str, *facts: f.Fact) -> None:
        self.relapses.note(self.world.state, facts, self.world.at)
        self.world.tell(lane, *facts)

    def lose(self, *names: str, for_s: float = 300, silent_ms: int = 30_000) -> None:
        """Nodes are lost, and come back a while later with nothing on them."""
        self.tell("telemetry", *(f.NodeLost(node=NodeId(name), silent_ms=silent_ms) for name in names))
        self.world.settle()
        self.world.wait(for_s)
        for name in names:
            gone = self.world.state.lost_tasks(NodeId(name))
            self.tell("agent.sim", f.NodeSeen(node=self.nodes[NodeId(name)]), f.GpusEmpty(tasks=tuple(gone)))
        self.world.settle()
        self.world.wait(60)

    def judge(self) -> set[str]:
        """Who is closed now."""
        at = self.world.at
        facts = (*self.starts.judge(self.world.state, at), *self.relapses.judge(self.world.state, at))
        if facts:
            self.tell("telemetry", *facts)
            self.world.settle()
        return {name for name, one in self.world.state.kept.nodes.items() if one.quarantine}


def test_a_job_whose_node_vanishes_each_time_goes_on_elsewhere() -> None:
    scene = Scene()
    world = scene.world
    other = world.submit_running(spec(group="lab", user="ann", gpus=8), "n2")
    job = world.submit(spec(group="lab", user="ann", gpus=8))
    for _ in range(2):
        world.settle()
        scene.lose("n1")
        assert scene.judge() == set()
    scene.lose("n1")
    assert scene.judge() == {"n1"}
    closed = world.state.kept.nodes[NodeId("n1")]
    assert closed.quarantine == "it was lost 3 times within 12 minutes"
    world.settle()
    assert [task.node for task in world.tasks(job)] == ["n1"], "what is there stays"
    scene.lose("n1")
    world.cancel(other)
    for task in world.tasks(other):
        world.empty(task.id)
    world.settle()
    assert [task.node for task in world.tasks(job)] == ["n2"]
    assert world.job(job).retries_used == 0


def test_it_is_tried_again_after_a_while_and_later_each_time() -> None:
    scene = Scene()
    for wait_s in (600, 1200):
        for _ in range(3):
            scene.lose("n1", for_s=40)
        assert scene.judge() == {"n1"}
        scene.world.wait(wait_s - 1)
        assert scene.judge() == {"n1"}
        scene.world.wait(1)
        assert scene.judge() == set()


def test_losses_that_are_long_ago_count_no_more() -> None:
    scene = Scene()
    for _ in range(9):
        scene.lose("n1", for_s=1800)
        assert scene.judge() == set()


def test_a_node_that_its_cluster_takes_away_and_brings_back_was_not_lost() -> None:
    scene = Scene()
    for _ in range(6):
        scene.lose("n1", silent_ms=0)
        assert scene.judge() == set()


def test_nodes_that_go_together_are_the_networks_trouble() -> None:
    scene = Scene(4)
    for _ in range(6):
        scene.lose("n1", "n2")
        assert scene.judge() == set()


def test_where_nothing_else_takes_work_a_node_stays_open() -> None:
    scene = Scene(1)
    for _ in range(6):
        scene.lose("n1")
        assert scene.judge() == set()


def test_a_job_that_ends_one_machine_after_the_other_does_not_close_the_cluster() -> None:
    scene = Scene(4)
    world = scene.world
    job = world.submit(spec(group="lab", user="ann", gpus=8))
    for _ in range(12):
        world.settle()
        [task] = world.tasks(job)
        scene.lose(task.node, for_s=120)
        assert len(scene.judge()) < NODES_OF_A_JOB
    assert world.job(job).losses == 12


def test_an_administrator_who_opens_it_knows_better() -> None:
    scene = Scene()
    for _ in range(2):
        scene.lose("n1")
    scene.tell("admission", f.DrainSet(node=NodeId("n1"), drained=False, by="root"))
    scene.lose("n1")
    assert scene.judge() == set()


def test_who_waits_for_a_closed_node_is_told_that_it_is_sick() -> None:
    scene = Scene()
    world = scene.world
    for _ in range(3):
        scene.lose("n1")
    assert scene.judge() == {"n1"}
    world.submit_running(spec(group="lab", user="ann", gpus=8), "n2")
    job = world.submit(spec(group="lab", user="ann", gpus=8))
    world.settle()
    found = world.job(job)
    assert found.state == JobState.WAITING
    assert found.reason is not None
    assert found.reason.code == ReasonCode.INSUFFICIENT_GPUS
