"""The facts that telemetry draws from samples: what is lost, sick, suspect, busy, idle or stuck."""

from gangline_core.facts.form import FactBase
from gangline_core.ids import JobId, NodeId, TaskId


class NodeLost(FactBase, frozen=True, tag=True):
    """A node was silent for longer than the loss time, so its agent has stopped its tasks by itself."""

    node: NodeId
    silent_ms: int


class GpuFailed(FactBase, frozen=True, tag=True):
    """A GPU must not be used."""

    node: NodeId
    gpu: int
    problem: str
    event: int = 0
    """Number of the last event of the card that was judged, so that whoever judges next judges none twice."""


class GpuHealthy(FactBase, frozen=True, tag=True):
    """A GPU may be used again."""

    node: NodeId
    gpu: int
    event: int = 0
    """As in GpuFailed."""


class UtilisationSummary(FactBase, frozen=True, tag=True):
    """Mean use of a node's GPUs since the last summary, absent values left out."""

    node: NodeId
    gpu_percent: int | None
    memory_mib: int | None
    samples: int
    gpu_deviation: int | None = None
    """Standard deviation of the mean over the node's GPUs, sample by sample."""
    cpu_percent: int | None = None
    cpu_deviation: int | None = None
    memory_percent: int | None = None
    """Host memory in use, of what the node has."""
    memory_deviation: int | None = None


class GpuSuspected(FactBase, frozen=True, tag=True):
    """A GPU shows signs of trouble but may be used; an empty problem takes it back."""

    node: NodeId
    gpu: int
    problem: str
    event: int = 0
    """As in GpuFailed."""


class NodeQuarantined(FactBase, frozen=True, tag=True):
    """New work keeps away from a node; an empty problem lets it come again."""

    node: NodeId
    problem: str


class JobUsed(FactBase, frozen=True, tag=True):
    """How busy a job's GPUs and processes were over a window, absent values left out."""

    job: JobId
    gpu_percent: int
    """-1 when no GPU of it could be measured."""
    window_s: int
    memory_mib_max: int = -1
    """Most GPU memory in use on one of its GPUs."""
    is_low: bool = False
    """True when it is below what the pool asks for: a warning, before its GPUs are taken back."""
    tensor_percent: int = -1
    """How busy the tensor cores were; -1 where cards do not measure that."""
    cpu_milli: int = -1
    """Thousandths of a CPU that its processes used, all members together."""
    host_memory_mib: int = -1
    """Most memory that its processes had, all members together."""
    summary_s: int = 0
    """Seconds since the summary before this one, where the window is longer; 0 when it is not."""


class JobReclaimed(FactBase, frozen=True, tag=True):
    """A job that did not use its GPUs gives them back and ends."""

    job: JobId
    percent: int
    window_s: int
    least: int


class GangHung(FactBase, frozen=True, tag=True):
    """A member makes no progress while the job holds its GPUs: the gang starts again from its checkpoint."""

    job: JobId
    attempt: int
    task: TaskId
    silent_s: int
    sign: str = ""
    """What shows it: empty for reports or heartbeats that stopped, "idle" for GPUs of one member that stand still while
    those of the others work on, "collective" for a collective operation that its library gave up."""


class GpuTrespassed(FactBase, frozen=True, tag=True):
    """Processes of a task are on a GPU that it does not hold: what programs see of GPUs is manners, not a fence."""

    job: JobId
    attempt: int
    task: TaskId
    node: NodeId
    gpu: int


class StragglersSeen(FactBase, frozen=True, tag=True):
    """Members of a gang that need longer for a step than the others, with percent of the median; none takes it back."""

    job: JobId
    attempt: int
    slow: dict[TaskId, int]


class GangMoved(FactBase, frozen=True, tag=True):
    """Members of an attempt that were first seen to work, where the pool asks for signs of life (`hang_s`).

    Whoever judges next cannot know otherwise whom to miss: a gang that hangs says nothing any more.
    """

    job: JobId
    attempt: int
    moved: tuple[TaskId, ...] = ()
    """They reported steps or beat."""
    worked: tuple[TaskId, ...] = ()
    """Their GPUs were busy."""
