"""What a job's tasks wrote, read from the stream of outputs in its order, and when that is all of it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from msgspec import Struct

from gangline_core.fold import Message
from gangline_core.ids import JobId, task_id
from gangline_core.job import ENDS, Job
from gangline_core.step import Step
from gangline_gateway.prefixed import Prefixed
from gangline_kit.bus import LogMessage
from gangline_kit.errors import PermanentError, TemporaryError
from gangline_kit.service import Site
from gangline_kit.tasks import Tasks
from gangline_wire import output, subjects
from gangline_wire.streams import LOG, OUTPUT

PENDING_MAX = 64
"""Messages read ahead of a slow client."""
APART_MS = 60_000
"""Streams that were made within so long of each other were made together."""
LATE_S_MAX = 5.0
"""Output may arrive this long after its job's end; what is still missing then was lost with its node."""


class Given(Struct, frozen=True):
    """How far a task's output was given."""

    began: int = -1
    """Where the last message with something new began."""
    end: int = 0
    """The byte after all that was given."""
    told: int = 0
    """The byte after the last message, which may have told again what was given."""


class OutputReader:
    """A position in one job's output."""

    def __init__(self, site: Site, job: Job, *, task: str, prefixed: Prefixed | None = None) -> None:
        """All tasks, or the named one; with `prefixed` in whole lines that say whose they are."""
        self._site = site
        self._job, self._submitted_ms = job.id, job.submitted_ms
        self._since_ms = 0
        """What was stored before was written by a job of this number in a log that is no more."""
        self._task = task
        self._subject = subjects.output(job.id, task) if task else f"{subjects.OUTPUT}.{job.id}.*"
        self._prefixed = prefixed
        self._position = 0
        self._begun: dict[str, bool] = {}
        """Subjects seen so far, and whether their last message came."""
        self._given: dict[str, Given] = {}
        """By subject."""

    async def existing(self) -> AsyncGenerator[bytes, None]:
        """What is there now."""
        self._since_ms = await self._log_began_ms()
        async for message in self._site.bus.read_subject(OUTPUT.name, self._subject, 1, follow=False):
            yield self._take(message)

    def unfinished(self) -> bytes:
        """Lines that have no end yet, for whoever does not wait for it."""
        return b"" if self._prefixed is None else self._prefixed.rest()

    async def rest(self) -> AsyncGenerator[bytes, None]:
        """What comes after `existing`, until the job (or the named task) has ended and all of it was given."""
        if self._is_complete():
            return
        queue: asyncio.Queue[LogMessage | None] = asyncio.Queue(PENDING_MAX)

        def wake(message: Message, step: Step) -> None:
            if any(moved.job == self._job for moved in step.moves):
                with suppress(asyncio.QueueFull):
                    queue.put_nowait(None)

        stop_listening = self._site.follower.listen(wake)
        # Not a TaskGroup: it would turn the end of this generator, when the client leaves, into an error.
        tasks = Tasks()
        pumping = tasks.spawn(self._pump(queue), name=f"output of job {self._job}")
        try:
            async with aclosing(self._until_complete(queue, pumping)) as data:
                async for piece in data:
                    yield piece
        finally:
            stop_listening()
            await tasks.close()

    async def _until_complete(
        self, queue: asyncio.Queue[LogMessage | None], pumping: asyncio.Task[None]
    ) -> AsyncGenerator[bytes, None]:
        while not self._is_complete():
            try:
                async with asyncio.timeout(LATE_S_MAX):
                    message = await queue.get()
            except TimeoutError:
                if self._has_ended() or pumping.done():
                    yield self._missing()
                    return
                yield b""  # nothing came; whoever sends looks whether it still may
                continue
            if message is not None:
                yield self._take(message)

    async def _pump(self, queue: asyncio.Queue[LogMessage | None]) -> None:
        messages = self._site.bus.read_subject(OUTPUT.name, self._subject, self._position + 1, follow=True)
        with suppress(PermanentError, TemporaryError):
            async for message in messages:
                await queue.put(message)

    async def _log_began_ms(self) -> int:
        """When the log was begun, where the outputs are older than it and the job is not; otherwise 0."""
        try:
            known = [await self._site.bus.stream_info(stream) for stream in (LOG.name, OUTPUT.name)]
        except (PermanentError, TemporaryError):
            return 0
        log_ms, output_ms = (info.created_ms for info in known)
        return log_ms if output_ms + APART_MS < log_ms <= self._submitted_ms else 0

    def _take(self, message: LogMessage) -> bytes:
        if 0 < message.stored_ms < self._since_ms:
            self._position = message.seq
            return b""
        data = self._read(message)
        if self._prefixed is None:
            return data
        return self._prefixed.take(message.subject, data, is_end=output.is_end(message.headers))

    def _read(self, message: LogMessage) -> bytes:
        self._position = message.seq
        is_first = message.subject not in self._begun
        self._begun[message.subject] = output.is_end(message.headers)
        begins = int((message.headers or {}).get(output.OFFSET, "0") or 0)
        if is_first and begins > 0:
            return f"[gangline: the first {begins} bytes are no longer kept]\n".encode() + self._new(message, begins)
        return self._new(message, begins)

    def _new(self, message: LogMessage, begins: int) -> bytes:
        """Bytes that were not given before.

        An agent that was not answered tells a piece again; after the stream's window for duplicates it is stored again.
        """
        known = self._given.get(message.subject, Given())
        ends = begins + len(message.data)
        if begins <= known.began or known.told == begins < known.end:
            self._given[message.subject] = Given(began=known.began, end=max(known.end, ends), told=ends)
            return message.data[known.end - begins :]
        # A line about bytes left out stands at their place and may be longer than they were.
        self._given[message.subject] = Given(began=begins, end=ends, told=ends)
        return message.data

    def _has_ended(self) -> bool:
        job = self._site.follower.state.job(self._job)
        return job is None or job.state in ENDS

    def _is_complete(self) -> bool:
        if self._task:
            return self._begun.get(self._subject, False) or (self._has_ended() and not self._expected())
        return self._has_ended() and not self._unended()

    def _unended(self) -> list[str]:
        """Subjects whose last message has not come."""
        expected = {subject: False for subject in self._expected()} | self._begun
        return [subject for subject, has_ended in expected.items() if not has_ended]

    def _expected(self) -> list[str]:
        """Subjects that the last attempt of an ended job must have, whatever its size was."""
        job = self._site.follower.state.job(self._job)
        if job is None or not job.attempt or job.silent >= sum(role.min_count for role in job.spec.roles):
            return []
        return [
            subjects.output(job.id, task_id(JobId(job.id), attempt=job.attempt, role=role.name, index=index))
            for role in job.spec.roles
            for index in range(role.min_count)
        ]

    def _missing(self) -> bytes:
        names = [self._task] if self._task else sorted(subject.rpartition(".")[2] for subject in self._unended())
        return (
            self.unfinished()
            + f"\n[gangline: the end of the output of {', '.join(names[:5])} did not arrive]\n".encode()
        )
