"""What becomes of one request: its facts, its answer, and sealed values."""

from typing import Protocol

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


class Change(Protocol):
    """What requests share that change settings."""

    @property
    def if_version(self) -> int:
        """The version that must still hold; -1 does not care."""

    @property
    def dry_run(self) -> bool:
        """True when it is only a question."""


def changed(
    request: Change, *facts: Fact, problem: settings.Problem | None = None, before: int, version: int
) -> Verdict:
    """The facts that make `version` of the one `before`, unless somebody else was faster or there is a problem."""
    if request.if_version not in (-1, before):
        return stale(before)
    if problem is not None:
        return denied(problem.kind, problem.message, problem.field)
    return Verdict(reply=r.Done(version=version), facts=() if request.dry_run else facts)


def stale(version: int) -> Verdict:
    """Somebody else was faster."""
    return denied("conflict", f"somebody else changed it; the present version is {version}")


def denied(kind: str, message: str, field: str = "") -> Verdict:
    """A refusal."""
    return Verdict(reply=r.Denied(kind=kind, message=message, field=field))
