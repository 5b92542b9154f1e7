"""Whatever a server, an agent or another member answers: who reads it gives a value or its own refusal."""

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from tests.security.test_decoders import mutated

from gangline_client.elastic import Contract
from gangline_client.errors import ProblemError
from gangline_client.follow import _lines, _place
from gangline_client.shards import read_answer
from gangline_client.sse import EventParser, StreamTooLongError
from gangline_client.transport import Answer, _read_problem
from gangline_wire.views import JobView

ROUNDS = 200
DEEP = b'{"a":' * 3_000 + b"1" + b"}" * 3_000
LONG = b"9" * 6_000
SIZE = b'{"job":1,"attempt":1,"task":"1-1-worker-0","rank":0,"role":"worker","size":2,"sizes":{"worker":2}}'
PROBLEM = b'{"type":"t","title":"t","status":422,"code":"c","detail":"d","retry_after_s":3}'
EVENT = b'{"id":"%s-0","at":1,"event":"Queued","job":1,"group":"g","user":"u","name":"n","message":"m"}'
LINE = b'{"id":"1-0","at":1,"event":"Queued","job":1,"group":"g","user":"u","name":"n","message":"m"}'


def view(data: bytes, _: Path) -> object:
    return Answer(200, {}, data).view(JobView)


def events(data: bytes, _: Path) -> object:
    return [_place(line.id) for line in _lines(EventParser().feed(data))]


def size(data: bytes, folder: Path) -> object:
    (folder / "size.json").write_bytes(data)
    return Contract({"GANGLINE_TASK_SIZE_FILE": str(folder / "size.json")}).size()


Reader = Callable[[bytes, Path], object]
ANSWERS: dict[str, tuple[Reader, bytes, tuple[type[Exception], ...]]] = {
    "view": (view, b'{"id":1,"name":"n","state":"running","roles":[{"name":"worker"}]}', (ProblemError,)),
    "problem": (lambda data, _: _read_problem(422, {"Retry-After": "1"}, data), PROBLEM, ()),
    "events": (events, b"id: 1-0\nretry: 100\ndata: " + LINE + b"\n\n", (StreamTooLongError,)),
    "size": (size, SIZE, ()),
    "shard": (lambda data, _: read_answer(data), b'{"shard": [0, "a", 0, 10]}', (ValueError,)),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_of_anything_is_read_or_refused(name: str, tmp_path: Path) -> None:
    read, good, refusals = ANSWERS[name]
    draw = random.Random(name)
    for number in range(ROUNDS):
        data = mutated(good, draw) if number % 10 else draw.randbytes(draw.randrange(200))
        with suppress(refusals):
            read(data, tmp_path)


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize(
    "data",
    [
        DEEP,
        b"data: " + DEEP + b"\n\n",
        b"[" * 100_000,
        b"retry: " + LONG + b"\n",
        b"data: " + EVENT % LONG + b"\n\n",
        b"[1]",
        b'{"shard": 1}',
        b'"\xff"',
    ],
)
def test_an_answer_that_is_deep_or_long_or_of_another_kind_ends_nobody(name: str, data: bytes, tmp_path: Path) -> None:
    read, _, refusals = ANSWERS[name]
    with suppress(refusals):
        read(data, tmp_path)
