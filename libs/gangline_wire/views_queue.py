"""What the HTTP API answers of a queue: its lines, and what those wait for in sum."""

from gangline_wire.views_jobs import ReasonView, View


class QueueLineView(View, frozen=True):
    """One waiting job in queue order. What belongs to others is shown without its owner's words."""

    position: int
    id: int
    name: str
    group: str
    user: str
    gpu_milli: int
    size: int
    level: str
    priority: int
    waited_ms: int
    reason: ReasonView
    score: int | None = None
    start_from_ms: int | None = None
    start_to_ms: int | None = None
    array_job: int = 0
    """The array that this is an element of; 0 for any other job."""
    array_index: int = 0


class WaitingForView(View, frozen=True):
    """How many of a queue's jobs wait for the same thing."""

    code: str
    jobs: int
    gpu_milli: int
    """What they ask for together."""
    first: int
    """The one among them whose turn comes first."""
    sentence: str
    """What that one waits for, in its own numbers."""
    of: str = ""
    """Whose limit, guarantee or budget it is, where it is somebody's."""


class QueueView(View, frozen=True):
    """The queue of one pool: the caller's lines in order, and how many there are in all."""

    pool: str
    waiting: int
    """All that wait in the pool, whosever they are."""
    lines: tuple[QueueLineView, ...]
    matching: int = 0
    """Those that the caller may see and that match; the lines are the first of them."""
    waiting_for: tuple[WaitingForView, ...] = ()
    """What these wait for, the most frequent first."""
