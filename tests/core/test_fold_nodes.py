"""The fold of machines that come, go and come back, and what it counts and remembers of all that."""

from tests.core.test_fold import exits
from tests.make import HOUR, World, group, node, role, spec

from gangline_core import facts as f
from gangline_core.cluster import Pool
from gangline_core.fold import Message, apply
from gangline_core.ids import JobId, NodeId, TaskId
from gangline_core.job import JobState, Outcome, TaskState
from gangline_core.limits.usage_by_class import recompute
from gangline_core.state import State, decode_snapshot, encode_snapshot

# --- machines -------------------------------------------------------------------------------------------------


def test_a_lost_node_requeues_the_gang_but_keeps_its_room_until_it_reports():
    world = World(node("n1"), node("n2"))
    job = world.submit_running(spec(gpus=8, tasks=2), "n1", "n2")
    world.tell("telemetry", f.NodeLost(node=NodeId("n1"), silent_ms=30_000))
    assert world.job(job).state == JobState.STOPPING
    world.empty(TaskId("1-1-worker-1"))
    assert world.job(job).state == JobState.WAITING
    assert (world.job(job).losses, world.job(job).retries_used) == (1, 0)
    assert world.state.use[NodeId("n1")].gpu_milli == [1000] * 8
    assert recompute(world.state) == {}
    world.see(node("n1"))
    assert world.state.use[NodeId("n1")].gpu_milli == [0] * 8
    assert not world.state.kept.tasks


def test_a_node_is_not_lost_by_the_word_of_who_had_not_read_what_its_agent_wrote_since():
    """Whoever had been cut off itself said so, late, and its job began elsewhere while it still ran there."""
    world = World(node("n1", agent="one"), node("n2", agent="two"))
    job = world.submit_running(spec(gpus=8), "n1")
    started_seq = world.state.kept.lane_seqs["agent.one"]
    world.tell("telemetry", f.NodeLost(node=NodeId("n1"), silent_ms=30_000), seen=started_seq - 1)
    assert (world.job(job).state, world.state.kept.nodes[NodeId("n1")].lost) == (JobState.RUNNING, False)
    world.tell("telemetry", f.NodeLost(node=NodeId("n1"), silent_ms=30_000), seen=started_seq)
    assert (world.job(job).state, world.state.kept.nodes[NodeId("n1")].lost) == (JobState.WAITING, True)


def test_a_node_that_returns_with_a_live_process_frees_its_room_only_when_that_is_gone():
    world = World(node("n1"))
    job = world.submit_running(spec(gpus=8), "n1")
    [task] = exits(world, job)
    world.tell("telemetry", f.NodeLost(node=NodeId("n1"), silent_ms=30_000))
    world.tell("agent.sim", f.NodeSeen(node=node("n1"), alive=(task,)))
    assert world.state.use[NodeId("n1")].gpu_milli == [1000] * 8
    assert world.job(job).state == JobState.WAITING
    world.tell("agent.sim", f.TaskExited(task=task, cause=f.ExitCause.BUS_LOST))
    world.tell("agent.sim", f.GpusEmpty(tasks=(task,)))
    assert world.state.use[NodeId("n1")].gpu_milli == [0] * 8
    assert world.job(job).losses == 1


def test_a_failed_gpu_hits_only_the_jobs_that_use_it():
    world = World(node("n1"))
    hit = world.submit_running(spec(gpus=4), ("n1", [0, 1, 2, 3]))
    spared = world.submit_running(spec(gpus=1), ("n1", [4]))
    world.tell("telemetry", f.GpuFailed(node=NodeId("n1"), gpu=2, problem="xid 79"))
    assert world.job(hit).state == JobState.STOPPING
    assert world.job(spared).state == JobState.RUNNING
    world.stop_all()
    assert (world.job(hit).state, world.job(hit).losses) == (JobState.WAITING, 1)


def test_a_gpu_that_fails_under_a_lost_attempt_does_not_stop_the_new_one():
    world = World(node("n1"), node("n2"))
    job = world.submit_running(spec(gpus=8), "n1")
    world.tell("telemetry", f.NodeLost(node=NodeId("n1"), silent_ms=30_000))
    world.run(job, "n2")
    world.tell("telemetry", f.GpuFailed(node=NodeId("n1"), gpu=0, problem="xid 79"))
    assert world.job(job).state == JobState.RUNNING


def test_a_sick_gpu_stays_sick_when_its_agent_restarts():
    world = World(node("n1"))
    world.tell("telemetry", f.GpuFailed(node=NodeId("n1"), gpu=2, problem="xid 79"))
    world.see(node("n1"))
    assert not world.state.kept.nodes[NodeId("n1")].gpus[2].healthy
    world.tell("telemetry", f.GpuHealthy(node=NodeId("n1"), gpu=2))
    assert world.state.kept.nodes[NodeId("n1")].gpus[2].healthy


def test_a_drained_node_stays_drained_when_its_agent_restarts():
    world = World(node("n1"))
    world.tell("admission", f.DrainSet(node=NodeId("n1"), drained=True, by="admin", why="fans"))
    world.see(node("n1"))
    assert world.state.kept.nodes[NodeId("n1")].drained


def test_an_assigned_node_serves_its_new_pool_whatever_its_agent_says_until_it_is_given_back():
    world = World(node("n1"))
    world.tell("admission", f.PoolSet(pool=Pool(name="large"), by="admin"))
    world.tell("admission", f.NodeAssigned(node=NodeId("n1"), pool="large", by="admin", why="a deadline"))
    world.see(node("n1"))
    moved = world.state.kept.nodes[NodeId("n1")]
    assert (moved.pool, moved.home) == ("large", "default")
    assert [one.id for one in world.state.room("large").nodes] == ["n1"]
    assert not world.state.room("default").nodes
    world.tell("admission", f.NodeAssigned(node=NodeId("n1"), pool="", by="admin"))
    assert not world.state.room("large").nodes
    world.see(node("n1"))
    back = world.state.kept.nodes[NodeId("n1")]
    assert (back.pool, back.home) == ("default", "")


def test_what_waited_in_the_new_pool_starts_and_what_ran_goes_on():
    world = World(node("n1"))
    world.tell("admission", f.PoolSet(pool=Pool(name="large"), by="admin"))
    old = world.submit_running(spec(gpus=2), "n1")
    new = world.submit(spec(gpus=2, pool="large"))
    world.settle("large")
    assert world.job(new).state == JobState.WAITING
    world.tell("admission", f.NodeAssigned(node=NodeId("n1"), pool="large", by="admin"))
    world.settle("large")
    assert [world.job(job).state for job in (old, new)] == [JobState.RUNNING, JobState.RUNNING]
    world.finish(old)
    assert world.job(old).state == JobState.SUCCEEDED


# --- usage and memory -----------------------------------------------------------------------------------------


def test_an_ended_task_is_charged_from_placed_to_seen_empty():
    world = World(node(), groups=[group("a")])
    job = world.submit(gpus=2, group="a")
    world.run(job, "n1")
    world.wait(3600).finish(job)
    [charge] = world.state.kept.uncharged.values()
    assert charge.gpu_milli_ms == 2000 * HOUR
    world.tell("accounting", charge)
    world.tell("accounting", charge)
    assert world.state.kept.charged == {"a": 2000 * HOUR, "": 2000 * HOUR, "a:ada": 2000 * HOUR}


def test_the_oldest_ended_jobs_are_forgotten_in_the_order_they_ended(monkeypatch):
    monkeypatch.setattr("gangline_core.fold.jobs.ENDED_JOBS_KEPT", 2)
    world = World(node())
    first, second, third = world.submit(), world.submit(), world.submit()
    world.cancel(third)
    world.cancel(first)
    restored = decode_snapshot(encode_snapshot(world.state))
    message = Message(
        seq=world.state.kept.seq + 1,
        lane="admission",
        epoch=1,
        at=world.at,
        facts=(f.CancelRequested(job=second, by="ada"),),
        raw=b"x",
    )
    for state in (world.state, restored):
        apply(state, message, strict=True)
        assert list(state.kept.ended) == [first, second]
        assert third not in state.kept.jobs
    assert encode_snapshot(world.state) == encode_snapshot(restored)


def test_equal_asks_share_a_shape_and_a_forgotten_shape_is_not_kept():
    world = World(node())
    a, b = world.submit(gpus=2), world.submit(gpus=2)
    c = world.submit(gpus=2, level="high")
    shapes = world.state.shapes
    assert shapes[a] == shapes[b] != shapes[c]
    for job in (a, b, c):
        world.cancel(job)
    assert not world.state.shapes
    assert len(world.state._shape_numbers) == len(world.state._ask_numbers) == 0
    assert not world.state.asks


def test_live_indexes_are_empty_when_everything_has_ended():
    world = World(node(), groups=[group("a")])
    world.submit_running(spec(gpus=1, group="a"), "n1")
    world.finish(JobId(1))
    state = world.state
    assert not any(state.live.values())
    assert not any(state.live_sorts.values())
    assert state.running == {}
    assert state.unfinished == {}
    assert state.door.names == {}
    assert state.ports.lowest_free("127.0.0.1") == 29_500


def test_an_outcome_that_is_final_stays():
    world = World(node())
    job = world.submit_running(spec(gpus=1, tasks=2), "n1")
    first, _ = exits(world, job)
    world.exit(first, code=1)
    assert world.job(job).outcome == Outcome.FAILED
    world.cancel(job)
    world.stop_all()
    assert world.job(job).state == JobState.FAILED


def test_a_new_state_knows_one_pool_and_one_group():
    state = State()
    assert list(state.kept.pools) == ["default"]
    assert list(state.kept.groups) == [""]


def test_a_task_that_was_told_to_stop_before_it_started_is_not_waited_for_to_start():
    world = World(node())
    job = world.submit(gpus=1, tasks=2)
    world.place(job, "n1")
    world.cancel(job)
    assert {task.state for task in world.tasks(job)} == {TaskState.PLACED}
    world.stop_all()
    assert world.job(job).state == JobState.CANCELLED


def test_several_roles_have_their_own_indexes():
    world = World(node())
    job = world.submit(roles=[role("chief", gpus=1), role("worker", tasks=2, gpus=1)])
    world.place(job, "n1")
    assert exits(world, job) == ["1-1-chief-0", "1-1-worker-0", "1-1-worker-1"]
    assert world.job(job).next_index == {"chief": 1, "worker": 2}
