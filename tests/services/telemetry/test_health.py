"""Telemetry judges silence and health from what it heard, and says only what the log does not know."""

from msgspec import structs
from tests.make import World, node

from gangline_core import facts as f
from gangline_core.door.removal import check_node_removal
from gangline_core.facts import GpuFailed, GpuHealthy, NodeLost, UtilisationSummary
from gangline_core.ids import NodeId
from gangline_telemetry.config import Config
from gangline_telemetry.health import Watch
from gangline_telemetry.starts import Starts
from gangline_wire.samples import GpuSample, NodeSample

AGENT = "sim"
MAY = ", and may not have ended yet what runs there"


def sample(name: str, *gpus: GpuSample) -> NodeSample:
    return NodeSample(node=name, at=0, gpus=gpus)


def test_a_silent_node_is_lost_only_after_the_loss_time_and_only_once() -> None:
    world = World(node("n1"), node("n2"))
    watch = Watch(Config(loss_s=30), 0.0)
    watch.hear(sample("n2"), 20.0)
    assert watch.judge(world.state, 30.0) == ()
    lost = watch.judge(world.state, 31.0)
    assert lost == (NodeLost(node="n1", silent_ms=31_000),)
    world.tell("telemetry", *lost)
    assert watch.judge(world.state, 32.0) == ()


def test_no_node_is_lost_before_its_agent_has_ended_what_runs_there() -> None:
    """Such as with a loss time of ten seconds, and agents that have patience with the bus for a minute."""
    patient = structs.replace(node("n1"), ends_alone_ms=68_000)
    world, watch = World(patient, node("n2")), Watch(Config(loss_s=10), 0.0)
    told: dict[int, tuple[f.Fact, ...]] = {}
    for second in range(1, 80):
        facts = watch.judge(world.state, float(second))
        told |= {second: facts} if facts else {}
        world.tell("telemetry", *facts)
        world.wait(1)
    closed = [f.NodeQuarantined(node=NodeId(name), problem=f"agent {AGENT} is silent{MAY}") for name in ("n1", "n2")]
    assert told == {
        11: tuple(closed),
        31: (NodeLost(node="n2", silent_ms=31_000),),
        71: (NodeLost(node="n1", silent_ms=71_000),),
    }
    assert Starts(Config()).judge(world.state, world.at + 10**9) == (), "time alone opens none of them"


def test_a_node_that_was_silent_takes_work_again_when_it_is_heard() -> None:
    world, watch = World(node("n1")), Watch(Config(loss_s=10), 0.0)
    world.tell("telemetry", *watch.judge(world.state, 15.0))
    assert not world.state.kept.nodes[NodeId("n1")].takes_work
    assert check_node_removal(world.state, NodeId("n1"), gone=True) is None, "one that is gone need not be waited for"
    assert Watch(Config(loss_s=10), 15.0).judge(world.state, 16.0) == (), "a new watcher has not heard it yet"
    watch.hear(sample("n1"), 16.0)
    world.tell("telemetry", *watch.judge(world.state, 16.0))
    assert world.state.kept.nodes[NodeId("n1")].takes_work
    assert watch.judge(world.state, 17.0) == ()


def test_a_node_that_has_just_come_has_its_time_to_speak() -> None:
    world, watch = World(node("n1")), Watch(Config(loss_s=30), 0.0)

    def lost(second: float) -> list[NodeLost]:
        watch.hear(sample("n1"), second)
        return [fact for fact in watch.judge(world.state, second) if isinstance(fact, NodeLost)]

    assert [lost(second) for second in range(0, 100, 10)] == [[]] * 10
    world.see(node("n2"))
    assert [lost(110.0), lost(139.0)] == [[], []]
    assert lost(141.0) == [NodeLost(node="n2", silent_ms=31_000)]


def test_silence_says_nothing_about_a_node_whose_carrier_tells_its_loss_itself() -> None:
    world = World(structs.replace(node("n1"), is_watched=True))
    assert Watch(Config(loss_s=30), 0.0).judge(world.state, 1000.0) == ()


def test_a_watcher_that_was_frozen_forgives_all_silence() -> None:
    world = World(node("n1"))
    watch = Watch(Config(loss_s=30), 0.0)
    watch.forgive(100.0)
    assert watch.judge(world.state, 129.0) == ()
    assert watch.judge(world.state, 131.0) == (NodeLost(node="n1", silent_ms=31_000),)


def test_a_failed_gpu_comes_back_only_after_several_good_samples() -> None:
    world = World(node("n1", gpus=2))
    watch = Watch(Config(healthy_samples=3), 0.0)
    watch.hear(sample("n1", GpuSample(index=1, problem="GPU is lost")), 1.0)
    failed = watch.judge(world.state, 1.0)
    assert failed == (GpuFailed(node="n1", gpu=1, problem="GPU is lost"),)
    world.tell("telemetry", *failed)
    for second in (2.0, 3.0):
        watch.hear(sample("n1", GpuSample(index=1, utilisation_percent=0)), second)
        assert watch.judge(world.state, second) == ()
    watch.hear(sample("n1", GpuSample(index=1, utilisation_percent=0)), 4.0)
    assert watch.judge(world.state, 4.0) == (GpuHealthy(node="n1", gpu=1),)


def test_absent_utilisation_is_left_out_of_the_mean_and_never_counted_as_zero() -> None:
    world = World(node("n1", gpus=2), node("n2", gpus=1))
    watch = Watch(Config(summary_s=10, loss_s=1000), 0.0)
    watch.hear(sample("n1", GpuSample(index=0, utilisation_percent=80), GpuSample(index=1)), 1.0)
    watch.hear(sample("n2", GpuSample(index=0)), 1.0)
    assert watch.judge(world.state, 11.0) == (
        UtilisationSummary(node="n1", gpu_percent=80, memory_mib=None, samples=1, gpu_deviation=0),
        UtilisationSummary(node="n2", gpu_percent=None, memory_mib=None, samples=1),
    )
