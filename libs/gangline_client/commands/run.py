"""`gangline run`: submit a command, stand by it, return its exit code."""

import asyncio
from argparse import Namespace
from contextlib import aclosing

from gangline_client import quantities as q
from gangline_client.client import ENDED_STATES
from gangline_client.commands import documents, foretold
from gangline_client.commands.after_names import numbered
from gangline_client.commands.wait import outcome
from gangline_client.errors import ClientError
from gangline_client.session import Session, emit
from gangline_client.words import exit_code
from gangline_wire import views as v

POLL_S_LEAST = 0.1
POLL_S_MOST = 1.0
POLL_GROWTH = 1.5
LAST_OUTPUT_S_MAX = 10.0
"""How long after a job's end its last output is waited for."""
INTERRUPTED = 130
LOOKS_BEFORE_WHY = 3
"""A job that starts within the first few looks needs no explanation of its wait."""
QUIET_STATES = frozenset({"held", "waiting", "suspended"})
"""States without output."""


async def run(session: Session, args: Namespace) -> int:
    """Submit what the flags describe and stay with it; the job's exit code."""
    args.after = await numbered(session, args.after, is_quiet=args.quiet)
    document = documents.run_document(args, environ=session.environ, folder=session.folder, now_ms=session.now_ms())
    document = documents.with_defaults(document, group=session.settings.group, pool=session.settings.pool)
    job = await session.client.submit(document, dry_run=args.dry_run)
    if args.dry_run:
        emit(session.console, job, names=[job.name], people=lambda: _foretell(session, job))
        return 0
    if args.detach or job.array is not None:
        # An array writes nothing itself: its elements are followed one by one, as `gangline logs 42_7`.
        line = f"Submitted job {job.id} ({job.name}); it is {job.state}."
        emit(session.console, job, names=[str(job.id)], people=lambda: session.console.say(line))
        return 0
    if not args.quiet:
        session.console.note(f"Job {job.id} ({job.name}) is submitted to pool {job.pool}.")
    companion = Companion(session, job.id, quiet=args.quiet, raw=args.raw)
    return await _until_interrupted(companion, cancel_first=args.cancel_on_interrupt)


def _foretell(session: Session, job: v.JobView) -> None:
    session.console.say("The job would be admitted.")
    if job.foretold is not None:
        foretold.tell(session, job.foretold)


async def _until_interrupted(companion: "Companion", *, cancel_first: bool) -> int:
    """The companion's result, or what Ctrl-C asks for."""
    session = companion.session
    session.interrupts.arm()
    async with asyncio.TaskGroup() as group:
        work = group.create_task(companion.stay())
        while True:
            pressed = group.create_task(session.interrupts.pressed())
            await asyncio.wait({work, pressed}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                pressed.cancel()
                return work.result()
            if not cancel_first:
                work.cancel()
                return _detach(companion)
            cancel_first = False
            session.console.note(f"Cancelling job {companion.job}; press Ctrl-C again to leave it to itself.")
            await session.client.cancel(companion.job, why="interrupted at the terminal")


def _detach(companion: "Companion") -> int:
    job, console = companion.job, companion.session.console
    console.note(f"Detached; job {job} goes on.")
    console.note(f"  follow it:  gangline logs -f {job}")
    console.note(f"  cancel it:  gangline cancel {job}")
    return INTERRUPTED


class Companion:
    """Stays with one job: says why it waits, prints what it writes, knows how it ended."""

    def __init__(self, session: Session, job: int, *, quiet: bool, raw: bool = False) -> None:
        """Nothing seen of the job yet."""
        self.session = session
        self.job = job
        self._quiet = quiet
        self._raw = raw
        self._since_ms = session.now_ms()
        self._said_running = False

    async def stay(self) -> int:
        """Until the job has ended; its exit code."""
        async with asyncio.TaskGroup() as group:
            output: asyncio.Task[None] | None = None
            pause_s, state, looks = POLL_S_LEAST, "", 0
            while True:
                view = await self.session.client.job_patiently(self.job, tell=self._tell_trouble)
                if view.state in ENDED_STATES:
                    break
                pause_s = min(POLL_S_MOST, pause_s * POLL_GROWTH) if view.state == state else POLL_S_LEAST
                state, looks = view.state, looks + 1
                if state in QUIET_STATES and looks >= LOOKS_BEFORE_WHY:
                    await self._tell_why()
                elif state not in QUIET_STATES and output is None:
                    output = group.create_task(self._print_output())
                self._tell_start(view)
                await self._pause(pause_s, output)
            if output is None and view.attempt:  # also what a task that could not be started says of itself
                output = group.create_task(self._print_output())
            await self._drain(output)
        self._tell_end(view)
        return exit_code(view)

    async def _tell_why(self) -> None:
        if self._quiet:
            return
        try:
            why = await self.session.client.explain(self.job)
        except ClientError:
            return  # the next look at the job tells whether this lasts
        place = f", {why.position} of {why.waiting} in the queue" if why.position else ""
        waited = (
            f" {q.age(self._since_ms, now_ms=self.session.now_ms())}" if self.session.console.err_is_terminal else ""
        )
        self.session.console.status(f"{why.state}{waited}{place}: {why.sentence}")

    def _tell_trouble(self, error: ClientError) -> None:
        if not self._quiet:
            self.session.console.status(f"{error}; trying again, the job is not affected")

    def _tell_start(self, view: v.JobView) -> None:
        if self._quiet or view.state != "running" or self._said_running:
            return
        self._said_running = True
        nodes = sorted({task.node for task in view.tasks})
        where = f" on {', '.join(nodes)}" if nodes and len(nodes) <= 4 else f" on {len(nodes)} nodes"
        self.session.console.note(f"Job {self.job} runs{where}.")

    def _tell_end(self, view: v.JobView) -> None:
        self.session.console.clear_status()
        if not self._quiet and view.state != "succeeded":
            self.session.console.note(outcome(view))

    async def _print_output(self) -> None:
        try:
            async with aclosing(self.session.client.logs(self.job, follow=True, prefix=not self._raw)) as chunks:
                async for chunk in chunks:
                    self.session.console.write_bytes(chunk)
        except ClientError as error:
            self.session.console.note(f"gangline: the output is not to be had: {error}")

    async def _pause(self, pause_s: float, output: "asyncio.Task[None] | None") -> None:
        """Wait a little, less when the output ends meanwhile: then the job has most likely ended."""
        if output is None or output.done():
            await self.session.sleep(pause_s)
            return
        await asyncio.wait({output}, timeout=pause_s)

    async def _drain(self, output: "asyncio.Task[None] | None") -> None:
        if output is not None:
            await asyncio.wait({output}, timeout=LAST_OUTPUT_S_MAX)
            output.cancel()
