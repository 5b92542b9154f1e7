"""What the recorder knows of the feed when it begins."""

import asyncio
from typing import cast

from tests.patience import LONG_S

from dollhouse.bus import MemoryBus
from dollhouse.server import MemoryServer
from gangline_kit.bus import Bus
from gangline_kit.clock import SystemClock
from gangline_recorder.told import Told, read_told
from gangline_wire.codec import encode
from gangline_wire.requests import EventLine
from gangline_wire.streams import EVENTS


async def test_after_a_week_without_events_the_feed_is_taken_to_be_whole() -> None:
    now_s = [1.0]
    bus = cast("Bus", MemoryBus(MemoryServer((EVENTS,), (), lambda: now_s[0]), SystemClock()))
    assert await read_told(bus, window=4) == Told(ids=frozenset(), since=(0, -1))
    for number in range(5):
        line = EventLine(id=f"{number}-0", at=1, event="Running", job=1, group="g", user="u", name="j", message="")
        await bus.append("gangline.events.g.1.Running", encode(line), msg_id=line.id)
    assert (await read_told(bus, window=4)).has("4-0")
    now_s[0] += EVENTS.age_s_max + 1
    async with asyncio.timeout(LONG_S):
        assert await read_told(bus, window=4) == Told(ids=frozenset(), since=None)
