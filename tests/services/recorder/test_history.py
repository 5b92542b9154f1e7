"""A job's story fits an answer, whatever happened to the job."""

from typing import cast

from dollhouse.bus import MemoryBus
from dollhouse.server import MemoryServer
from gangline_kit.bus import Bus
from gangline_kit.clock import SystemClock
from gangline_recorder.history import EVENTS_MAX, Teller
from gangline_wire.codec import decode, encode
from gangline_wire.requests import EventLine, History, JobHistory
from gangline_wire.streams import EVENTS, MESSAGE_BYTES_MAX

HUGE = "labels = " + "😀" * 30_000 + ", by una."


async def told(*events: EventLine) -> History:
    """What is answered when these events are in the feed, beside those of another job."""
    bus = cast("Bus", MemoryBus(MemoryServer((EVENTS,), (), lambda: 1.0), SystemClock()))
    for one in (event(0, job=8), *events, event(EVENTS_MAX + 9, job=8)):
        await bus.append(f"gangline.events.g.{one.job}.{one.event}", encode(one), msg_id=one.id)
    answer = await Teller(bus).answer(encode(JobHistory(job=7)), {})
    assert len(answer) < MESSAGE_BYTES_MAX, "the bus carries it"
    return decode(answer, History)


def event(number: int, message: str = "", job: int = 7) -> EventLine:
    return EventLine(id=f"{number}-0", at=1, event="Edited", job=job, group="g", user="una", name="j", message=message)


async def test_a_short_story_is_told_whole() -> None:
    story = await told(event(1), event(2, HUGE), event(3))
    assert [one.id for one in story.events] == ["1-0", "2-0", "3-0"]
    assert story.left_out == 0


async def test_of_a_job_that_was_edited_very_often_the_first_events_are_told_and_the_rest_is_counted() -> None:
    story = await told(*(event(number, HUGE) for number in range(1, 101)), event(101))
    assert 10 < len(story.events) < 100
    assert [one.id for one in story.events] == [f"{number}-0" for number in range(1, len(story.events) + 1)]
    assert len(story.events) + story.left_out == 101


async def test_no_more_events_are_told_than_an_answer_may_hold() -> None:
    story = await told(*(event(number) for number in range(1, EVENTS_MAX + 6)))
    assert (len(story.events), story.left_out) == (EVENTS_MAX, 5)
