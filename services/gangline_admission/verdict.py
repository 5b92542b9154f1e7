"""What becomes of one request: its facts, its answer, and sealed values."""

from msgspec import Struct

from gangline_core import settings
from gangline_core.facts import Fact
from gangline_core.ids import JobId
from gangline_wire import requests as r


class Verdict(Struct, frozen=True):
    """Facts to append (none when refused or a dry run), the answer, and sealed values per admitted job."""

    reply: r.Reply
    facts: tuple[Fact, ...] = ()
    secrets: dict[JobId, dict[str, str]] = {}


def checked(problem: settings.Problem | None, *facts: Fact, version: int, dry_run: bool = False) -> Verdict:
    """The facts, unless there is a problem or it is only a question."""
    if problem is not None:
        return denied(problem.kind, problem.message, problem.field)
    return Verdict(reply=r.Done(version=version), facts=() if dry_run else facts)


def stale(version: int) -> Verdict:
    """Somebody else was faster."""
    return denied("conflict", f"somebody else changed it; the present version is {version}")


def denied(kind: str, message: str, field: str = "") -> Verdict:
    """A refusal."""
    return Verdict(reply=r.Denied(kind=kind, message=message, field=field))
