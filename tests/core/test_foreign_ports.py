"""A gang that cannot meet where the log says, since something else listens there, meets on another port."""

from tests.make import World, node

from gangline_core import facts as f
from gangline_core.job import JobState
from gangline_core.reasons import ReasonCode
from gangline_core.room.ports import FIRST_PORT, FOREIGN_MAX
from gangline_core.state import State, decode_snapshot, encode_snapshot


def ports_of(state: State, job: int) -> set[int]:
    """Where the job's gang meets."""
    known = state.kept.jobs[job]
    return {int(task.endpoint.rpartition(":")[2]) for task in state.tasks_of(known)}


def refuse(world: World, job: int, *ports: int) -> None:
    """The agent of rank 0 finds these ports taken, and all others of the gang are stopped."""
    first, *_ = world.tasks(job)
    assert ports_of(world.state, job) == {ports[0]}
    error = f"something else listens on port {ports[0]}, where its gang should meet"
    world.tell("agent.sim", f.TaskExited(task=first.id, cause=f.ExitCause.PLACE_REFUSED, error=error, ports=ports))
    world.empty(first.id)
    world.stop_all()


def test_the_next_try_meets_where_nobody_listens_and_takes_no_retry():
    world = World(node("n1"))
    job = world.submit(gpus=1, tasks=2)
    world.round()
    refuse(world, job, FIRST_PORT, FIRST_PORT + 1, FIRST_PORT + 3)
    known = world.job(job)
    assert (known.state, known.reason.code, known.retries_used) == (JobState.WAITING, ReasonCode.PLACE_REFUSED, 0)
    assert "port 29500" in str(known.reason.numbers["error"])
    world.round()
    assert ports_of(world.state, job) == {FIRST_PORT + 2}
    second = world.submit(gpus=1, tasks=2)
    world.round()
    assert ports_of(world.state, second) == {FIRST_PORT + 4}, "it is known for all gangs of that machine"


def test_ports_on_which_other_gangs_meet_are_free_again_after_them():
    world = World(node("n1"))
    jobs = [world.submit(gpus=1, tasks=2) for _ in range(3)]
    world.round()
    assert [ports_of(world.state, job) for job in jobs] == [{FIRST_PORT}, {FIRST_PORT + 1}, {FIRST_PORT + 2}]
    refuse(world, jobs[1], FIRST_PORT + 1, FIRST_PORT + 2, FIRST_PORT + 3)
    address = world.tasks(jobs[0])[0].endpoint.rpartition(":")[0]
    assert world.state.kept.foreign_ports == {address: (FIRST_PORT + 1, FIRST_PORT + 3)}


def test_what_was_found_is_known_after_a_restart_and_of_that_address_only():
    world = World(node("n1", address="10.0.0.1"), node("n2", address="10.0.0.2"))
    job = world.submit(gpus=8, tasks=2)
    world.round()
    refuse(world, job, FIRST_PORT)
    state = decode_snapshot(encode_snapshot(world.state))
    assert state.ports.lowest_free("10.0.0.1") == world.state.ports.lowest_free("10.0.0.1") == FIRST_PORT + 1
    assert state.ports.lowest_free("10.0.0.2") == FIRST_PORT
    assert encode_snapshot(state) == encode_snapshot(world.state)


def test_of_very_many_the_latest_are_remembered_and_the_others_given_out_again():
    state = State()
    many = FOREIGN_MAX + 10
    for port in range(FIRST_PORT, FIRST_PORT + many):
        state.ports.leave_alone(f"a:{FIRST_PORT}", (port, port))
    state.ports.leave_alone("a:29500", (80, 70_000, FIRST_PORT + many - 1))
    assert len(state.kept.foreign_ports["a"]) == FOREIGN_MAX
    assert state.ports.lowest_free("a") == FIRST_PORT
    assert not state.ports.is_taken("a", FIRST_PORT + 9)
    assert state.ports.is_taken("a", FIRST_PORT + 10)
