"""Small answers leave in one write and read like all others."""

import asyncio
import json
import zlib
from collections.abc import AsyncIterator

import pytest
from tests.services.gateway.conftest import Visitor

from gangline_gateway.ready import READY_BYTES_MAX, Ready


async def talk(visitor: Visitor, request: str) -> tuple[list[str], bytes]:
    """The lines of the answer's head, and what comes until the server hangs up or falls silent."""
    server = visitor.client.server
    reader, writer = await asyncio.open_connection(server.host, server.port)
    writer.write(request.replace("\n", "\r\n").encode())
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode().splitlines()
    length = next((int(line.split(":")[1]) for line in lines if line.startswith("Content-Length")), 0)
    body = b"" if request.startswith("HEAD") else await reader.readexactly(length)
    writer.close()
    return lines, body


def asking(visitor: Visitor, *, method: str = "GET", version: str = "1.1", more: str = "") -> str:
    headers = "".join(f"{name}: {value}\n" for name, value in visitor.setting.headers("una").items())
    return f"{method} /v1/jobs HTTP/{version}\nHost: localhost\n{headers}{more}\n"


async def test_the_quick_way_and_the_general_one_say_the_same(visitor: Visitor) -> None:
    await visitor.submit()
    quick, quick_body = await talk(visitor, asking(visitor, more="X-Request-Id: one\n"))
    general, body = await talk(visitor, asking(visitor, more="X-Request-Id: one\nConnection: close\n"))
    assert quick_body == body != b""
    assert {*general} - {*quick} == {"Connection: close"}
    assert {line for line in quick if not line.startswith("Date")} <= {*general}


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_who_asks_for_the_head_gets_no_body(visitor: Visitor, version: str) -> None:
    lines, _ = await talk(visitor, asking(visitor, method="HEAD", version=version))
    assert lines[0].startswith(f"HTTP/{version} ")


async def test_an_old_client_is_told_that_the_connection_ends(visitor: Visitor) -> None:
    lines, body = await talk(visitor, asking(visitor, version="1.0"))
    assert lines[0] == "HTTP/1.0 200 OK"
    assert body.startswith(b"{")


async def test_a_large_answer_comes_whole(visitor: Visitor) -> None:
    for number in range(3):
        await visitor.submit(name=f"n{number}", env={"TEXT": "x" * (READY_BYTES_MAX // 2)})
        job = await visitor.ask("una", "GET", f"/v1/jobs/{number + 1}")
        assert job["name"] == f"n{number}"


async def test_many_answers_follow_each_other_on_one_connection(visitor: Visitor) -> None:
    reader, writer = await asyncio.open_connection(visitor.client.server.host, visitor.client.server.port)
    writer.write(asking(visitor).replace("\n", "\r\n").encode() * 20)
    for _ in range(20):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        assert head.startswith("HTTP/1.1 200 OK")
        await reader.readexactly(int(head.split("Content-Length: ")[1].split("\r\n")[0]))
    writer.close()


async def test_a_value_cannot_bring_a_header_of_its_own() -> None:
    class Request:
        class transport:  # noqa: N801 - as the request spells it
            is_closing = staticmethod(lambda: False)

    answer = Ready(status=200, headers={"Location": "/a\r\nSet-Cookie: b"}, body=b"{}")
    with pytest.raises(ValueError, match="line break"):
        await answer.prepare(Request())  # type: ignore[arg-type]  # it asks no more of it


@pytest.mark.parametrize("size", [0, 100, 40_000, 200_000])
@pytest.mark.parametrize("in_pieces", [False, True])
async def test_a_body_is_read_whole_however_it_comes(visitor: Visitor, size: int, in_pieces: bool) -> None:
    body = json.dumps({"command": ["true"], "env": {f"K{k}": "x" * min(size, 50_000) for k in range(4)}}).encode()

    async def pieces() -> AsyncIterator[bytes]:
        for begin in range(0, len(body), 10_000):
            yield body[begin : begin + 10_000]
            await asyncio.sleep(0)

    headers = {"Content-Type": "application/json"}
    data = pieces() if in_pieces else body
    job = await visitor.ask("una", "POST", "/v1/jobs", status=202, data=data, headers=headers)
    assert job["spec"]["roles"][0]["environment"]["K3"] == "x" * min(size, 50_000)


async def test_a_squeezed_body_is_refused(visitor: Visitor) -> None:
    body = zlib.compress(json.dumps({"command": ["echo", "x" * 20_000]}).encode())
    headers = {"Content-Type": "application/json", "Content-Encoding": "deflate"}
    problem = await visitor.ask("una", "POST", "/v1/jobs", status=415, data=body, headers=headers)
    assert "Content-Encoding" in problem["detail"]
