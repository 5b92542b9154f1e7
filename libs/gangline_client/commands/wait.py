"""`gangline wait`: until jobs have ended or run, and with which exit code."""

import asyncio
from argparse import Namespace

from gangline_client.durations import seconds
from gangline_client.job_names import find_job
from gangline_client.session import Session, emit
from gangline_client.words import exit_code, not_started
from gangline_wire import views as v

TARGETS: dict[str, frozenset[str]] = {
    "ended": frozenset(),
    "running": frozenset({"running", "resizing"}),
    "started": frozenset({"starting", "running", "resizing", "paused", "stopping"}),
}
"""States that end the wait; an ended job always does."""
TIMED_OUT = 124
"""What `timeout` returns."""


async def wait(session: Session, args: Namespace) -> int:
    """Wait for all jobs; the first exit code that is not 0, or 124 when the time is over."""
    jobs = [await find_job(session.client, text) for text in args.jobs]
    limit_s = seconds(args.timeout, flag="--timeout") if args.timeout else None
    try:
        async with asyncio.timeout(limit_s):
            return await wait_for_all(session, jobs, target=args.target)
    except TimeoutError:
        session.console.note(f"gangline: not {args.target} after {args.timeout}; the jobs go on.")
        return TIMED_OUT


async def wait_for_all(session: Session, jobs: list[int], *, target: str = "ended") -> int:
    """Say how each job came out, in the order given; the first exit code that is not 0."""
    codes = [await _wait_for(session, job, target=target) for job in jobs]
    return next((code for code in codes if code), 0)


async def _wait_for(session: Session, job: int, *, target: str) -> int:
    view = await session.client.wait(job, states=TARGETS[target])
    emit(session.console, view, names=[str(view.id)], people=lambda: session.console.say(outcome(view)))
    return 0 if view.state in TARGETS[target] else exit_code(view)


def outcome(view: v.JobView) -> str:
    """How the job came out, in one line."""
    words = {"timed_out": "ran into its time limit", "lost": "was lost", "cancelled": "was cancelled"}
    text = f"Job {view.id} ({view.name}) {words.get(view.state, view.state if view.ended_ms else 'is ' + view.state)}"
    if view.state == "failed" and view.exit_code and not not_started(view):
        text += f" with exit code {view.exit_code}"
    reason = view.reason
    return f"{text}: {reason.sentence}" if reason is not None and view.state != "succeeded" else f"{text}."
