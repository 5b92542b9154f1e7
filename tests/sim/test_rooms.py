"""The dollhouse sees room that is counted twice: in what a decision plans on, and in what claims are promised."""

from tests.make import World, node, spec

from dollhouse.invariants import promised_room_is_there
from dollhouse.rooms import watched
from gangline_core import facts as f
from gangline_core.job import GpuShare
from gangline_core.room.capacity import Room

PLACE = f.TaskPlacement(role="worker", index=0, node="n1", gpus=(GpuShare(index=0, milli=1000, memory_mib=0),))


def claim(job: int, victim: str) -> f.Claim:
    placement = f.Placement(job=job, attempt=1, tasks=(PLACE,))
    return f.Claim(job=job, placement=placement, victims=(victim,), made_ms=0)


def test_whoever_gives_a_victim_s_room_twice_is_seen_at_once() -> None:
    world = World(node("n1", gpus=2))
    room = Room.of(world.state.kept.nodes.values())
    room.refresh(world.state.kept.nodes["n1"], world.state.use["n1"])
    told: list[str] = []
    with watched(told.append):
        room.take(PLACE)
        room.give(PLACE)
        assert told == []
        room.give(PLACE)
    assert told == ["a decision counts on 2000 thousandths of GPU 0 free of 1000 on n1"]
    room.give(PLACE)
    assert len(told) == 1, "nobody looks any more"


def test_room_that_is_promised_to_two_jobs_is_seen() -> None:
    world = World(node("n1", gpus=2))
    victim = world.submit_running(spec(gpus=1), "n1")
    [task] = world.tasks(victim)
    first, second = world.submit(spec(gpus=1)), world.submit(spec(gpus=1))
    world.state.put_claim(claim(first, task.id))
    assert list(promised_room_is_there(world.state)) == []
    world.state.put_claim(claim(second, task.id))
    assert "2000 thousandths of GPU 0 of 1000 are promised on n1" in list(promised_room_is_there(world.state))
