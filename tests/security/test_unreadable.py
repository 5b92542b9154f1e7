"""Who sends what is no HTTP, or says two things at once, is answered a problem that repeats nothing of it."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from tests.patience import LONG_S
from tests.security.serving import served

from gangline_gateway.app import HEADER_BYTES_MAX

SECRET = b"Bearer tell-nobody"
HOST = b"Host: 127.0.0.1\r\nAuthorization: " + SECRET + b"\r\n"


@pytest.fixture
async def address() -> AsyncIterator[tuple[str, int]]:
    async with served() as address:
        yield address


async def answered(address: tuple[str, int], sent: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the only answer, after which the server hangs up."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(sent)
    async with asyncio.timeout(LONG_S):
        whole = await reader.read()
    writer.close()
    head, _, body = whole.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return int(first.split()[1]), dict(line.lower().split(": ", 1) for line in lines), body


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (b"BREW /v1/jobs HTTP/1.1\r\n" + HOST + b"\r\n", 400, "malformed_request"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + SECRET + b"\r\n\r\n", 400, "malformed_request"),
        (
            b"POST /v1/jobs HTTP/1.1\r\n" + HOST + b"Content-Type: text/plain\r\nContent-Type: text/css\r\n\r\n",
            400,
            "malformed_request",
        ),
        (
            b"POST /v1/jobs HTTP/1.1\r\n" + HOST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
            "malformed_request",
        ),
        (
            b"GET /v1/jobs HTTP/1.1\r\n" + HOST + b"X: " + b"a" * (2 * HEADER_BYTES_MAX) + b"\r\n\r\n",
            431,
            "headers_too_large",
        ),
        (b"GET /" + b"a" * (2 * HEADER_BYTES_MAX) + b" HTTP/1.1\r\n" + HOST + b"\r\n", 431, "headers_too_large"),
    ],
    ids=["method", "tls", "two types", "two lengths", "header", "address"],
)
async def test_what_cannot_be_read_is_answered_a_problem_that_repeats_nothing_of_it(
    address: tuple[str, int], sent: bytes, status: int, code: str
) -> None:
    told, headers, body = await answered(address, sent)
    problem = json.loads(body)
    assert (told, problem["status"], problem["code"]) == (status, status, code)
    assert headers["content-type"] == "application/problem+json"
    assert headers["x-content-type-options"] == "nosniff"
    assert SECRET not in body
    assert b"BREW" not in body
    assert b"aaaa" not in body
