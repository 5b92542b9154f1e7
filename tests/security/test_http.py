"""The HTTP door against everybody: random calls on every route, roles on each route, half-sent and double requests."""

import asyncio
import random
import re
import ssl
import subprocess
import time
import zlib
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer
from tests.make import node
from tests.patience import LONG_S, quick
from tests.services.gateway.conftest import Visitor
from tests.services.gateway.fakes import Setting

from gangline_gateway.app import run
from gangline_gateway.config import Config
from gangline_gateway.routes import ROUTES
from gangline_gateway.table import Route
from gangline_kit.errors import PermanentError

CALLS = 24
"""Random calls per route."""
JUNK = ("", "0", "-1", "999999999999999999999999", "true", "null", "a" * 3000, "%00", "%ff", "..%2f..%2fetc", "1e9",
        "é", "*", "a:b", "[]", "{}", "' or 1=1", "\u202e", "1_2", "lab/x")  # fmt: skip
BODIES: tuple[Any, ...] = (
    None, b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"a":' * 300, b"0", b'"x"', {}, {"jobs": []}, {"jobs": [{}]},
    {"command": ["true"]}, {"command": ["true"], "gpus": -1}, {"command": "rm -rf /"}, {"limit": {"gpus": "many"}},
    {"role": "admin", "user": "x", "name": "y"}, {"priority": 10**30}, {"a": {"b": [1, 2, {"c": None}]}},
    {"time_limit": "P1D"}, {"name": "\u0000"}, {"labels": {"k" * 5000: "v"}}, {"weight": 1e400},
)  # fmt: skip
STREAMS_S = 0.3
REFUSED = re.compile(rb"HTTP/1\.[01] 4\d\d ")


@pytest.fixture
async def visitor() -> AsyncIterator[Visitor]:
    setting = Setting(node("n1"), node("n2"))
    async with TestClient(TestServer(setting.app)) as client:
        yield Visitor(setting, client)


def address(route: Route, draw: random.Random, *, plain: bool = False) -> str:
    """The route's address with something in every gap, and perhaps a query."""
    path = re.sub(r"\{\w+\}", lambda _: "1" if plain else draw.choice(JUNK) or "x", route.path)
    if plain or draw.random() < 0.5:
        return path
    names = [*route.query_names, "surprise"]
    return f"{path}?" + "&".join(f"{draw.choice(names)}={draw.choice(JUNK)}" for _ in range(draw.randrange(1, 4)))


async def call(visitor: Visitor, who: str, route: Route, path: str, body: Any = None) -> int:
    """The status of one call; streams are hung up on."""
    more: dict[str, Any] = {"headers": {"Content-Type": "application/json"}}
    if isinstance(body, bytes):
        more["data"] = body
    elif body is not None:
        more = {"json": body}
    async with asyncio.timeout(LONG_S):
        response = await visitor.call(who, route.method, path, **more)
        if not route.is_stream or response.status >= 300:
            await response.read()
            return response.status
    with suppress(TimeoutError):
        async with asyncio.timeout(STREAMS_S):
            await response.read()
    response.close()
    return response.status


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_whatever_is_asked_the_gateway_has_an_answer(visitor: Visitor, route: Route) -> None:
    await visitor.submit()
    draw = random.Random(f"{route.method} {route.path}")
    for _ in range(2 if route.is_stream else CALLS):
        who = draw.choice(["admin", "una"])
        path, body = address(route, draw), draw.choice(BODIES)
        status = await call(visitor, who, route, path, body)
        assert status < 500 or status == 503, (route.method, path, body, status)
    assert await call(visitor, "admin", ROUTES[-1], ROUTES[-1].path) < 500


@pytest.mark.parametrize("route", [route for route in ROUTES if route.changes], ids=lambda r: f"{r.method} {r.path}")
async def test_who_only_reads_changes_nothing_anywhere(visitor: Visitor, route: Route) -> None:
    await visitor.submit()
    visitor.setting.tokens["looker"] = visitor.setting.issue("readonly", user="looker")
    before = visitor.setting.world.state.kept.seq
    status = await call(visitor, "looker", route, address(route, random.Random(0), plain=True), route.example or {})
    assert status in (400, 403, 404, 409, 415, 422), status
    kept = visitor.setting.world.state.kept
    assert kept.seq == before, "something was written"


@pytest.mark.parametrize("route", [route for route in ROUTES if "{id}" in route.path and "jobs" in route.path],
                         ids=lambda route: f"{route.method} {route.path}")  # fmt: skip
async def test_a_foreign_job_is_like_none_for_every_verb(visitor: Visitor, route: Route) -> None:
    mine = (await visitor.submit("una"))["id"]
    visitor.setting.tokens["other"] = visitor.setting.issue("user", user="other", groups=("t2",))
    before = visitor.setting.world.state.kept.seq
    answers = []
    for job in (mine, 987_654):
        path = re.sub(r"\{\w+\}", str(job), route.path, count=1)
        path = re.sub(r"\{\w+\}", "1", path)
        answers.append(await call(visitor, "other", route, path, route.example))
    assert answers[0] == answers[1], answers
    assert answers[0] in (400, 404, 422), answers
    assert visitor.setting.world.state.kept.seq == before


@pytest.mark.parametrize("query", ["", "?group=t1", "?group=~", "?pool=default", "?kind=policy,pool,prices,class",
                                   "?kind=token", "?kind=group,user&group=t1/a"])  # fmt: skip
@pytest.mark.parametrize("who", ["tom", "vic", "head2", "nobody", "t2-reader"])
async def test_edits_of_foreign_settings_are_told_to_nobody(visitor: Visitor, who: str, query: str) -> None:
    setting = visitor.setting
    setting.tokens["t2-reader"] = setting.issue("readonly", user="rob", groups=("t2",))
    await visitor.ask("admin", "PUT", "/v1/groups/t1?why=private", json={"path": "t1", "weight": 7, "heads": ["hana"]})
    await visitor.ask("admin", "PUT", "/v1/groups/t1/users/una?why=private", json={"level": 3})
    await visitor.ask("admin", "PUT", "/v1/policies/default?why=private", json={"ordering": "fifo"})
    body = {"name": "private", "role": "user", "user": "una", "groups": ["t1"]}
    await visitor.ask("hana", "POST", "/v1/tokens", status=201, json=body)
    answer = await visitor.call(who, "GET", f"/v1/settings/history{query}")
    assert answer.status in (200, 403, 404)
    assert "private" not in await answer.text()


# --- below HTTP ---------------------------------------------------------------------------------------------------


async def raw(visitor: Visitor, *parts: bytes, pause_s: float = 0.0) -> bytes:
    """Send bytes as they are and read what comes until the server hangs up, or nothing more comes for a while."""
    server = visitor.client.server
    assert server is not None
    reader, writer = await asyncio.open_connection(server.host, server.port)
    answer = b""
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause_s)
        chunk = b"."
        while chunk:
            async with asyncio.timeout(3 if answer else LONG_S):
                chunk = await reader.read(65_536)
            answer += chunk
    except (TimeoutError, ConnectionError):
        pass
    finally:
        writer.close()
    return answer


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 4\r\nContent-Length: 5\r\n",
        b"Content-Length: +4\r\n",
        b"Content-Length: 4 4\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"X: a\r\n b: folded\r\n\x00: y\r\n",
    ],
)
async def test_a_request_of_two_readings_is_refused_with_all_behind_it(visitor: Visitor, head: bytes) -> None:
    token = visitor.setting.headers("admin")["Authorization"].encode()
    smuggled = b"GET /v1/whoami HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: " + token + b"\r\n\r\n"
    begin = b"POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: " + token + b"\r\n"
    answer = await raw(visitor, begin + head + b"\r\n0\r\n\r\n" + smuggled)
    assert REFUSED.match(answer), answer[:200]
    assert b'"role":"admin"' not in answer


@pytest.mark.parametrize(
    ("line", "head"),
    [
        (b"GET /v1/whoami", b"Authorization: Bearer other\r\n"),
        (b"GET /v1/whoami", b"Origin: http://127.0.0.1\r\nOrigin: https://evil.example\r\n"),
        (b"POST /v1/jobs", b"Idempotency-Key: a\r\nIdempotency-Key: b\r\nContent-Length: 0\r\n"),
        (b"PUT /v1/prices", b'If-Match: "1"\r\nIf-Match: "2"\r\nContent-Length: 0\r\n'),
        (b"GET http://evil.example/v1/whoami", b""),
        (b"GET http://127.0.0.1:1/v1/whoami", b""),
    ],
)
async def test_who_says_two_things_at_once_is_told_so(visitor: Visitor, line: bytes, head: bytes) -> None:
    token = visitor.setting.headers("admin")["Authorization"].encode()
    rest = b" HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: " + token + b"\r\nConnection: close\r\n"
    answer = await raw(visitor, line + rest + head + b"\r\n")
    assert REFUSED.match(answer), answer[:200]
    assert b'"role":"admin"' not in answer


async def test_an_address_with_its_host_is_taken_when_both_say_the_same(visitor: Visitor) -> None:
    token = visitor.setting.headers("admin")["Authorization"].encode()
    line = b"GET http://127.0.0.1/v1/whoami HTTP/1.1\r\n"
    answer = await raw(visitor, line + b"Host: 127.0.0.1\r\nConnection: close\r\nAuthorization: " + token + b"\r\n\r\n")
    assert b'"role":"admin"' in answer


async def test_endless_heads_are_cut_off(visitor: Visitor) -> None:
    line = b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    assert REFUSED.match(await raw(visitor, line))
    many = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n"
    assert REFUSED.match(await raw(visitor, many))


async def test_many_who_say_nothing_hold_up_nobody(visitor: Visitor) -> None:
    server = visitor.client.server
    assert server is not None
    silent = [await asyncio.open_connection(server.host, server.port) for _ in range(200)]
    for _, writer in silent:
        writer.write(b"POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nX-a: ")

    async def submitted_s(number: int) -> float:
        begun_s = time.monotonic()
        await visitor.submit()
        return time.monotonic() - begun_s

    await quick(5, submitted_s)
    for _, writer in silent:
        writer.close()


async def test_a_packed_body_is_refused_unread_and_never_unpacked() -> None:
    setting = Setting(node("n1"))
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = bytes(1 << 20)
    bomb = b"".join(packer.compress(zeros) for _ in range(300)) + packer.flush()
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(run(setting.site, Config(port=0), ready=ready.set_result))
    url = await ready
    async with aiohttp.ClientSession() as session:
        for packing in ("gzip", "deflate", "br", "zstd", "GZIP", "identity, gzip", "x-gzip"):
            headers = {"Content-Encoding": packing, "Content-Type": "application/json"}

            async def processor_s(number: int, packing: str = packing, headers: dict[str, str] = headers) -> float:
                begun_s = time.process_time()
                async with session.post(f"{url}/v1/jobs", data=bomb, headers=headers) as answer:
                    assert answer.status == 415, packing
                    assert answer.headers["Connection"] == "close"
                async with session.get(f"{url}/livez") as answer:
                    assert answer.status == 200
                return time.process_time() - begun_s

            await quick(0.3, processor_s)
        same = {**setting.headers("una"), "Content-Encoding": "identity"}
        async with session.post(f"{url}/v1/jobs", json={"command": ["true"]}, headers=same) as answer:
            assert answer.status == 202
    serving.cancel()


# --- over TLS -----------------------------------------------------------------------------------------------------


def certificate(folder: Path) -> tuple[str, str]:
    """A certificate for 127.0.0.1 that nobody but the test trusts."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subject = ["-subj", "/CN=gangline", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "1"]
    subprocess.run([*command, *subject, "-out", cert, "-keyout", key], check=True, capture_output=True)
    return str(cert), str(key)


async def test_with_a_certificate_the_api_is_spoken_over_tls_only(tmp_path: Path) -> None:
    cert, key = await asyncio.to_thread(certificate, tmp_path)
    setting = Setting(node("n1"))
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(
        run(setting.site, Config(port=0, cert_file=cert, key_file=key), ready=ready.set_result)
    )
    url = await ready
    assert url.startswith("https://")
    trusted = ssl.create_default_context(cafile=cert)
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{url}/livez", ssl=trusted) as answer:
            assert answer.status == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await session.get(f"{url}/livez")
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"{url.replace('https', 'http')}/livez")
    serving.cancel()


async def test_a_certificate_that_cannot_be_read_ends_the_gateway_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(PermanentError, match=r"nothing\.pem"):
        await run(Setting(node("n1")).site, Config(port=0, cert_file=str(tmp_path / "nothing.pem")))
