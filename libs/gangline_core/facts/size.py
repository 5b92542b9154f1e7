"""The facts about how big jobs are, how changes of size go, and what jobs say of their progress."""

from gangline_core.facts.form import FactBase
from gangline_core.ids import JobId, TaskId
from gangline_core.job import ResizeStage
from gangline_core.sizes.progress import Progress

BY_HAND = "asked for"
"""Why a size is proposed that somebody asked for."""


class ResizeProposed(FactBase, frozen=True, tag=True):
    """A running elastic job's role should have this size; the next round tries to give it."""

    pool: str
    job: JobId
    role: str
    size: int
    why: str = ""
    model: str = ""
    """The GPU model the gang should move to by starting again; empty stays on the one it has."""
    moves: bool = False
    """The whole gang should start again at this size, closer together."""
    because: int = 0
    """Log sequence of the cause from outside; newer than that of the job's last change (see sizes.causes)."""


class ResizeAsked(FactBase, frozen=True, tag=True):
    """Somebody with the right to do so wants a role to have this size; 0 leaves the size to the policy again."""

    job: JobId
    role: str
    size: int
    by: str


class ResizeFailed(FactBase, frozen=True, tag=True):
    """A change of size did not come to its end in time: it is taken back, or the gang starts anew."""

    job: JobId
    number: int
    stage: ResizeStage
    """Where it got stuck."""


class MemberSafe(FactBase, frozen=True, tag=True):
    """A member that was told that it will leave has saved what it must; it may be stopped at once."""

    task: TaskId


class ResizeConfirmed(FactBase, frozen=True, tag=True):
    """A member says that the gang works at its new size."""

    job: JobId
    number: int
    size: int


class LimitSet(FactBase, frozen=True, tag=True):
    """How much of a GPU's time a job beside others may take now."""

    job: JobId
    percent: int
    why: str = ""


class NodesWanted(FactBase, frozen=True, tag=True):
    """How many nodes the pool's jobs would use well, by the utility band of its policy for sizes."""

    pool: str
    nodes: int
    utility_permille: int
    """Speed-up per GPU in use that they would have on so many, in thousandths."""


class ProgressReported(FactBase, frozen=True, tag=True):
    """What a job said of its own progress, gathered: absent values are what it did not say."""

    job: JobId
    progress: Progress
