"""What a pool had and held is told also of archives in which a machine was taken off the books."""

from tests.make import World, node, spec

from gangline_core import facts as f
from gangline_core.ids import NodeId
from gangline_lab.pool_use import PoolUse


def test_the_use_of_a_pool_is_followed_past_a_forgotten_machine() -> None:
    world = World(node("n1"), node("n2", gpus=2))
    use = PoolUse(world.state)
    use.note(world.tell("agent.sim", f.NodeSeen(node=node("n1")), f.NodeSeen(node=node("n2", gpus=2))))
    job = world.submit(spec(gpus=8))
    world.place(job, "n1")
    (task,) = world.job(job).tasks
    use.note(world.tell("agent.sim", f.TaskStarted(task=task)))
    for fact in (
        f.NodeLost(node=NodeId("n1"), silent_ms=30_000),
        f.NodeForgotten(node=NodeId("n1"), by="root", tasks=(task,)),
    ):
        lane = "admission" if isinstance(fact, f.NodeForgotten) else "telemetry"
        use.note(world.wait(60).tell(lane, fact))
    (*_, last) = use.moments()["default"]
    assert (last.there_milli, last.held_milli) == (2_000, 0)
