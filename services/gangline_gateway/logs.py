"""How the output of a job is sent: all of it, its last lines, or as it is written."""

import re
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing

from aiohttp import web

from gangline_core.ids import task_id
from gangline_core.job import ENDS, Job
from gangline_gateway.access import sees_job
from gangline_gateway.call import Call
from gangline_gateway.events import is_valid, stream_slot, until_gone
from gangline_gateway.jobs import shown_job
from gangline_gateway.output import OutputReader
from gangline_gateway.prefixed import Prefixed
from gangline_gateway.problems import ProblemError, wrong_query

ALL = -1
TAIL_BYTES_MAX = 8 << 20
"""Most bytes of last lines; longer ones are cut at the front, never at the end."""

PIECE_BYTES = 64 << 10
"""Last lines are kept in pieces of about this size."""

_NUMBER = re.compile(r"[0-9]{1,6}", re.ASCII)
_SHORT = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]*)-([0-9]{1,6})", re.ASCII)


async def send_logs(call: Call) -> web.StreamResponse:
    """GET /v1/jobs/{id}/logs: bytes as the tasks wrote them, in the order in which they arrived."""
    job = shown_job(call)
    if job.id in call.state.kept.arrays:
        raise ProblemError("conflict", f"An array writes nothing itself; name one element, such as {job.id}_0.")
    follow = call.flag("follow")
    tail = call.count("tail", ALL, least=0, limit="log_tail_lines")
    task = _task(call, job)
    is_prefixed = call.flag("prefix") and not task and sum(role.max_count for role in job.spec.roles) > 1
    reader = OutputReader(call.desk.site, job, task=task, prefixed=Prefixed() if is_prefixed else None)
    response = web.StreamResponse(
        headers={
            "Content-Type": "text/plain; charset=utf-8",
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "X-Accel-Buffering": "no",
            "X-Request-Id": call.request_id,
        }
    )
    async with stream_slot(call):
        await response.prepare(call.request)
        # What ended a moment ago may still be arriving, so the end of an ended job is waited for as well.
        waits = follow or job.state in ENDS
        async with aclosing(_sent(call, reader, tail=tail, waits=waits, follow=follow)) as sent:
            with until_gone(call):
                async for data in sent:
                    if not is_valid(call) or not sees_job(call.state, call.caller, job.spec):
                        break
                    if data:
                        await response.write(data)
    return response


async def _sent(
    call: Call, reader: OutputReader, *, tail: int, waits: bool, follow: bool
) -> AsyncGenerator[bytes, None]:
    if tail == ALL:
        async with aclosing(reader.existing()) as existing:
            async for data in existing:
                yield data
        if not waits:
            yield reader.unfinished()
    else:
        lines = LastLines(tail)
        async for data in reader.existing():
            lines.add(data)
        if not follow and waits:
            async for data in reader.rest():
                lines.add(data)
            waits = False
        if not waits:
            lines.add(reader.unfinished())
        yield lines.text()
    if waits:
        if follow:
            await call.only_follows()
        async with aclosing(reader.rest()) as rest:
            async for data in rest:
                yield data


class Piece:
    """A part of a text, and how many lines end in it."""

    __slots__ = ("ends", "text")

    def __init__(self) -> None:
        """Nothing yet."""
        self.text = bytearray()
        self.ends = 0


class LastLines:
    """The last lines of a text that is too long to keep."""

    def __init__(self, count: int) -> None:
        """Keep `count` lines."""
        self._count = count
        self._pieces = deque([Piece()])
        self._bytes = self._ends = 0
        """Of all pieces."""
        self._is_cut = False

    def add(self, data: bytes) -> None:
        """More text; what is not of the last lines any more goes in pieces, so that little of the rest is copied."""
        if not self._count:
            return
        if len(self._pieces[-1].text) >= PIECE_BYTES:
            self._pieces.append(Piece())
        last, ends = self._pieces[-1], data.count(b"\n")
        last.text += data
        last.ends += ends
        self._bytes += len(data)
        self._ends += ends
        # One end more than lines: the last one may have none yet, and what stands before the first is of no use.
        while self._ends - self._pieces[0].ends > self._count:
            self._drop()
        while self._bytes - len(self._pieces[0].text) >= TAIL_BYTES_MAX:
            self._is_cut = True
            self._drop()

    def _drop(self) -> None:
        first = self._pieces.popleft()
        self._bytes -= len(first.text)
        self._ends -= first.ends

    def text(self) -> bytes:
        """The lines; a note in front says when even they were cut."""
        if not self._count:
            return b""
        kept = b"".join(piece.text for piece in self._pieces)
        # A text that ends with a newline has an empty part behind its last line.
        parts = self._count + (1 if kept.endswith(b"\n") else 0)
        lines = b"\n".join(kept.rsplit(b"\n", parts)[-parts:])
        has_all = len(lines) < len(kept) or not self._is_cut
        note = f"[gangline: only the last {TAIL_BYTES_MAX} bytes are shown]\n".encode()
        return lines if has_all and len(lines) <= TAIL_BYTES_MAX else note + lines[-TAIL_BYTES_MAX:]


def _task(call: Call, job: Job) -> str:
    """The task asked for, as its full id; "" for all.

    Raises:
        ProblemError: no task of this job can be called so.
    """
    text = call.text("task")
    if not text:
        return ""
    roles = {role.name for role in job.spec.roles}
    short = _SHORT.fullmatch(text)
    if short is not None and short.group(1) in roles:
        return _that_was(job, attempt=max(job.attempt, 1), role=short.group(1), index=int(short.group(2)))
    number, _, rest = text.partition("-")
    attempt, _, member = rest.partition("-")
    long = _SHORT.fullmatch(member)
    if number == str(job.id) and _NUMBER.fullmatch(attempt) and long is not None and long.group(1) in roles:
        return _that_was(job, attempt=int(attempt), role=long.group(1), index=int(long.group(2)))
    raise wrong_query("task", f'must be a task of the job, such as "{job.id}-1-{job.spec.roles[0].name}-0"')


def _that_was(job: Job, *, attempt: int, role: str, index: int) -> str:
    """The task's id.

    Raises:
        ProblemError: the job never had it, so there is nothing to wait for.
    """
    name = task_id(job.id, attempt=attempt, role=role, index=index)
    last = max(job.attempt, 1)
    if not 1 <= attempt <= last:
        raise wrong_query("task", f"job {job.id} had no task {name}; its last attempt is {last}")
    if attempt == job.attempt and job.state in ENDS and index >= job.next_index.get(role, 0):
        raise wrong_query(
            "task", f"job {job.id} had no task {name}; it had {job.next_index.get(role, 0)} of role {role}"
        )
    return name
