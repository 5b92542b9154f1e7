"""Events and logs: in order, once, resumable, ending by themselves, whole to the last byte (cases Q01, Q02)."""

import asyncio
import time
from typing import Any

import msgspec
import pytest
from aiohttp import ClientError, ClientResponse
from tests.make import spec
from tests.patience import LONG_S
from tests.services.gateway.conftest import Visitor

from gangline_core.ids import JobId
from gangline_gateway import output as gateway_output
from gangline_gateway.app import DESK
from gangline_gateway.logs import TAIL_BYTES_MAX, LastLines
from gangline_gateway.prefixed import LINE_BYTES_MAX, Prefixed
from gangline_wire import output, subjects
from gangline_wire.limits import LIMITS, Limit
from gangline_wire.requests import EventLine


@pytest.fixture(autouse=True)
def what_is_late_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here ends because somebody lost patience, unless a test says so."""
    monkeypatch.setattr(gateway_output, "LATE_S_MAX", 10 * LONG_S)


def put_event(visitor: Visitor, place: str, *, job: int = 1, group: str = "t1", user: str = "una") -> None:
    line = EventLine(id=place, at=1, event="Running", job=job, group=group, user=user, name="j", message="")
    visitor.setting.bus.put(
        "GANGLINE_EVENTS", subjects.event(group, job=job, name="Running"), msgspec.json.encode(line)
    )


async def read_events(response: ClientResponse, count: int) -> list[str]:
    """Ids of the next events."""
    ids: list[str] = []
    async with asyncio.timeout(LONG_S):
        while len(ids) < count:
            line = (await response.content.readline()).decode().strip()
            if line.startswith("id: "):
                ids.append(line.removeprefix("id: "))
    return ids


async def test_events_come_as_they_happen(visitor: Visitor) -> None:
    put_event(visitor, "1-0")
    response = await visitor.call("una", "GET", "/v1/events")
    assert response.headers["Content-Type"].startswith("text/event-stream")
    for k in range(2, 5):
        put_event(visitor, f"{k}-0")
    assert await read_events(response, 3) == ["2-0", "3-0", "4-0"]
    response.close()


async def test_a_stream_goes_on_after_the_last_seen_event(visitor: Visitor) -> None:
    for k in range(1, 2000):
        put_event(visitor, f"{k}-0")
        put_event(visitor, f"{k}-1")
    response = await visitor.call("una", "GET", "/v1/events", headers={"Last-Event-ID": "1500-0"})
    assert await read_events(response, 3) == ["1500-1", "1501-0", "1501-1"]
    response.close()
    response = await visitor.call("una", "GET", "/v1/events", headers={"Last-Event-ID": "0-0"})
    assert await read_events(response, 1) == ["1-0"]
    response.close()


async def test_events_of_others_are_not_sent(visitor: Visitor) -> None:
    response = await visitor.call("una", "GET", "/v1/events", headers={"Last-Event-ID": "0-0"})
    put_event(visitor, "1-0", group="t2", user="tom")
    put_event(visitor, "2-0", group="t1", user="vic")
    put_event(visitor, "3-0", group="t2", user="una")
    put_event(visitor, "4-0")
    assert await read_events(response, 1) == ["4-0"]
    response.close()


async def test_open_streams_do_not_hold_up_the_gateways_end(visitor: Visitor) -> None:
    response = await visitor.call("una", "GET", "/v1/events")
    job = running(visitor)
    logs = await visitor.call("una", "GET", f"/v1/jobs/{job}/logs?follow=true")
    async with asyncio.timeout(20):
        await visitor.setting.app.shutdown()
        for stream in (response, logs):
            with pytest.raises((ClientError, ConnectionError)):
                await stream.content.read()
    assert not visitor.setting.app[DESK].streams


async def test_nothing_more_is_sent_once_the_token_is_revoked(visitor: Visitor) -> None:
    job = running(visitor)
    response = await visitor.call("una", "GET", "/v1/events", headers={"Last-Event-ID": "0-0"})
    logs = await visitor.call("una", "GET", f"/v1/jobs/{job}/logs?follow=true")
    put_event(visitor, "1-0")
    write(visitor, job, b"one\n")
    assert await read_events(response, 1) == ["1-0"]
    assert await logs.content.readline() == b"one\n"
    visitor.setting.revoke("una")
    for k in range(2, 9):
        put_event(visitor, f"{k}-0")
        write(visitor, job, b"secret\n")
    async with asyncio.timeout(LONG_S):
        assert b"id:" not in await response.content.read()
        assert b"secret" not in await logs.content.read()
    assert not visitor.setting.app[DESK].streams


async def test_nothing_more_is_sent_once_the_token_has_expired(visitor: Visitor) -> None:
    visitor.setting.tokens["brief"] = visitor.setting.issue(
        "user", user="una", groups=("t1",), expires_ms=visitor.setting.clock.now_ms() + 60_000
    )
    response = await visitor.call("brief", "GET", "/v1/events", headers={"Last-Event-ID": "0-0"})
    put_event(visitor, "1-0")
    assert await read_events(response, 1) == ["1-0"]
    await visitor.setting.clock.advance(61)
    put_event(visitor, "2-0")
    async with asyncio.timeout(LONG_S):
        assert b"id:" not in await response.content.read()


async def test_one_user_takes_a_share_of_streams_and_no_more_by_whatever_tokens(visitor: Visitor) -> None:
    job = running(visitor)
    share = LIMITS["user_streams"].most
    mine = [await visitor.call("una", "GET", "/v1/events") for _ in range(share)]
    for path in ("/v1/events", f"/v1/jobs/{job}/logs?follow=true"):
        response = await visitor.call("una", "GET", path)
        assert response.status == 429
        assert "user_streams" in (await response.json())["detail"]
    visitor.setting.tokens["una again"] = visitor.setting.issue("user", user="una", groups=("t1",), expires_ms=1 << 50)
    assert (await visitor.call("una again", "GET", "/v1/events")).status == 429
    other = await visitor.call("vic", "GET", "/v1/events")
    assert other.status == 200
    mine.pop().close()
    async with asyncio.timeout(LONG_S):
        while (response := await visitor.call("una", "GET", "/v1/events")).status == 429:
            put_event(visitor, "1-0")
            await asyncio.sleep(0)
    for stream in (*mine, other, response):
        stream.close()


async def test_administrators_still_see_events_when_everybody_looks(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(LIMITS, "event_streams", Limit(8, "streams"))
    open_streams = [
        await visitor.call(who, "GET", "/v1/events") for who in ("una", "vic", "una", "vic", "una", "vic", "una")
    ]
    assert [stream.status for stream in open_streams] == [200] * 7
    assert (await visitor.call("vic", "GET", "/v1/events")).status == 429
    admin = await visitor.call("admin", "GET", "/v1/events")
    assert admin.status == 200
    for stream in (*open_streams, admin):
        stream.close()


async def test_only_so_many_streams_are_open_at_once(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LIMITS, "event_streams", Limit(2, "streams"))
    open_streams = [await visitor.call("una", "GET", "/v1/events") for _ in range(2)]
    response = await visitor.call("una", "GET", "/v1/events")
    assert response.status == 429
    assert response.headers["Retry-After"]
    for stream in open_streams:
        stream.close()


async def test_events_are_filtered_by_job_and_group(visitor: Visitor) -> None:
    world = visitor.setting.world
    job = world.submit(spec(group="t1/a", user="una"))
    response = await visitor.call("hana", "GET", f"/v1/events?job={job}&group=t1", headers={"Last-Event-ID": "0-0"})
    put_event(visitor, "1-0", job=7)
    put_event(visitor, "2-0", job=job, group="t1/a")
    assert await read_events(response, 1) == ["2-0"]
    response.close()
    await visitor.ask("tom", "GET", f"/v1/events?job={job}", status=404)
    await visitor.ask("una", "GET", "/v1/events?job=x", status=400)
    await visitor.ask("una", "GET", "/v1/events", status=400, headers={"Last-Event-ID": "yesterday"})


# --- logs -----------------------------------------------------------------------------------------------------


def write(
    visitor: Visitor, job: int, text: bytes, *, task: str = "worker-0", end: str = "", offset: int | None = None
) -> None:
    """A piece of a task's output, after what was written before unless it says where it begins."""
    subject = subjects.output(job, f"{job}-1-{task}")
    if offset is None:
        kept = visitor.setting.bus.streams["GANGLINE_OUTPUT"]
        offset = sum(len(message.data) for message in kept if message.subject == subject)
    visitor.setting.bus.put("GANGLINE_OUTPUT", subject, text, output.headers(offset, end=end))


def running(visitor: Visitor, **fields: Any) -> JobId:
    return visitor.setting.world.submit_running(spec(group="t1", user="una", **fields), "n1")


def finish(visitor: Visitor, job: JobId) -> None:
    """The job ends, and whoever follows hears of it."""
    world = visitor.setting.world
    names = [task.id for task in world.tasks(job)]
    world.exit(*names)
    from gangline_core.facts import GpusEmpty

    visitor.setting.follower.tell("agent.sim", GpusEmpty(tasks=tuple(names)))


async def text_of(visitor: Visitor, job: int, query: str = "") -> bytes:
    response = await visitor.call("una", "GET", f"/v1/jobs/{job}/logs{query}")
    assert response.status == 200
    async with asyncio.timeout(LONG_S):
        return await response.read()


PIECES = {
    "the same again": [(0, b"one\n"), (0, b"one\n"), (4, b"two\n")],
    "again with what came since": [(0, b"one\n"), (0, b"one\ntw"), (6, b"o\n")],
    "again in a smaller piece": [(0, b"one\n"), (0, b"o"), (1, b"ne\n"), (4, b"two\n")],
    "from further back": [(0, b"o"), (1, b"ne\n"), (0, b"one\n"), (4, b"two\n")],
    "after a line about bytes left out, which is longer than they": [(0, b"one\n"), (2, b"two\n")],
}


@pytest.mark.parametrize("pieces", PIECES.values(), ids=PIECES)
@pytest.mark.parametrize("query", ["", "?follow=true", "?tail=10"])
async def test_what_an_agent_tells_again_is_read_once(
    visitor: Visitor, pieces: list[tuple[int, bytes]], query: str
) -> None:
    """It was not answered, and tells it again when the stream no longer knows that it has it."""
    job = running(visitor)
    for offset, text in pieces:
        write(visitor, job, text, offset=offset)
    write(visitor, job, b"", end="0", offset=8)
    finish(visitor, job)
    assert await text_of(visitor, job, query) == b"one\ntwo\n"


async def test_logs_after_the_end_are_every_byte(visitor: Visitor) -> None:
    job = running(visitor)
    parts = [
        b"".join(b"%d\n" % k for k in range(1, 1001)),
        b"\xff\xfe broken",
        b"x" * 1_000_000,
        b"no newline at the end",
    ]
    for part in parts:
        write(visitor, job, part)
    write(visitor, job, b"", end="0")
    finish(visitor, job)
    assert await text_of(visitor, job) == b"".join(parts)


async def test_a_follower_gets_the_last_byte_and_then_the_end(visitor: Visitor) -> None:
    job = running(visitor, tasks=2)
    write(visitor, job, b"one\n")
    response = await visitor.call("una", "GET", f"/v1/jobs/{job}/logs?follow=true")
    assert await response.content.readline() == b"one\n"
    write(visitor, job, b"two\n", end="0")
    assert await response.content.readline() == b"two\n"
    finish(visitor, job)
    write(visitor, job, b"late\n", task="worker-1", end="0")
    async with asyncio.timeout(LONG_S):
        assert await response.read() == b"late\n"


async def test_a_follower_of_one_task_ends_with_it(visitor: Visitor) -> None:
    job = running(visitor, tasks=2)
    response = await visitor.call("una", "GET", f"/v1/jobs/{job}/logs?follow=1&task=worker-1")
    write(visitor, job, b"other\n")
    write(visitor, job, b"mine\n", task="worker-1", end="3")
    async with asyncio.timeout(LONG_S):
        assert await response.read() == b"mine\n"


async def test_a_client_that_leaves_ends_the_reading_quietly(visitor: Visitor) -> None:
    job = running(visitor)
    found = visitor.setting.world.state.job(JobId(job))
    assert found is not None
    rest = gateway_output.OutputReader(visitor.setting.site, found, task="").rest()
    write(visitor, job, b"one\n")
    before = asyncio.all_tasks()
    assert await anext(rest) == b"one\n"
    await rest.aclose()
    assert asyncio.all_tasks() <= before


async def test_logs_of_a_job_that_never_ran_are_empty(visitor: Visitor) -> None:
    job = visitor.setting.world.submit(spec(group="t1", user="una"))
    visitor.setting.world.cancel(job)
    assert await text_of(visitor, job, "?follow=true") == b""


@pytest.mark.parametrize("query", ["", "?follow=true", "?tail=10"])
@pytest.mark.parametrize(
    ("log_s", "output_s", "is_shown"), [(-10, -3600, False), (-10, -20, True), (-4000, -3600, True), (10, -3600, True)]
)
async def test_what_a_job_of_its_number_wrote_in_a_log_that_is_lost_is_not_its_own(
    visitor: Visitor, query: str, log_s: int, output_s: int, is_shown: bool
) -> None:
    # Outputs that were made with the log, or before a log that came back from a copy with its jobs, are its own.
    job = running(visitor)
    bus, at = visitor.setting.bus, visitor.setting.world.job(job).submitted_ms
    bus.created_ms = {"GANGLINE_LOG": at + 1000 * log_s, "GANGLINE_OUTPUT": at + 1000 * output_s}
    subject = subjects.output(job, f"{job}-1-worker-0")
    bus.put("GANGLINE_OUTPUT", subject, b"old\n", output.headers(0, end="0"), stored_ms=at - 15_000)
    if not is_shown:
        bus.put("GANGLINE_OUTPUT", subject, b"new\n", output.headers(0, end="0"), stored_ms=at + 5_000)
    finish(visitor, job)
    assert await text_of(visitor, job, query) == (b"old\n" if is_shown else b"new\n")


async def test_a_running_job_without_follow_gives_what_is_there(visitor: Visitor) -> None:
    job = running(visitor)
    write(visitor, job, b"so far")
    assert await text_of(visitor, job) == b"so far"


async def test_output_that_was_lost_is_said_to_be_missing(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_output, "LATE_S_MAX", 0.05)
    job = running(visitor)
    write(visitor, job, b"begun\n", offset=0)
    finish(visitor, job)
    text = await text_of(visitor, job)
    assert text.startswith(b"begun\n")
    assert b"did not arrive" in text


async def test_what_is_no_longer_kept_at_the_beginning_is_said(visitor: Visitor) -> None:
    job = running(visitor)
    write(visitor, job, b"rest\n", offset=1234, end="0")
    finish(visitor, job)
    assert await text_of(visitor, job) == b"[gangline: the first 1234 bytes are no longer kept]\nrest\n"


async def test_the_last_lines_hold_the_error(visitor: Visitor) -> None:
    job = running(visitor)
    for k in range(900):
        write(visitor, job, b"x" * 2000 + b"%d\n" % k)
    write(visitor, job, b"Error: it broke\n", end="1")
    finish(visitor, job)
    text = await text_of(visitor, job, "?tail=3")
    assert text.splitlines()[-1] == b"Error: it broke"
    assert len(text.splitlines()) == 3
    assert await text_of(visitor, job, "?tail=0") == b""


async def test_a_follower_with_tail_goes_on_from_there(visitor: Visitor) -> None:
    job = running(visitor)
    write(visitor, job, b"1\n2\n3\n")
    response = await visitor.call("una", "GET", f"/v1/jobs/{job}/logs?tail=1&follow=true")
    assert await response.content.readline() == b"3\n"
    write(visitor, job, b"4\n", end="0")
    finish(visitor, job)
    async with asyncio.timeout(LONG_S):
        assert await response.read() == b"4\n"


@pytest.mark.parametrize("task", ["2-1-worker-0", "moon-0", "worker", "worker-x", "*", ">", "1-1-moon-0"])
async def test_only_tasks_of_the_job_can_be_asked_for(visitor: Visitor, task: str) -> None:
    job = running(visitor)
    assert job == 1
    problem = await visitor.ask("una", "GET", f"/v1/jobs/{job}/logs?task={task}", status=400)
    assert problem["code"] == "invalid_query"


@pytest.mark.parametrize(
    ("chunks", "count", "expected"),
    [
        ([b"a\nb\nc\n"], 2, b"b\nc\n"),
        ([b"a\nb\nc"], 2, b"b\nc"),
        ([b"a", b"b\n", b"c"], 1, b"c"),
        ([b"a\n", b"b\n"], 5, b"a\nb\n"),
        ([b"a\n\n\n"], 2, b"\n\n"),
        ([b""], 3, b""),
        ([b"a\r\nb\r\n"], 1, b"b\r\n"),
    ],
)
def test_last_lines_are_exact(chunks: list[bytes], count: int, expected: bytes) -> None:
    lines = LastLines(count)
    for chunk in chunks:
        lines.add(chunk)
    assert lines.text() == expected


def test_many_small_pieces_cost_no_more_than_their_text() -> None:
    lines, pieces = LastLines(100_000), 300_000
    begun_s = time.process_time()
    for number in range(pieces):
        lines.add(b"%d\n" % number)
    text = lines.text()
    spent_s = time.process_time() - begun_s
    assert text == b"".join(b"%d\n" % number for number in range(pieces - 100_000, pieces))
    assert spent_s < 60, "each piece was put behind all that was kept, which is an hour"


def test_of_a_long_text_the_last_lines_are_kept() -> None:
    lines = LastLines(3)
    for number in range(200_000):
        lines.add(b"line %d\n" % number)
    assert lines.text() == b"line 199997\nline 199998\nline 199999\n"


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_it_does_not_matter_in_which_pieces_a_text_came(count: int) -> None:
    text = b"one\n\ntwo\nthree four\nfive\n\n\nsix"
    for whole in (text, text + b"\n"):
        expected = LastLines(count)
        expected.add(whole)
        for size in range(1, len(whole)):
            lines = LastLines(count)
            for start in range(0, len(whole), size):
                lines.add(whole[start : start + size])
            assert lines.text() == expected.text() == b"".join(whole.splitlines(keepends=True)[-count:])


def test_an_endless_line_is_cut_at_its_front() -> None:
    lines = LastLines(1)
    for _ in range(3):
        lines.add(b"x" * (TAIL_BYTES_MAX // 2))
    lines.add(b"END\n")
    assert lines.text().endswith(b"xEND\n")
    assert lines.text().startswith(b"[gangline: only the last")


async def test_a_gangs_lines_say_whose_they_are_and_are_whole(visitor: Visitor) -> None:
    job = running(visitor, gpus=0, tasks=2)
    write(visitor, job, b"be")
    write(visitor, job, b"other\nun", task="worker-1")
    write(visitor, job, b"gun\nnext\n")
    assert await text_of(visitor, job, "?prefix=true") == (
        b"[worker-1] other\n[worker-0] begun\n[worker-0] next\n[worker-1] un\n"
    )
    assert await text_of(visitor, job, "?prefix=true&tail=2") == b"[worker-0] next\n[worker-1] un\n"
    assert await text_of(visitor, job, "?prefix=true&task=worker-0") == b"begun\nnext\n"
    assert await text_of(visitor, job) == b"beother\nungun\nnext\n"
    write(visitor, job, b"done", task="worker-1", end="0")
    write(visitor, job, b"", end="0")
    finish(visitor, job)
    for query in ("?prefix=true&follow=true", "?prefix=true"):
        text = await text_of(visitor, job, query)
        assert text == b"[worker-1] other\n[worker-0] begun\n[worker-0] next\n[worker-1] undone\n"


async def test_one_task_alone_writes_as_it_writes(visitor: Visitor) -> None:
    job = running(visitor)
    write(visitor, job, b"step 1\rstep 2", end="0")
    finish(visitor, job)
    assert await text_of(visitor, job, "?prefix=true") == b"step 1\rstep 2"


def test_a_line_without_end_is_given_when_it_is_long_and_a_later_attempt_is_told_from_the_first() -> None:
    lines, first, third = Prefixed(), subjects.output(5, "5-1-a.b-0"), subjects.output(5, "5-3-a.b-0")
    assert lines.take(first, b"x" * 10, is_end=False) == b""
    given = lines.take(first, b"x" * LINE_BYTES_MAX, is_end=False)
    assert given == b"[a.b-0] " + b"x" * (LINE_BYTES_MAX + 10) + b"\n"
    assert lines.take(third, b"\n\nend", is_end=True) == b"[a.b-0 #3] \n[a.b-0 #3] \n[a.b-0 #3] end\n"
    assert lines.take(third, b"", is_end=True) == b""
    assert lines.take(first, b"\r10 %\r20 %", is_end=False) == b""
    assert lines.take(first, b"\r30 %\ndone\r\n", is_end=False) == b"[a.b-0] 30 %\n[a.b-0] done\n"
    assert lines.rest() == b""
