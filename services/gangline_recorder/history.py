"""A job's story as the public feed has it, in one answer of bounded size."""

import asyncio
from collections import deque

from gangline_kit.bus import Bus
from gangline_wire import streams, subjects
from gangline_wire.codec import CodecError, decode, encode
from gangline_wire.requests import Denied, EventLine, History, JobHistory

EVENTS_MAX = 2_000
"""Most events one answer holds."""
BYTES_MAX = streams.MESSAGE_BYTES_MAX // 2
"""Most bytes of them: one that tells of many labels may be as large as a thousand others."""
FIRST_KEPT = 100
"""Of a story that is too long, as many events from its beginning are told, and else the newest."""
AT_ONCE = 4
"""Stories read at the same time, so that few are in memory, however many ask."""


class Teller:
    """Answers who asks for a job's story."""

    def __init__(self, bus: Bus) -> None:
        """The feed is read from the bus for every question."""
        self._bus = bus
        self._turn = asyncio.Semaphore(AT_ONCE)

    async def answer(self, data: bytes, headers: dict[str, str]) -> bytes:
        """Tell a job's story from the public feed."""
        try:
            asked = decode(data, JobHistory)
        except CodecError as error:
            return encode(Denied(kind="invalid", message=str(error)))
        async with self._turn:
            return encode(await self._story(asked.job))

    async def _story(self, job: int) -> History:
        """The first events and the newest ones, as many as an answer may hold, and how many there are between them."""
        first: list[bytes] = []
        newest: deque[bytes] = deque()
        size = left_out = 0
        subject = f"{subjects.EVENTS}.*.{job}.*"
        async for stored in self._bus.read_subject(streams.EVENTS.name, subject, 1, follow=False):
            size += len(stored.data)
            is_early = not newest and len(first) < FIRST_KEPT and size <= BYTES_MAX // 4
            (first if is_early else newest).append(stored.data)
            while newest and (len(first) + len(newest) > EVENTS_MAX or size > BYTES_MAX):
                size -= len(newest.popleft())
                left_out += 1
        events = tuple(decode(data, EventLine) for data in (*first, *newest))
        return History(events=events, left_out=left_out, left_out_after=len(first) if left_out else 0)
