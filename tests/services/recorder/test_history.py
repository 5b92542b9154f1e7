"""A job's story fits an answer, whatever happened to the job."""

from typing import cast

from dollhouse.bus import MemoryBus
from dollhouse.server import MemoryServer
from gangline_kit.bus import Bus
from gangline_kit.clock import SystemClock
from gangline_recorder.history import EVENTS_MAX, FIRST_KEPT, Teller
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


async def test_of_a_job_that_was_edited_very_often_the_first_and_the_newest_events_are_told() -> None:
    story = await told(*(event(number, HUGE) for number in range(1, 101)), event(101))
    first, told_in_all = story.left_out_after, len(story.events)
    assert 10 < told_in_all < 100
    assert 2 < first < told_in_all / 2
    assert told_in_all + story.left_out == 101
    newest = range(101 - (told_in_all - first) + 1, 102)
    assert [one.id for one in story.events] == [f"{number}-0" for number in (*range(1, first + 1), *newest)]


async def test_no_more_events_are_told_than_an_answer_may_hold() -> None:
    story = await told(*(event(number) for number in range(1, EVENTS_MAX + 6)))
    assert (len(story.events), story.left_out, story.left_out_after) == (EVENTS_MAX, 5, FIRST_KEPT)
    assert [one.id for one in story.events[:FIRST_KEPT]] == [f"{number}-0" for number in range(1, FIRST_KEPT + 1)]
    assert story.events[FIRST_KEPT].id == f"{FIRST_KEPT + 6}-0"
    assert story.events[-1].id == f"{EVENTS_MAX + 5}-0"


async def test_one_event_that_fills_an_answer_leaves_room_for_the_newest() -> None:
    story = await told(*(event(number, HUGE * 25) for number in range(1, 5)), event(5))
    assert story.events[-1].id == "5-0"
    assert len(story.events) + story.left_out == 5
