"""The helper that a training imports never raises into it: what cannot be told is a warning, once."""

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest

from gangline_client.elastic import Contract
from gangline_wire.contract import Report

ANSWERS = {
    "dies in the middle of its answer": b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"job"',
    "says nothing": b"",
    "talks something else": b"SSH-2.0-OpenSSH_9.6\r\n",
    "answers no JSON": b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n{{{{",
    "answers no sizing": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
    "refuses and dies": b"HTTP/1.1 400 Bad Request\r\nContent-Length: 500\r\n\r\nno",
    "sends a broken length": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
}


class Desk:
    """An agent that answers every question with the same bytes."""

    def __init__(self, answer: bytes) -> None:
        self.heard: list[bytes] = []
        self._answer = answer
        self._server = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def variables(self) -> dict[str, str]:
        return {"GANGLINE_TASK_URL": f"http://127.0.0.1:{self._server.getsockname()[1]}", "GANGLINE_TASK_TOKEN": "t"}

    def _serve(self) -> None:
        while True:
            try:
                guest, _ = self._server.accept()
            except OSError:
                return
            with guest:
                self.heard.append(_request(guest))
                guest.sendall(self._answer)

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()


def _request(guest: socket.socket) -> bytes:
    """All of a request: its head, and as much body as that announces."""
    heard = b""
    while b"\r\n\r\n" not in heard:
        heard += guest.recv(65536)
    head, _, body = heard.partition(b"\r\n\r\n")
    lengths = [line.partition(b":")[2] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    while len(body) < int(lengths[0] if lengths else 0):
        body += guest.recv(65536)
    return head + b"\r\n\r\n" + body


@contextmanager
def answering(answer: bytes) -> Iterator[Desk]:
    desk = Desk(answer)
    try:
        yield desk
    finally:
        desk.close()


@pytest.mark.parametrize("answer", list(ANSWERS.values()), ids=list(ANSWERS))
def test_whatever_the_agent_answers_nothing_is_raised(answer: bytes) -> None:
    with answering(answer) as desk:
        job = Contract(desk.variables)
        assert job.wait(1) is None
        for call in (job.safe, lambda: job.report(step=1), lambda: job.confirm(None), job.changed):
            call()
        assert job.size().size == 1


def test_an_agent_that_is_away_and_files_that_cannot_be_touched_or_read_stop_nothing(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    values = {"GANGLINE_TASK_SIZE_FILE": str(gone / "size"), "GANGLINE_TASK_HEARTBEAT_FILE": str(gone / "beat")}
    job = Contract({"GANGLINE_TASK_URL": "http://127.0.0.1:1", "GANGLINE_TASK_TOKEN": "t"} | values)
    job.beat()
    assert not job.report(step=1)
    assert not job.confirm()
    assert not job.changed()
    (tmp_path / "size").write_bytes(b"half a")
    assert Contract({"GANGLINE_TASK_SIZE_FILE": str(tmp_path / "size")}).size().size == 1


class Scalar:
    """A number as array libraries have them: no int, no float, and both on demand."""

    def __init__(self, value: float) -> None:
        self._value = value

    def __int__(self) -> int:
        return int(self._value)

    def __float__(self) -> float:
        return float(self._value)


class OffDevice:
    """A number whose device was lost."""

    def __float__(self) -> float:
        raise RuntimeError("CUDA error: device-side assert triggered")

    __int__ = __float__


def reported(desk: Desk) -> Report:
    return msgspec.json.decode(desk.heard[-1].partition(b"\r\n\r\n")[2], type=Report)


OK = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"


def test_numbers_of_array_libraries_are_numbers() -> None:
    with answering(OK) as desk:
        job = Contract(desk.variables)
        assert job.report(step=Scalar(3), step_s=Scalar(0.25), grad_sqr=Fraction(1, 2), batch=Scalar(32))  # type: ignore[arg-type]  # numbers of other libraries
        assert reported(desk) == Report(step=3, step_s=0.25, grad_sqr=0.5, batch=32)


def test_what_is_no_number_or_makes_no_sense_is_left_out_and_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    with answering(OK) as desk, caplog.at_level(logging.WARNING):
        job = Contract(desk.variables)
        for _ in range(3):
            assert job.report(
                step=7,
                percent=500.0,
                grad_sqr=float("nan"),
                grad_var=float("inf"),
                step_s=OffDevice(),
                samples="many",  # type: ignore[arg-type]  # on purpose
            )
        assert reported(desk) == Report(step=7)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 5
    assert "gangline: `percent` is 500.0: it must be from 0 to 100; it was not reported" in said


def test_what_the_agent_refuses_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    refusal = b"HTTP/1.1 409 Conflict\r\nContent-Length: 37\r\n\r\nafter change 1 the job has worker 1 !\n"
    with answering(refusal) as desk, caplog.at_level(logging.WARNING):
        job = Contract(desk.variables)
        for _ in range(3):
            assert not job.confirm()
    assert [record.getMessage() for record in caplog.records] == [
        "gangline: the agent refused /confirm: after change 1 the job has worker 1 !"
    ]


def test_no_proxy_stands_between_a_training_and_its_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    with answering(OK) as desk:
        assert Contract(desk.variables).report(step=1)
