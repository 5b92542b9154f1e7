"""How events and job output are followed over broken connections: nothing twice, nothing left out."""

from collections.abc import AsyncGenerator

import msgspec

from gangline_client import paths
from gangline_client.errors import ClientError, ProblemError, UnreachableError
from gangline_client.retry import PATIENT, RETRY_AFTER_S_MAX, RETRYABLE_STATUSES
from gangline_client.sse import EventParser, SentEvent, number
from gangline_client.transport import Call, Transport
from gangline_client.unreadable import UNREADABLE
from gangline_core.job import ENDS
from gangline_wire.requests import EventLine
from gangline_wire.views import JobView


class Patience:
    """How long a follower goes on without hearing anything."""

    def __init__(self, transport: Transport) -> None:
        """Nothing failed yet."""
        self._transport = transport
        self._failures = 0

    def heard(self) -> None:
        """Something arrived: the count starts again."""
        self._failures = 0

    async def pause(self, error: ClientError | None, *, least_s: float = 0.0) -> None:
        """Wait before the next try, at least as long as the server asked for.

        Raises:
            ClientError: the error, when it will not pass by itself or went on for too long.
        """
        self._failures += 1
        if error is not None and (not _passes(error) or self._failures >= PATIENT.attempts):
            raise error
        await self._transport.sleep(max(PATIENT.delay_s(self._failures), min(least_s, RETRY_AFTER_S_MAX)))


async def follow_events(
    transport: Transport, *, job: int | None, group: str, after: str
) -> AsyncGenerator[EventLine, None]:
    """Events in order; a broken connection is taken up behind the last event that was seen."""
    query = paths.given({"job": str(job) if job is not None else "", "group": group})
    patience, last, asked_ms = Patience(transport), after, 0
    while True:
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last} if last else {})}
        parser, error = EventParser(), None
        try:
            async with transport.stream(
                Call("GET", paths.EVENTS, query=query, headers=headers), has_heartbeat=True
            ) as chunks:
                async for chunk in chunks:
                    patience.heard()
                    for line in _lines(parser.feed(chunk)):
                        if not last or _place(line.id) > _place(last):
                            last = line.id
                            yield line
        except (UnreachableError, ProblemError) as caught:
            error = caught
        asked_ms = parser.retry_ms or asked_ms
        await patience.pause(error, least_s=asked_ms / 1000)


async def follow_logs(
    transport: Transport, job: int, *, task: str, follow: bool, tail: int | None, prefix: bool = False
) -> AsyncGenerator[bytes, None]:
    """Output in chunks; a broken connection is taken up at the byte where it broke.

    With `tail` the place is not known, so that a resumed stream goes on with what is written from then on.
    """
    asked = {"follow": "true" if follow else "", "prefix": "true" if prefix else ""}
    parts = {"task": task, **asked, "tail": "" if tail is None else str(tail)}
    patience, seen = Patience(transport), 0
    while True:
        error, skip = None, 0 if tail is not None else seen
        query = paths.given({**parts, "tail": "0"} if tail is not None and seen else parts)
        try:
            async with transport.stream(
                Call("GET", paths.job(job, "logs"), query=query), has_heartbeat=False
            ) as chunks:
                async for chunk in chunks:
                    patience.heard()
                    fresh, skip = chunk[skip:], max(0, skip - len(chunk))
                    if fresh:
                        seen += len(fresh)
                        yield fresh
            if not follow or await _has_ended(transport, job):
                return
        except (UnreachableError, ProblemError) as caught:
            error = caught
        await patience.pause(error)


async def _has_ended(transport: Transport, job: int) -> bool:
    view = (await transport.call(Call("GET", paths.job(job)))).view(JobView)
    return view.state in ENDS


def _lines(events: list[SentEvent]) -> list[EventLine]:
    """Events that carry a line; anything else a newer server may send is passed over."""
    lines: list[EventLine] = []
    for event in events:
        try:
            lines.append(msgspec.json.decode(event.data, type=EventLine, strict=True))
        except UNREADABLE:
            continue
    return lines


def _place(event_id: str) -> tuple[int, int]:
    """An event id "<log seq>-<index>" as a place in the one order of all events."""
    seq, _, index = event_id.partition("-")
    return number(seq), number(index)


def _passes(error: ClientError) -> bool:
    """True for what a little waiting may cure."""
    return isinstance(error, UnreachableError) or (
        isinstance(error, ProblemError) and error.problem.status in RETRYABLE_STATUSES
    )
