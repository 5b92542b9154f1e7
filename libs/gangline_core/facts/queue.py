"""What the queue says: who may be placed, in which order, why the others may not, and when they will probably start."""

from msgspec import Struct

from gangline_core.facts.form import FactBase
from gangline_core.ids import JobId
from gangline_core.reasons import Reason


class Candidate(Struct, frozen=True, array_like=True, gc=False):
    """One job of a round, in order: its score and each term of it, in millionths."""

    job: JobId
    score: int
    terms: tuple[int, ...] = ()


class KeptOut(Struct, frozen=True, omit_defaults=True, gc=False):
    """Jobs that did not enter the round, with the reason they share."""

    reason: Reason
    jobs: tuple[JobId, ...]


class Foreseen(Struct, frozen=True, array_like=True, gc=False):
    """A forecast of a waiting job's start: how long it will wait from this round on, in ms."""

    job: JobId
    wait_ms: int
    """As simulated; the others are what that meant for earlier forecasts."""
    low_ms: int
    middle_ms: int
    high_ms: int
    """-1 when too few forecasts have been scored to state a range."""


class Lease(Struct, frozen=True, array_like=True, gc=False):
    """One in the order in which room is lent; it may run already. The model is empty where any will do."""

    job: JobId
    model: str = ""


class Part(Struct, frozen=True, array_like=True, gc=False):
    """The part of its time, in millionths, that a job should have on GPUs of this model."""

    job: JobId
    model: str
    micro: int


class LimitDate(Struct, frozen=True, array_like=True, gc=False):
    """A date for a job that limits keep out: from then on what it needs below them is kept for it."""

    job: JobId
    start_ms: int


class RoundOpened(FactBase, frozen=True, tag=True):
    """Who may be placed now, in which order, and why the others may not. `now` of the round is the message's time."""

    pool: str
    round: int
    candidates: tuple[Candidate, ...]
    terms: tuple[str, ...] = ()
    """Names of the candidates' terms."""
    kept_out: tuple[KeptOut, ...] = ()
    """Only jobs whose reason changed since it was last recorded."""
    given_up: tuple[KeptOut, ...] = ()
    """Jobs that can never run any more (a dependency failed) and end here."""
    waiting: int = 0
    policy_version: int = 0
    edges: tuple[JobId, ...] = ()
    """The last candidate of each shape of which more wait out of view: when it starts, the next ones come into view."""
    is_cut: bool = True
    """False when all that is out of view is like an edge, so that nothing else can come into view."""
    foreseen: tuple[Foreseen, ...] = ()
    """First forecasts for candidates that found no room before, written down to be scored when they start."""
    leases: tuple[Lease, ...] = ()
    """Where room is lent for a time and that time is over: everybody who may have it next, in order."""
    parts: tuple[Part, ...] = ()
    """Parts of time, where they were worked out anew."""
    limited: tuple[JobId, ...] = ()
    """Candidates that a limit keeps out: they stand in front below it, and the round gives them a date there."""
    companies: tuple[tuple[JobId, ...], ...] = ()
    """Of those to whom room is lent, who shares GPUs with whom, the first of each company first."""
    looks: int = 1
    """Rounds in a row, this one counted, until somebody of all who ask for something else was looked at."""
