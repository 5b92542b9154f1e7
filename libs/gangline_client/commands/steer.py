"""`gangline edit`, `move`, `top`, `resize` and `rerun`: jobs changed after their submission."""

from argparse import Namespace
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from gangline_client.commands.acts import act_on
from gangline_client.errors import UsageError
from gangline_client.job_names import find_job, find_jobs, is_number
from gangline_client.moments import moment_ms
from gangline_client.session import Session, emit
from gangline_client.words import did_you_mean, job_label
from gangline_core.counted import counted

NUMBERS = ("priority", "retries", "at_most")
MOMENTS = ("not_before", "deadline")
TEXTS = ("level", "pool", "time_limit", "estimate")
FLAGS = ("preemptible", "checkpoints")


async def edit(session: Session, args: Namespace) -> int:
    """Change terms of one job."""
    changes = _changes(args.changes, now_ms=session.now_ms())
    job = await find_job(session.client, args.job)
    view = await session.client.edit(job, changes, why=args.why, dry_run=args.dry_run)

    def people() -> None:
        word = "could be changed so" if args.dry_run else "is changed"
        session.console.say(f"Job {job_label(view)} {word}: {', '.join(args.changes)}.")

    emit(session.console, view, names=[job_label(view)], people=people)
    return 0


async def move(session: Session, args: Namespace) -> int:
    """Move jobs to another pool or level."""
    changes = {name: text for name, text in (("pool", args.pool), ("level", args.level)) if text}
    if not changes:
        raise UsageError("where to? Say --pool or --level")
    where = " and ".join(f"{name} {text}" for name, text in changes.items())

    async def act(job: int) -> object:
        return await session.client.edit(job, changes, why=args.why)

    return await _each(session, args.jobs, act, done=f"is in {where}")


async def top(session: Session, args: Namespace) -> int:
    """Put jobs first; the first named goes first, so it is put there last."""

    async def act(job: int) -> object:
        return await session.client.top(job, among=args.among, why=args.why)

    return await _each(session, args.jobs[::-1], act, done="goes first")


async def resize(session: Session, args: Namespace) -> int:
    """Ask for a size."""
    if args.size != "auto" and not is_number(args.size):
        raise UsageError(f"{args.size!r} is neither a number of tasks nor auto")
    size = 0 if args.size == "auto" else int(args.size)
    if not size and args.size != "auto":
        instead = "`gangline hold` stops it until it is released, and `auto` leaves the size to the policy"
        raise UsageError(f"{args.size} is no number of tasks to run on with; {instead}")

    async def act(job: int) -> object:
        return await session.client.resize(job, size, role=args.role)

    done = f"shall have {counted(size, 'task')}" if size else "has the size that the policy gives it again"
    return await _each(session, [args.job], act, done=done)


async def rerun(session: Session, args: Namespace) -> int:
    """Submit jobs once more."""
    for text in args.jobs:
        job = await find_job(session.client, text)
        view = await session.client.rerun(job, dry_run=args.dry_run)
        again = "could run once more" if args.dry_run else f"runs once more as job {view.id}; it is {view.state}"
        line = f"Job {text} {again}."
        emit(session.console, view, names=[str(view.id)], people=partial(session.console.say, line))
    return 0


async def _each(session: Session, texts: list[str], act: Callable[[int], Awaitable[Any]], *, done: str) -> int:
    return await act_on(session, await find_jobs(session.client, texts), act, done=done)


def _changes(texts: list[str], *, now_ms: int) -> dict[str, object]:
    """KEY=VALUE texts as the platform reads them.

    Raises:
        UsageError: no such key, or a value that cannot be read.
    """
    changes: dict[str, object] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"{text!r} is not KEY=VALUE", next_step="For instance: gangline edit 42 priority=5.")
        changes[key] = _value(key, value, now_ms=now_ms)
    return changes


def _value(key: str, value: str, *, now_ms: int) -> object:
    if key in NUMBERS:
        if not is_number(value.removeprefix("-")):
            raise UsageError(f"{key}: {value!r} is no whole number")
        return int(value)
    if key in MOMENTS:
        return 0 if value in ("", "0") else moment_ms(value, flag=key, now_ms=now_ms)
    if key in FLAGS:
        if value not in ("true", "false"):
            raise UsageError(f"{key}: {value!r} is neither true nor false")
        return value == "true"
    if key == "labels":
        pairs = (part.partition("=") for part in value.split(",") if part)
        return {name: text for name, _, text in pairs}
    if key in TEXTS:
        return value
    near = did_you_mean(key, (*NUMBERS, *MOMENTS, *FLAGS, *TEXTS, "labels"))
    step = "See the keys with `gangline edit --help`."
    raise UsageError(f"{key!r} is nothing that can be changed{near}", next_step=step)
