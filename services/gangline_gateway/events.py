"""How events are sent to clients as they happen (server-sent events), and taken up again after a broken connection."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from aiohttp import web

from gangline_core.groups import ancestors
from gangline_gateway.access import Caller, is_head, visible_job
from gangline_gateway.call import Call
from gangline_gateway.problems import ProblemError, not_found, wrong_query
from gangline_kit.bus import Bus, LogMessage
from gangline_kit.errors import PermanentError, TemporaryError
from gangline_wire import subjects
from gangline_wire.codec import CodecError, decode
from gangline_wire.limits import most
from gangline_wire.names import group_path
from gangline_wire.problem import WrongValueError
from gangline_wire.requests import EventLine
from gangline_wire.streams import EVENTS

log = logging.getLogger(__name__)

LAST_EVENT_ID = "Last-Event-ID"
ADMIN_SHARE = 8
"""One of so many streams is kept back for administrators: they must see what goes on when everybody looks."""
PENDING_MAX = 256
"""Messages read ahead of a slow client; beyond that the stream is read no further until it takes more."""
RETRY_MS = 1000
"""What a browser is told to wait before it connects again."""
DISORDER_MAX = 512
"""Events this close to each other may stand in the stream in another order than the log's."""

_ID = re.compile(r"([0-9]{1,18})-([0-9]{1,9})", re.ASCII)

Place = tuple[int, int]
"""An event's place in the one order of all events: log sequence and index."""


async def send_events(call: Call) -> web.StreamResponse:
    """GET /v1/events: what happens from now on, or after the event named by Last-Event-ID ("0-0": all that is kept)."""
    job, group = _filters(call)
    last = _last_place(call)
    bus = call.desk.site.bus
    try:
        start, newest = await _start(bus, last)
    except TemporaryError as error:
        raise ProblemError("unavailable", str(error), retry_after_s=2.0) from None
    subject = f"{subjects.EVENTS}.*.{job or '*'}.*"
    response = web.StreamResponse(
        headers={
            "Content-Type": "text/event-stream; charset=utf-8",
            "Cache-Control": "no-store",
            "X-Accel-Buffering": "no",
            "X-Request-Id": call.request_id,
        }
    )
    async with stream_slot(call):
        await response.prepare(call.request)
        await response.write(f"retry: {RETRY_MS}\n\n".encode())
        messages = bus.read_subject(EVENTS.name, subject, start, follow=True)
        async with beaten(messages, call) as beats:
            with until_gone(call):
                async for message in beats:
                    if message is None or message.seq > newest:
                        await call.only_follows()
                    data = b": alive\n\n" if message is None else _event(call, message, last=last, group=group)
                    if data:
                        await response.write(data)
    return response


@contextmanager
def until_gone(call: Call) -> Iterator[None]:
    """Send a stream whose answer has begun: a client that hangs up ends it, and so does a defect, since no other answer
    can follow any more; a broken connection tells the client that it was not the end.
    """
    try:
        yield
    except ConnectionError:
        pass
    except Exception:
        log.exception("%s broke off [%s]", call.path, call.request_id)
        if call.request.transport is not None:
            call.request.transport.abort()


@asynccontextmanager
async def stream_slot(call: Call) -> AsyncIterator[None]:
    """One of the gateway's open streams.

    Raises:
        ProblemError: too many are open, or the bus is away.
    """
    desk = call.desk
    if not desk.site.bus.is_connected:
        raise ProblemError("unavailable", "The message bus is away.", retry_after_s=2.0)
    kept_back = 0 if call.caller.is_admin else most("event_streams") // ADMIN_SHARE
    if len(desk.streams) >= most("event_streams") - kept_back:
        raise ProblemError("too_many", "Too many streams are open (event_streams).", retry_after_s=5.0)
    task = asyncio.current_task()
    assert task is not None, "handlers run in tasks"
    user = call.caller.user
    if list(desk.streams.values()).count(user) >= most("user_streams"):
        raise ProblemError("too_many", f"{user} has too many open streams (user_streams).", retry_after_s=5.0)
    desk.streams[task] = user
    try:
        yield
    finally:
        desk.streams.pop(task, None)


@asynccontextmanager
async def beaten(messages: AsyncIterator[LogMessage], call: Call) -> AsyncIterator[AsyncIterator[LogMessage | None]]:
    """The messages as they come, with None in between whenever none came for the heartbeat's time.

    It ends when the messages end, the bus is lost for good, or the client's token stops being valid.
    """
    queue: asyncio.Queue[LogMessage | None] = asyncio.Queue(PENDING_MAX)

    async def pump() -> None:
        try:
            async for message in messages:
                await queue.put(message)
        except (PermanentError, TemporaryError):
            pass
        await queue.put(None)

    async def beats() -> AsyncIterator[LogMessage | None]:
        while True:
            beat = False
            message: LogMessage | None = None
            try:
                async with asyncio.timeout(call.desk.config.heartbeat_s):
                    message = await queue.get()
            except TimeoutError:
                beat = True
            if (message is None and not beat) or not is_valid(call):
                return
            yield message

    async with asyncio.TaskGroup() as group:
        pumping = group.create_task(pump())
        try:
            yield beats()
        finally:
            pumping.cancel()


def is_valid(call: Call) -> bool:
    """True while the token that opened the stream still opens anything."""
    if call.caller.is_foreign:
        return call.caller.expires_ms > call.desk.site.now_ms() and call.desk.still_holds(call.caller)
    token = call.state.kept.tokens.get(call.caller.digest)
    if token is None or token.revoked:
        return False
    return not token.expires_ms or token.expires_ms > call.desk.site.now_ms()


def _event(call: Call, message: LogMessage, *, last: Place | None, group: str) -> bytes:
    """The event as it is sent; nothing when the client has it already or may not see it."""
    try:
        line = decode(message.data, EventLine)
    except CodecError:
        return b""
    place = place_of(line.id)
    if place is None or (last is not None and place <= last):
        return b""
    if group and group not in ancestors(line.group):
        return b""
    if not sees_event(call, line):
        return b""
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (line.id.encode(), line.event.encode(), message.data)


def sees_event(call: Call, line: EventLine) -> bool:
    """True when the caller may see the event: the same rule as for the job."""
    caller: Caller = call.caller
    if caller.sees_all:
        return True
    if caller.user == line.user and caller.may_change and line.group in caller.groups:
        return True
    if not caller.may_change:
        return any(path in caller.groups for path in ancestors(line.group))
    return is_head(call.state, caller, line.group)


def place_of(event_id: str) -> Place | None:
    """The place of an event id "<log seq>-<index>"; None when it is none."""
    match = _ID.fullmatch(event_id)
    return (int(match.group(1)), int(match.group(2))) if match else None


def _filters(call: Call) -> tuple[int, str]:
    job, group = call.text("job"), call.text("group")
    number = 0
    if job:
        if not (job.isascii() and job.isdecimal() and len(job) <= 16):
            raise wrong_query("job", "must be a job's number")
        number = int(job)
        if visible_job(call.state, call.caller, number) is None:
            raise not_found("such job")
    if group:
        try:
            group_path(group, most("group_chars"))
        except WrongValueError as error:
            raise wrong_query("group", str(error)) from None
    return number, group


def _last_place(call: Call) -> Place | None:
    header = call.request.headers.get(LAST_EVENT_ID, "")
    if not header:
        return None
    place = place_of(header)
    if place is None:
        raise ProblemError("malformed_request", f'{LAST_EVENT_ID} must be the id of an event, such as "120-0".')
    return place


async def _start(bus: Bus, last: Place | None) -> tuple[int, int]:
    """Sequence in the stream of events from which to read, and its last.

    That is the end, or safely before the last seen event.
    """
    state = (await bus.stream_info(EVENTS.name)).state
    if last is None:
        return state.last_seq + 1, state.last_seq
    low, high = state.first_seq, state.last_seq + 1
    while low < high:
        middle = (low + high) // 2
        place = await _place_at(bus, middle)
        if place is not None and place > last:
            high = middle
        else:
            low = middle + 1
    return max(state.first_seq, low - DISORDER_MAX, 1), state.last_seq


async def _place_at(bus: Bus, seq: int) -> Place | None:
    data = await bus.message_at(EVENTS.name, seq)
    if data is None:
        return None
    try:
        return place_of(decode(data, EventLine).id)
    except CodecError:
        return None
