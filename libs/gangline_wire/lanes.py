"""Which lane each fact is written to: one pen per fact. `docs/messages.md` is drawn from PENS."""

from gangline_core import facts as f

PENS: dict[type[f.Fact], str] = {
    f.JobAdmitted: "admission",
    f.JobRejected: "admission",
    f.CancelRequested: "admission",
    f.HoldSet: "admission",
    f.JobEdited: "admission",
    f.JobTopped: "admission",
    f.WindowSet: "admission",
    f.WindowRemoved: "admission",
    f.PricesSet: "admission",
    f.ClassSet: "admission",
    f.GroupSet: "admission",
    f.UserSet: "admission",
    f.GroupRemoved: "admission",
    f.UserRemoved: "admission",
    f.PoolSet: "admission",
    f.PolicySet: "admission",
    f.DrainSet: "admission",
    f.NodeAssigned: "admission",
    f.NodeForgotten: "admission",
    f.TokenIssued: "admission",
    f.TokenRevoked: "admission",
    f.RoundOpened: "queue",
    f.RoundDecided: "placement",
    f.ShareDecided: "scheduler",
    f.ResizeProposed: "elastic",
    f.ResizeAsked: "admission",
    f.ResizeFailed: "elastic",
    f.LimitSet: "elastic",
    f.NodesWanted: "elastic",
    f.MemberSafe: "agent",
    f.ResizeConfirmed: "agent",
    f.ProgressReported: "telemetry",
    f.NodeSeen: "agent",
    f.TaskStarted: "agent",
    f.TaskExited: "agent",
    f.TaskPaused: "agent",
    f.GpusEmpty: "agent",
    f.NodeLost: "telemetry",
    f.GpuFailed: "telemetry",
    f.GpuHealthy: "telemetry",
    f.UtilisationSummary: "telemetry",
    f.GpuSuspected: "telemetry",
    f.NodeQuarantined: "telemetry",
    f.JobUsed: "telemetry",
    f.JobReclaimed: "telemetry",
    f.GangHung: "telemetry",
    f.StragglersSeen: "telemetry",
    f.GangMoved: "telemetry",
    f.GpuTrespassed: "telemetry",
    f.UsageCharged: "accounting",
    f.BudgetExhausted: "accounting",
}
"""Kind of lane that may carry each fact. LeadershipTaken may stand in every lane."""

CARRIERS = frozenset(
    {
        f.NodeSeen,
        f.NodeLost,
        f.TaskStarted,
        f.TaskExited,
        f.GpusEmpty,
        f.TaskPaused,
        f.MemberSafe,
        f.ResizeConfirmed,
        f.ProgressReported,
    }
)
"""Facts that a Kubernetes cluster's lane carries about its own nodes, in the stead of agents and telemetry."""

LANES: dict[str, tuple[str, str]] = {
    "admission": ("gangline_admission", "admission"),
    "queue": ("gangline_queue", "queue.<pool>"),
    "placement": ("gangline_placement", "placement.<pool>"),
    "scheduler": ("gangline_placement", "scheduler.<pool>.<number>"),
    "elastic": ("gangline_elastic", "elastic.<pool>"),
    "agent": ("gangline_agent", "agent.<agent>"),
    "kubernetes": ("gangline_kubernetes", "kubernetes.<cluster>"),
    "telemetry": ("gangline_telemetry", "telemetry"),
    "accounting": ("gangline_accounting", "accounting"),
}
"""Kind of lane -> the service that holds its pen, and how a lane of the kind is spelled."""


def kind_of(lane: str) -> str:
    """The kind of a lane: "queue.default" is a "queue" lane."""
    return lane.partition(".")[0]


def carried(kind: str) -> list[str]:
    """Names of the facts that lanes of this kind may carry."""
    return [fact.__name__ for fact, pen in PENS.items() if pen == kind or (kind == "kubernetes" and fact in CARRIERS)]


def stray_facts(lane: str, facts: tuple[f.Fact, ...]) -> list[str]:
    """Names of facts that this lane must not carry."""
    kind = kind_of(lane)
    if kind == "kubernetes":
        return [type(fact).__name__ for fact in facts if type(fact) not in CARRIERS and type(fact) in PENS]
    return [type(fact).__name__ for fact in facts if PENS.get(type(fact), kind) != kind]
