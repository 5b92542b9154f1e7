"""How the output of a job is sent: all of it, its last lines, or as it is written."""

import re
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
from gangline_gateway.problems import ProblemError, wrong_query

ALL = -1
TAIL_BYTES_MAX = 8 << 20
"""Most bytes of last lines; longer ones are cut at the front, never at the end."""

_SHORT = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]*)-([0-9]{1,6})", re.ASCII)


async def send_logs(call: Call) -> web.StreamResponse:
    """GET /v1/jobs/{id}/logs: bytes as the tasks wrote them, in the order in which they arrived."""
    job = shown_job(call)
    if job.id in call.state.kept.arrays:
        raise ProblemError("conflict", f"An array writes nothing itself; name one element, such as {job.id}_0.")
    follow = call.flag("follow")
    tail = call.count("tail", ALL, least=0, limit="log_tail_lines")
    reader = OutputReader(call.desk.site, job, task=_task(call, job))
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
        async with aclosing(_sent(reader, tail=tail, waits=waits, follow=follow)) as sent:
            with until_gone(call):
                async for data in sent:
                    if not is_valid(call) or not sees_job(call.state, call.caller, job.spec):
                        break
                    if data:
                        await response.write(data)
    return response


async def _sent(reader: OutputReader, *, tail: int, waits: bool, follow: bool) -> AsyncGenerator[bytes, None]:
    if tail == ALL:
        async with aclosing(reader.existing()) as existing:
            async for data in existing:
                yield data
    else:
        lines = LastLines(tail)
        async for data in reader.existing():
            lines.add(data)
        if not follow and waits:
            async for data in reader.rest():
                lines.add(data)
            waits = False
        yield lines.text()
    if waits:
        async with aclosing(reader.rest()) as rest:
            async for data in rest:
                yield data


class LastLines:
    """The last lines of a text that is too long to keep."""

    def __init__(self, count: int) -> None:
        """Keep `count` lines."""
        self._count = count
        self._kept = b""
        self._cut = False

    def add(self, data: bytes) -> None:
        """More text."""
        if not self._count:
            return
        kept = self._kept + data
        # A text that ends with a newline has an empty part behind its last line.
        parts = self._count + (1 if kept.endswith(b"\n") else 0)
        kept = b"\n".join(kept.rsplit(b"\n", parts)[-parts:])
        if len(kept) > TAIL_BYTES_MAX:
            self._cut, kept = True, kept[-TAIL_BYTES_MAX:]
        self._kept = kept

    def text(self) -> bytes:
        """The lines; a note in front says when even they were cut."""
        note = f"[gangline: only the last {TAIL_BYTES_MAX} bytes are shown]\n".encode() if self._cut else b""
        return note + self._kept


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
        return task_id(job.id, attempt=max(job.attempt, 1), role=short.group(1), index=int(short.group(2)))
    number, _, rest = text.partition("-")
    attempt, _, member = rest.partition("-")
    long = _SHORT.fullmatch(member)
    if number == str(job.id) and attempt.isdecimal() and long is not None and long.group(1) in roles:
        return text
    raise wrong_query("task", f'must be a task of the job, such as "{job.id}-1-{job.spec.roles[0].name}-0"')
