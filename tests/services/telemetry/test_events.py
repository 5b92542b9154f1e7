"""Events of cards that agents repeat: each is judged once, whoever listens, and none is missed."""

from tests.make import World, node

from gangline_core import facts as f
from gangline_core.room.troubles import CardTrouble
from gangline_telemetry.config import Config
from gangline_telemetry.health import Watch
from gangline_wire.samples import CardEvent, GpuSample, NodeSample

T = 1_700_000_000_000
CONFIG = Config(retest_s=600, healthy_samples=1, suspect_s=300)
BROKEN = "Xid 48: memory has an uncorrectable error"


def tell(watch: Watch, world: World, second: float, *events: tuple[int, int]) -> tuple[f.Fact, ...]:
    """One sample with these events (second in which they came, Xid), judged and written."""
    told = tuple(CardEvent(number=T + at * 1000, xid=xid) for at, xid in events)
    watch.hear(
        NodeSample(node="n1", at=T + int(second * 1000), gpus=(GpuSample(index=0, events=told),)), second, world.state
    )
    facts = watch.judge(world.state, second)
    if facts:
        world.tell("telemetry", *facts)
    return facts


def changes(facts: tuple[f.Fact, ...]) -> list[str]:
    return [type(fact).__name__ for fact in facts if isinstance(fact, f.GpuFailed | f.GpuHealthy | f.GpuSuspected)]


def test_an_event_that_is_told_in_many_samples_is_one_failure() -> None:
    world, watch = World(node("n1", gpus=1)), Watch(CONFIG, 0.0)
    assert tell(watch, world, 1, (1, 48)) == (f.GpuFailed(node="n1", gpu=0, problem=BROKEN, event=T + 1000),)
    for second in range(2, 601):
        assert changes(tell(watch, world, second, (1, 48))) == []
    assert changes(tell(watch, world, 601)) == ["GpuHealthy"]
    assert world.state.kept.troubles["n1"].cards == {0: CardTrouble(event=T + 1000, failures=1)}
    assert changes(tell(watch, world, 602, (1, 48))) == [], "it was judged"


def test_two_samples_between_two_looks_lose_no_event() -> None:
    world, watch = World(node("n1", gpus=1)), Watch(CONFIG, 0.0)
    watch.hear(NodeSample(node="n1", at=T, gpus=(GpuSample(index=0, events=(CardEvent(T, 48),)),)), 1.0, world.state)
    assert changes(tell(watch, world, 1.5, (0, 48))) == ["GpuFailed"]


def test_whoever_leads_next_hears_what_was_missed_and_judges_nothing_twice() -> None:
    world = World(node("n1", gpus=1))
    # Nobody listened when it came; two minutes later somebody does.
    watch = Watch(CONFIG, 120.0)
    assert changes(tell(watch, world, 121, (1, 48))) == ["GpuFailed"]
    # The leader changes: no second failure, and the card is tried again as long after the event as it would have been.
    watch = Watch(CONFIG, 300.0)
    for second in range(300, 601, 10):
        assert changes(tell(watch, world, second, (1, 48))) == []
    assert changes(tell(watch, world, 601, (1, 48))) == ["GpuHealthy"]
    watch = Watch(CONFIG, 602.0)
    assert changes(tell(watch, world, 602, (1, 48))) == []
    # The second failure waits twice as long, although neither leader saw the first.
    assert changes(tell(watch, world, 700, (700, 48))) == ["GpuFailed"]
    watch = Watch(CONFIG, 800.0)
    assert changes(tell(watch, world, 1899, (700, 48))) == []
    assert changes(tell(watch, world, 1900)) == ["GpuHealthy"]


def test_events_while_the_card_is_out_prolong_its_rest_and_are_no_further_failures() -> None:
    world, watch = World(node("n1", gpus=1)), Watch(CONFIG, 0.0)
    tell(watch, world, 1, (1, 48))
    assert changes(tell(watch, world, 300, (1, 48), (300, 48))) == []
    assert changes(tell(watch, world, 899)) == []
    assert changes(tell(watch, world, 900)) == ["GpuHealthy"]
    assert world.state.kept.troubles["n1"].cards[0].failures == 1


def test_a_card_that_was_lost_before_its_event_was_heard_rests_as_long_as_the_event_asks() -> None:
    world, watch = World(node("n1", gpus=1)), Watch(CONFIG, 0.0)
    watch.hear(NodeSample(node="n1", at=T, gpus=(GpuSample(index=0, problem="GPU is lost"),)), 1.0, world.state)
    world.tell("telemetry", *watch.judge(world.state, 1.0))
    tell(watch, world, 2, (2, 79))
    assert changes(tell(watch, world, 30, (2, 79))) == []
    assert changes(tell(watch, world, 602)) == ["GpuHealthy"]


def test_a_suspicion_is_as_old_as_its_event_and_comes_once() -> None:
    world, watch = World(node("n1", gpus=1)), Watch(CONFIG, 0.0)
    assert changes(tell(watch, world, 200, (1, 63))) == ["GpuSuspected"]
    assert changes(tell(watch, world, 300, (1, 63))) == []
    assert changes(tell(watch, world, 301, (1, 63))) == ["GpuSuspected"]
    assert world.state.kept.nodes["n1"].gpus[0].suspect == ""
    watch = Watch(CONFIG, 302.0)
    assert changes(tell(watch, world, 302, (1, 63))) == []


def test_what_the_log_knows_of_a_cards_events_outlives_the_agents_next_description() -> None:
    world, watch = World(node("n1", gpus=1)), Watch(CONFIG, 0.0)
    tell(watch, world, 1, (1, 48))
    world.tell("agent.sim", f.NodeSeen(node=node("n1", gpus=1), alive=()))
    assert world.state.kept.troubles["n1"].cards[0] == CardTrouble(event=T + 1000, failures=1)
    assert world.state.kept.nodes["n1"].gpus[0].problem == BROKEN
