"""The desk on loopback: a task asks how big its job is, waits for news, and says what it has to, with its own token."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from aiohttp import ClientSession, TCPConnector
from msgspec.structs import replace
from tests.patience import LONG_S
from yarl import URL

from gangline_agent.desk import WAITERS_OF_TASK_MAX, Desk
from gangline_client.elastic import Contract
from gangline_core.ids import TaskId
from gangline_kit.clock import SystemClock
from gangline_wire.contract import Confirmed, Report, Sizing

NESTED = b'{"more":' + b"[" * 8_000 + b"]" * 8_000 + b"}"
ONE, TWO = TaskId("7-1-worker-0"), TaskId("7-1-worker-1")


class Listener:
    """Two members of one job, and what they said."""

    def __init__(self) -> None:
        self.told = {
            name: Sizing(
                job=7, attempt=1, task=name, rank=rank, role="worker", size=2, sizes={"worker": 2}, gathered=(0, 1)
            )
            for rank, name in enumerate((ONE, TWO))
        }
        self.safe_ones: list[TaskId] = []
        self.words: list[tuple[TaskId, Confirmed | Report]] = []

    def sizing(self, name: TaskId) -> Sizing | None:
        return self.told.get(name)

    def safe(self, name: TaskId) -> bool:
        if not self.told[name].leaves:
            return False
        self.safe_ones.append(name)
        return True

    def confirm(self, name: TaskId, word: Confirmed) -> str:
        self.words.append((name, word))
        return "" if word.size != 99 else "after change 1 the job has worker 1, not 99"

    def report(self, name: TaskId, said: Report) -> None:
        self.words.append((name, said))

    def shrink(self, desk: Desk) -> None:
        """The second member is told to leave."""
        for name in (ONE, TWO):
            self.told[name] = replace(
                self.told[name], size=1, sizes={"worker": 1}, resize=1, stage="noticed", leaves=name == TWO, leave_s=30
            )
        desk.tell_news()


@asynccontextmanager
async def opened(tmp_path: Path) -> AsyncIterator[tuple[Desk, Listener, ClientSession]]:
    listener = Listener()
    desk = Desk(tmp_path / "desk.json", SystemClock(), listener, new_key=lambda: "k" * 32)
    await desk.start()
    async with ClientSession() as session:
        try:
            yield desk, listener, session
        finally:
            await desk.stop()


def access(desk: Desk, name: TaskId) -> tuple[str, dict[str, str]]:
    values = desk.variables(name)
    return values["GANGLINE_TASK_URL"], {"Authorization": f"Bearer {values['GANGLINE_TASK_TOKEN']}"}


async def test_a_task_reads_its_size_and_its_version(tmp_path: Path) -> None:
    async with opened(tmp_path) as (desk, listener, session):
        url, token = access(desk, ONE)
        answer = await session.get(url, headers=token)
        assert answer.status == 200
        assert msgspec.json.decode(await answer.read(), type=Sizing) == listener.told[ONE]
        assert answer.headers["Gangline-Version"] == listener.told[ONE].version


@pytest.mark.parametrize("path", ["", "/notice", "/safe", "/confirm", "/progress"])
async def test_no_task_asks_or_speaks_for_another(tmp_path: Path, path: str) -> None:
    async with opened(tmp_path) as (desk, listener, session):
        url, _ = access(desk, ONE)
        _, stranger = access(desk, TWO)
        for headers in (stranger, {}, {"Authorization": "Bearer x"}):
            method = session.get if path in ("", "/notice") else session.post
            assert (await method(url + path, headers=headers)).status == 401
        assert not listener.words
        assert not listener.safe_ones


async def test_a_token_of_bytes_that_are_no_text_is_none(tmp_path: Path) -> None:
    async with opened(tmp_path) as (desk, _, _):
        url, _ = access(desk, ONE)
        reader, writer = await asyncio.open_connection(URL(url).host, URL(url).port)
        writer.write(b"GET /v1/tasks/7-1-worker-0 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\xfe\r\n\r\n")
        assert b" 401 " in await reader.readline()
        writer.close()
        await writer.wait_closed()


async def test_a_task_that_is_over_is_not_found(tmp_path: Path) -> None:
    async with opened(tmp_path) as (desk, listener, session):
        url, token = access(desk, ONE)
        del listener.told[ONE]
        assert (await session.get(url, headers=token)).status == 404


async def test_a_long_poll_ends_with_the_news_or_with_its_time(tmp_path: Path) -> None:
    async with opened(tmp_path) as (desk, listener, session):
        url, token = access(desk, TWO)
        known = listener.told[TWO].version
        nothing = await session.get(f"{url}/notice?after={known}&wait_s=0.05", headers=token)
        assert nothing.status == 204
        waits = asyncio.gather(session.get(f"{url}/notice?after={known}&wait_s=3600", headers=token))
        await asyncio.sleep(0.05)
        assert not waits.done()
        listener.shrink(desk)
        async with asyncio.timeout(LONG_S):
            [answer] = await waits
        told = msgspec.json.decode(await answer.read(), type=Sizing)
        assert (told.leaves, told.leave_s, told.size, told.stage) == (True, 30, 1, "noticed")
        at_once = await session.get(f"{url}/notice?after={known}&wait_s=3600", headers=token)
        assert at_once.status == 200


async def test_a_task_that_asks_too_often_at_once_is_answered_at_once_and_keeps_nobody_else_from_waiting(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as (desk, listener, _), ClientSession(connector=TCPConnector(limit=0)) as session:
        (greedy, own), (patient, other) = access(desk, ONE), access(desk, TWO)
        asked = [
            asyncio.ensure_future(
                session.get(f"{greedy}/notice?after={listener.told[ONE].version}&wait_s=3600", headers=own)
            )
            for _ in range(WAITERS_OF_TASK_MAX + 1)
        ]
        done, waits = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED, timeout=LONG_S)
        assert [one.result().status for one in done] == [204]
        assert len(waits) == WAITERS_OF_TASK_MAX
        known = listener.told[TWO].version
        last = asyncio.ensure_future(session.get(f"{patient}/notice?after={known}&wait_s=3600", headers=other))
        await asyncio.sleep(0.05)
        assert not last.done()
        listener.shrink(desk)
        assert {(await one).status for one in (*waits, last)} == {200}


async def test_only_who_leaves_says_that_it_is_safe(tmp_path: Path) -> None:
    async with opened(tmp_path) as (desk, listener, session):
        listener.shrink(desk)
        for name, status in ((ONE, 409), (TWO, 202)):
            url, token = access(desk, name)
            assert (await session.post(f"{url}/safe", headers=token)).status == status
        assert listener.safe_ones == [TWO]


@pytest.mark.parametrize(
    "body",
    [
        b'{"percent": 12.5}', b'{"remaining_s": 60}', b'{"step": 4}', b'{"step_s": 0.25, "batch": 32, "gathered": 1}',
        b'{"samples": 1024}', b'{"grad_sqr": 0.5, "grad_var": 2.0}', b'{"checkpoint_step": 3}', b"{}",
    ],
)  # fmt: skip
async def test_every_field_of_progress_may_be_said_alone(tmp_path: Path, body: bytes) -> None:
    async with opened(tmp_path) as (desk, listener, session):
        url, token = access(desk, ONE)
        assert (await session.post(f"{url}/progress", headers=token, data=body)).status == 202
        assert listener.words == [(ONE, msgspec.json.decode(body, type=Report))]


@pytest.mark.parametrize("body", [b"", b"[]", b'{"speed": 1}', b'{"percent": "half"}', b"\xff", b"x" * 20_000, NESTED])
async def test_what_is_no_progress_is_refused(tmp_path: Path, body: bytes) -> None:
    async with opened(tmp_path) as (desk, listener, session):
        url, token = access(desk, ONE)
        answer = await session.post(f"{url}/progress", headers=token, data=body)
        assert answer.status == (413 if len(body) > 16_384 else 400)
        assert not listener.words


@pytest.mark.parametrize(
    ("field", "value", "bounds"),
    [
        ("percent", "500", "from 0 to 100"), ("percent", "-1", "from 0 to 100"), ("step", "-3", "from 0 to"),
        ("step_s", "-1", "from 1e-06 to 1000000"), ("step_s", "0", "from 1e-06"), ("remaining_s", "1e300", "from 0 to"),
        ("samples", "99999999999999999999999", "from 0 to 9007199254740992"), ("batch", "0", "from 1 to"),
        ("batch", "1000000000000000000000000000000", "from 1 to"), ("gathered", "-1", "from 0 to"),
        ("grad_sqr", "-0.5", "from 0 to"), ("grad_var", "1e200", "from 0 to"), ("checkpoint_step", "-1", "from 0 to"),
    ],
)  # fmt: skip
async def test_a_value_that_makes_no_sense_is_refused_with_its_field_and_bounds(
    tmp_path: Path, field: str, value: str, bounds: str
) -> None:
    async with opened(tmp_path) as (desk, listener, session):
        url, token = access(desk, ONE)
        body = f'{{"{field}": {value}, "step_s": 1}}' if field != "step_s" else f'{{"step_s": {value}}}'
        answer = await session.post(f"{url}/progress", headers=token, data=body.encode())
        said = await answer.text()
        assert answer.status == 400
        assert field in said
        assert bounds in said or "int" in said
        assert not listener.words


async def test_what_is_beyond_a_bound_by_a_hair_of_rounding_is_taken(tmp_path: Path) -> None:
    async with opened(tmp_path) as (desk, listener, session):
        url, token = access(desk, ONE)
        body = b'{"percent": 100.00000000000001}'
        assert (await session.post(f"{url}/progress", headers=token, data=body)).status == 202
        assert len(listener.words) == 1


async def test_a_restarted_agents_desk_is_where_it_was_and_knows_its_tokens(tmp_path: Path) -> None:
    async with opened(tmp_path) as (desk, _, _):
        before = access(desk, ONE)
    async with opened(tmp_path) as (desk, _, session):
        assert access(desk, ONE) == before
        assert (await session.get(before[0], headers=before[1])).status == 200


# --- the helper that a training imports --------------------------------------------------------------------------


def contract(desk: Desk, listener: Listener, name: TaskId, folder: Path) -> tuple[Contract, Path, Path]:
    size, beat = folder / f"{name}.size", folder / f"{name}.beat"
    size.write_bytes(msgspec.json.encode(listener.told[name]))
    values = {
        **desk.variables(name),
        "GANGLINE_TASK_SIZE_FILE": str(size),
        "GANGLINE_TASK_HEARTBEAT_FILE": str(beat),
    }
    return Contract(values), size, beat


async def test_the_helper_knows_news_by_the_file_and_by_waiting(tmp_path: Path) -> None:
    async with opened(tmp_path) as (desk, listener, _):
        job, size, _ = contract(desk, listener, TWO, tmp_path)
        assert job.is_there
        assert job.size().size == 2
        job.changed()
        assert not job.changed()
        assert await asyncio.to_thread(job.wait, 0.05) is None
        listener.shrink(desk)
        news = await asyncio.to_thread(job.wait, 10)
        assert news is not None
        assert news.leaves
        other, _, _ = contract(desk, Listener(), TWO, tmp_path)
        other.size()
        other.changed()
        new = size.with_suffix(".new")
        new.write_bytes(msgspec.json.encode(listener.told[TWO]))
        os.replace(new, size)
        assert other.changed()
        assert other.size().leaves


async def test_the_helper_says_safe_confirms_and_reports_everything(tmp_path: Path) -> None:
    async with opened(tmp_path) as (desk, listener, _):
        job, _, beat = contract(desk, listener, TWO, tmp_path)
        assert not await asyncio.to_thread(job.safe), "it was not told to leave"
        listener.shrink(desk)
        assert await asyncio.to_thread(job.safe)
        assert await asyncio.to_thread(job.confirm, listener.told[TWO])
        said = {
            "step": 4, "percent": 12.5, "remaining_s": 60.0, "step_s": 0.25, "samples": 1024, "batch": 32,
            "gathered": 1, "grad_sqr": 0.5, "grad_var": 2.0, "checkpoint_step": 3,
        }  # fmt: skip
        assert await asyncio.to_thread(lambda: job.report(**said))
        assert listener.words == [(TWO, Confirmed(resize=1, size=1)), (TWO, Report(**said))]
        assert beat.exists(), "a report shows life as well"


async def test_a_word_that_a_gang_met_at_another_size_is_refused_with_the_right_one(tmp_path: Path) -> None:
    async with opened(tmp_path) as (desk, _, session):
        url, token = access(desk, TWO)
        async with session.post(f"{url}/confirm", data=b'{"resize":1,"size":99}', headers=token) as answer:
            assert (answer.status, await answer.text()) == (409, "after change 1 the job has worker 1, not 99\n")


async def test_confirming_reads_no_news_and_confirms_only_what_the_program_was_told(tmp_path: Path) -> None:
    async with opened(tmp_path) as (desk, listener, _):
        job, size, _ = contract(desk, listener, TWO, tmp_path)
        first = job.size()
        job.changed()
        listener.shrink(desk)
        size.write_bytes(msgspec.json.encode(listener.told[TWO]))
        assert await asyncio.to_thread(job.confirm)
        met = (TWO, Confirmed(resize=first.resize, size=first.size))
        assert listener.words == [met], "not the change it did not see"
        assert job.changed(), "and the notice is news still"
        assert await asyncio.to_thread(job.confirm)
        assert listener.words[1] == listener.words[0], "knowing of news is not meeting at them"
        assert job.size().leaves
        assert await asyncio.to_thread(job.confirm)
        assert listener.words[2] == (TWO, Confirmed(resize=1, size=1))


def test_outside_of_gangline_the_helper_does_nothing() -> None:
    job = Contract({})
    assert not job.is_there
    assert job.size().size == 1
    assert not job.changed()
    assert not job.report(step=1)
    assert not job.safe()
    assert not job.confirm()
    job.beat()


async def test_an_agent_that_is_away_stops_no_training(tmp_path: Path) -> None:
    async with opened(tmp_path) as (desk, listener, _):
        job, _, _ = contract(desk, listener, ONE, tmp_path)
    assert not await asyncio.to_thread(lambda: job.report(step=1))
    assert job.size().size == 2, "its file is still there"
