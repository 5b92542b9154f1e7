"""What the driver tells once is told by the agent for minutes, by number, so that nobody misses it and nobody counts it
twice."""

from pathlib import Path

from msgspec.structs import replace
from tests.services.agent.test_machine import reading

from gangline_agent.nodes import Machine
from gangline_agent.senses import Reading
from gangline_agent.xids import CARD_MOST, KEPT_MS, Xids
from gangline_core.state import State
from gangline_wire.samples import CardEvent

NOW = 1_700_000_000_000


class Played:
    """Cards that tell these events, one list per look."""

    vendor = "played"

    def __init__(self, *looks: tuple[int, ...]) -> None:
        self.looks = list(looks)

    def read(self) -> Reading:
        xids = self.looks.pop(0) if self.looks else ()
        return replace(reading("a", "b"), xids={"b": xids} if xids else {})


def a_machine(source: Played, file: Path | None = None) -> Machine:
    return Machine(
        name="n1", pool="default", address="", labels={}, folder="/", source=source, monotonic_s=lambda: 0.0,
        xids=Xids(file),
    )  # fmt: skip


async def beat(machine: Machine, at: int, *, looks: int = 1) -> list[tuple[CardEvent, ...]]:
    for _ in range(looks):
        await machine.refresh({})
    return [gpu.events for gpu in machine.samples(State(), at)[0].gpus]


async def test_an_event_between_two_samples_is_told_and_told_again_under_the_same_number() -> None:
    machine = a_machine(Played((48,), (), ()))
    assert await beat(machine, NOW, looks=3) == [(), (CardEvent(NOW, 48),)]
    assert await beat(machine, NOW + 1000, looks=0) == [(), (CardEvent(NOW, 48),)]
    assert await beat(machine, NOW + KEPT_MS) == [(), (CardEvent(NOW, 48),)]
    assert await beat(machine, NOW + KEPT_MS + 1) == [(), ()]


async def test_events_of_one_moment_and_of_a_clock_that_was_set_back_have_numbers_that_rise() -> None:
    machine = a_machine(Played((48, 63), (95,)))
    assert await beat(machine, NOW) == [(), (CardEvent(NOW, 48), CardEvent(NOW + 1, 63))]
    assert (await beat(machine, NOW - 60_000))[1][-1] == CardEvent(NOW + 2, 95)


async def test_a_flood_of_one_event_hides_no_other() -> None:
    machine = a_machine(Played((48,), *[(31,) * 16] * 50))
    for second in range(51):
        [_, events] = await beat(machine, NOW + second * 1000)
    assert [event.xid for event in events] == [48, 31]
    machine = a_machine(Played(tuple(range(1, 100))))
    [_, events] = await beat(machine, NOW)
    assert [event.xid for event in events] == list(range(100 - CARD_MOST, 100))


async def test_the_next_agent_goes_on_telling_and_numbering(tmp_path: Path) -> None:
    file = tmp_path / "xids.json"
    await beat(a_machine(Played((48, 74)), file), NOW)
    after = a_machine(Played((), (119,)), file)
    assert await beat(after, NOW) == [(), (CardEvent(NOW, 48), CardEvent(NOW + 1, 74))]
    assert (await beat(after, NOW))[1][-1] == CardEvent(NOW + 2, 119)
    file.write_bytes(b"half a fi")
    assert await beat(a_machine(Played((13,)), file), NOW) == [(), (CardEvent(NOW, 13),)]


async def test_a_card_that_vanished_with_its_event_still_tells_it() -> None:
    class Vanishing(Played):
        def read(self) -> Reading:
            seen = super().read()
            return replace(reading("a"), xids=seen.xids) if seen.xids else seen

    machine = a_machine(Vanishing((), (79,)))
    [_, gone] = (await beat(machine, NOW), await beat(machine, NOW + 1))
    assert gone == [(), (CardEvent(NOW + 1, 79),)]
