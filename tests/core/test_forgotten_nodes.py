"""A machine that is gone for good is taken off the books by an administrator's word, and never by itself."""

import pytest
from tests.make import World, gpu_amount, group, node, spec

from gangline_core import cycle
from gangline_core import facts as f
from gangline_core.door.removal import check_node_removal
from gangline_core.ids import NodeId, TaskId
from gangline_core.job import JobState
from gangline_core.state import decode_snapshot, encode_snapshot

N1 = NodeId("n1")


def lost(**fields: object) -> World:
    """A node with a running job is lost."""
    world = World(node("n1"), node("n2", gpus=1), groups=[group("lab", limit=gpu_amount(8))])
    world.submit_running(spec(gpus=8, group="lab", **fields), "n1")
    world.tell("telemetry", f.NodeLost(node=N1, silent_ms=30_000))
    return world


def forget(world: World, *tasks: TaskId) -> World:
    """The word of an administrator."""
    world.tell("admission", f.NodeForgotten(node=N1, by="root", why="scrapped", tasks=tasks))
    return world


def tasks_on(world: World) -> tuple[TaskId, ...]:
    return tuple(sorted(world.state.node_tasks[N1]))


def test_a_node_that_is_there_is_not_forgotten():
    world = World(node("n1"))
    problem = check_node_removal(world.state, N1, gone=True)
    assert problem is not None
    assert problem.kind == "conflict"
    forget(world)
    assert N1 in world.state.kept.nodes


def test_a_lost_node_whose_tasks_nobody_saw_end_is_forgotten_only_by_the_word_that_it_is_gone():
    world = lost()
    problem = check_node_removal(world.state, N1, gone=False)
    assert problem is not None
    assert problem.field == "gone"
    assert "`gangline forget n1 --gone`" in problem.message
    assert check_node_removal(world.state, N1, gone=True) is None


def test_what_was_never_seen_to_end_on_a_forgotten_node_counts_no_more():
    world = lost()
    forget(world, *tasks_on(world))
    assert N1 not in world.state.kept.nodes
    assert not world.state.kept.tasks
    assert not world.state.usage.get("lab")
    assert [one.id for one in world.state.room("default").nodes] == ["n2"]
    assert [one.id for one in world.state.inventory("default").nodes] == ["n2"]


def test_a_task_that_the_word_did_not_speak_of_keeps_the_node_on_the_books():
    """It came there after the administrator looked."""
    world = forget(lost())
    assert N1 in world.state.kept.nodes
    assert tasks_on(world)


def test_a_node_that_came_back_before_the_word_was_written_stays():
    world = lost()
    tasks = tasks_on(world)
    world.see(node("n1"))
    forget(world, *tasks)
    assert not world.state.kept.nodes[N1].lost


def test_a_forgotten_node_that_comes_back_is_a_new_one():
    world = lost()
    world.tell("admission", f.DrainSet(node=N1, drained=True, by="root"))
    forget(world, *tasks_on(world)).see(node("n1", gpus=2, model="H100"))
    back = world.state.kept.nodes[N1]
    assert (back.lost, back.drained, len(back.gpus)) == (False, False, 2)
    job = world.submit(gpus=2, gpu_models=["H100"])
    world.settle()
    assert world.job(job).state == JobState.RUNNING


def test_the_job_of_a_forgotten_node_runs_elsewhere_and_its_charge_is_booked():
    world = lost()
    first = world.waiting()[0].id
    forget(world, *tasks_on(world))
    assert world.state.kept.uncharged
    world.see(node("n3")).settle()
    assert world.job(first).state == JobState.RUNNING


def test_a_restart_knows_as_little_of_a_forgotten_node():
    world = lost()
    forget(world, *tasks_on(world))
    again = decode_snapshot(encode_snapshot(world.state))
    assert cycle.open_round(again, "default", world.at) == cycle.open_round(world.state, "default", world.at)
    assert again.use.keys() == world.state.use.keys()
    assert again.node_tasks == world.state.node_tasks


@pytest.mark.parametrize("schedulers", [1, 2])
def test_a_round_that_was_open_when_the_node_was_forgotten_puts_nothing_there(schedulers: int) -> None:
    world = World(node("n1"), node("n2", gpus=1)).set_policy(schedulers=schedulers)
    job = world.submit(gpus=8)
    world.tell("queue.default", cycle.open_round(world.state, "default", world.at))
    decided = cycle.decide_round(world.state, "default", world.at)
    assert [placed.job for placed in decided.placements] == [job]
    world.tell("telemetry", f.NodeLost(node=N1, silent_ms=30_000))
    forget(world)
    world.tell("placement.default", decided)
    world.settle()
    assert world.job(job).state == JobState.WAITING
    assert not world.job(job).tasks


def test_who_would_forget_a_clusters_node_reads_whose_word_it_is():
    """Its agent is a service of the whole cluster, which is not to be stopped for one node."""
    world = World()
    world.tell("kubernetes.east", f.NodeSeen(node=node("n1", agent="kubernetes.east")))
    problem = check_node_removal(world.state, N1, gone=True)
    assert problem is not None
    assert "the word of cluster east" in problem.message
    assert "`gangline drain n1`" in problem.message
    assert "stop its agent" not in problem.message
