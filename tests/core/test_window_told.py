"""Whoever waits for room and would also run into dated capacity reads of both."""

from tests.make import HOUR, World, node, spec

from gangline_core import facts as f
from gangline_core.ids import NodeId
from gangline_core.reasons import ReasonCode
from gangline_core.reserving.windows import Window
from gangline_core.telling.explain import explain


def kept(world: World, *nodes: str) -> None:
    """Maintenance of these nodes, in two minutes and for half an hour."""
    begin = world.at + 120_000
    window = Window("maint", "default", begin, begin + HOUR // 2, nodes=tuple(map(NodeId, nodes)))
    world.tell("admission", f.WindowSet(window=window, by="root"))


def test_a_gang_that_needs_the_nodes_of_a_window_is_told_of_it_and_starts_no_earlier_than_its_end() -> None:
    world = World(*(node(f"n{k}") for k in range(4)))
    world.submit_running(spec(gpus=1, time_limit_s=60), "n0")
    kept(world, "n2", "n3")
    gang = world.submit(tasks=4, gpus=8, time_limit_s=3600)
    world.round()
    told = explain(world.state, gang, world.at)
    assert told is not None
    assert told.code == ReasonCode.INSUFFICIENT_GPUS
    assert told.start_from_ms is None
    assert told.start_note.endswith("when maint is over.")
    assert [note for note in told.notes if note.startswith("Would run into maint, for which 2 nodes are kept")]
    assert told.rejected["kept for a window that it would run into"] == 2


def test_who_ends_before_a_window_or_needs_none_of_its_nodes_is_told_as_ever() -> None:
    world = World(*(node(f"n{k}") for k in range(4)))
    for name in ("n0", "n1", "n2", "n3"):
        world.submit_running(spec(gpus=8, time_limit_s=60), name)
    kept(world, "n2", "n3")
    short = world.submit(gpus=8, time_limit_s=30)
    small = world.submit(gpus=8, time_limit_s=3600)
    world.round()
    told = explain(world.state, short, world.at)
    assert told is not None
    assert not [note for note in told.notes if "maint" in note]
    assert "kept for a window that it would run into" not in told.rejected
    other = explain(world.state, small, world.at)
    assert other is not None
    assert other.start_from_ms is not None, "two nodes are open to it"


def test_a_gang_that_open_nodes_cannot_hold_is_not_told_that_the_window_is_over_now() -> None:
    world = World(*(node(f"n{k}") for k in range(4)))
    world.submit_running(spec(gpus=1, tasks=4, time_limit_s=7200), "n2")
    window = Window(
        name="bios",
        pool="default",
        nodes=tuple(map(NodeId, ("n0", "n1"))),
        start_ms=world.at + 60_000,
        end_ms=world.at + HOUR,
    )
    world.tell("admission", f.WindowSet(window=window, by="admin"))
    job = world.submit(gpus=8, tasks=3, time_limit_s=600)
    world.round()
    reason = world.job(job).reason
    assert reason is not None
    assert (reason.code, reason.numbers["free_ms"]) == (ReasonCode.WINDOW, window.end_ms)


def test_who_may_not_pass_a_reservation_either_is_told_of_the_window_and_not_that_no_node_suits_it() -> None:
    """Seed 4000000055: without backfill nobody passes on any node that the reserved job could use."""
    world = World(node("n1", gpus=2)).set_policy(backfill=False)
    world.submit_running(spec(gpus=1, time_limit_s=7200), "n1")
    reserved, passes = world.submit(gpus=2, time_limit_s=60), world.submit(gpus=0, time_limit_s=3600)
    world.round()
    assert world.reason(reserved) == ReasonCode.INSUFFICIENT_GPUS
    assert world.reason(passes) == ReasonCode.RESERVED
    kept(world)
    world.round()
    assert world.reason(passes) == ReasonCode.WINDOW


def test_nodes_that_a_window_closes_suit_whoever_lacks_room_on_them() -> None:
    world = World(node("n1", gpus=2))
    world.submit_running(spec(gpus=2, time_limit_s=7200), "n1")
    kept(world)
    waits = world.submit(gpus=1, time_limit_s=3600)
    world.round()
    reason = world.job(waits).reason
    assert reason is not None
    assert (reason.code, reason.numbers["free"]) == (ReasonCode.INSUFFICIENT_GPUS, 0)
