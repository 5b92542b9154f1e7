"""A cluster whose service is away takes no new work, loses nothing, and is forgotten by an administrator alone."""

import pytest
from tests.make import World, node, spec

from gangline_core import facts as f
from gangline_core.door.removal import check_node_removal
from gangline_core.ids import JobId, NodeId
from gangline_core.job import JobState
from gangline_core.state import decode_snapshot, encode_snapshot
from gangline_telemetry.clusters import EVERY_S, Clusters
from gangline_telemetry.config import Config
from gangline_telemetry.starts import Starts

EAST = "kubernetes.east"
CONFIG = Config(cluster_away_s=60)


class Scene:
    """Two nodes of a cluster and one machine with an agent, and who asks for the cluster's service."""

    def __init__(self) -> None:
        self.world = World(node("n1"))
        east = (node(name, agent=EAST, is_watched=True) for name in ("e1", "e2"))
        self.world.tell(EAST, *(f.NodeSeen(node=one) for one in east))
        self.clusters, self.starts = Clusters(CONFIG), Starts(CONFIG)
        self.now_s = 1000.0

    def pass_time(self, seconds: float, *, leads: bool | None) -> list[f.Fact]:
        """Ask as the shell does; None is a bus that does not answer. What was judged."""
        told: list[f.Fact] = []
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.now_s += 1
            self.world.wait(1)
            for agent in self.clusters.due(self.world.state, self.now_s):
                if leads is None:
                    self.clusters.forgive(agent)
                else:
                    self.clusters.hear(agent, self.now_s, leads=leads)
            state = self.world.state
            facts = (*self.clusters.judge(state, self.now_s), *self.starts.judge(state, self.world.at))
            if facts:
                self.world.tell("telemetry", *facts)
                told += facts
        return told

    def run(self, where: str) -> JobId:
        """A job of eight GPUs that runs there."""
        job = self.world.submit(spec(gpus=8))
        self.world.place(job, where)
        [task] = self.world.tasks(job)
        self.world.tell(EAST if where.startswith("e") else "agent.sim", f.TaskStarted(task=task.id))
        return job

    def open_nodes(self) -> list[str]:
        return sorted(name for name, one in self.world.state.kept.nodes.items() if one.takes_work)


def test_a_cluster_whose_service_is_away_takes_no_new_work_until_it_is_back() -> None:
    scene = Scene()
    running = scene.run("e1")
    assert scene.pass_time(100, leads=True) == []
    assert scene.pass_time(60, leads=False) == []
    assert len(scene.pass_time(10, leads=False)) == 2
    assert scene.open_nodes() == ["n1"]
    scene.world.settle()
    assert scene.world.job(running).state == JobState.RUNNING, "its pods go on"
    assert "east, its Kubernetes cluster, is away" in scene.world.state.kept.nodes[NodeId("e1")].quarantine
    assert scene.pass_time(7200, leads=False) == [], "time alone opens nothing"
    assert len(scene.pass_time(EVERY_S, leads=True)) == 2
    assert scene.open_nodes() == ["e1", "e2", "n1"]
    assert scene.world.state.kept.troubles == {}, "it was no fault of the machines"


def test_silence_of_the_bus_is_none_of_the_cluster() -> None:
    scene = Scene()
    scene.pass_time(10, leads=True)
    assert scene.pass_time(50, leads=False) == []
    assert scene.pass_time(500, leads=None) == []
    assert scene.pass_time(50, leads=False) == []
    assert len(scene.open_nodes()) == 3
    scene.pass_time(20, leads=False)
    scene.clusters, scene.starts = Clusters(CONFIG), Starts(CONFIG)
    assert scene.pass_time(200, leads=None) == [], "the next leader opens nothing that it has not heard of"
    assert scene.open_nodes() == ["n1"]


def test_who_opens_such_a_node_by_hand_finds_it_closed_again() -> None:
    scene = Scene()
    scene.pass_time(70, leads=False)
    scene.world.tell("admission", f.DrainSet(node=NodeId("e1"), drained=False, by="root"))
    assert scene.open_nodes() == ["e1", "n1"]
    assert len(scene.pass_time(2, leads=False)) == 1
    assert scene.open_nodes() == ["n1"]


@pytest.mark.parametrize("busy", [True, False])
def test_nodes_of_a_cluster_that_is_gone_for_good_are_forgotten_by_the_word_that_they_are(busy: bool) -> None:
    scene, name = Scene(), NodeId("e1")
    world = scene.world
    job = scene.run("e1" if busy else "n1")
    refused = check_node_removal(world.state, name, gone=True)
    assert refused is not None
    assert "word of cluster east" in refused.message
    scene.pass_time(70, leads=False)
    unsure = check_node_removal(world.state, name, gone=False)
    assert unsure is not None
    assert "`gangline forget e1 --gone`" in unsure.message
    assert check_node_removal(world.state, name, gone=True) is None
    tasks = tuple(sorted(world.state.node_tasks[name]))
    world.tell("admission", f.NodeForgotten(node=name, by="root", tasks=tasks))
    assert name not in world.state.kept.nodes
    world.settle()
    assert [task.node for task in world.tasks(job)] == ["n1"], "its job began again where somebody speaks for machines"
    assert world.job(job).losses == int(busy)
    assert sum(world.state.use[NodeId("n1")].gpu_milli) == 8000
    assert encode_snapshot(decode_snapshot(encode_snapshot(world.state))) == encode_snapshot(world.state)


def test_a_node_for_which_somebody_spoke_before_the_word_was_written_stays() -> None:
    scene, name = Scene(), NodeId("e1")
    job = scene.run("e1")
    scene.pass_time(70, leads=False)
    tasks = tuple(scene.world.state.node_tasks[name])
    scene.pass_time(EVERY_S, leads=True)
    scene.world.tell("admission", f.NodeForgotten(node=name, by="root", tasks=tasks))
    assert scene.world.job(job).state == JobState.RUNNING
