"""What the telemetry service reads from its environment, once, at start."""

from msgspec import Struct


class Config(Struct, frozen=True):
    """Settings of the telemetry service (GANGLINE_TELEMETRY_*)."""

    loss_s: float = 30.0
    """A node silent for longer is lost, but not before its agent has stopped its tasks by itself, 10 s after
    GANGLINE_AGENT_BUS_LOST_S: until then it only takes no new work."""
    cluster_away_s: float = 60.0
    """A Kubernetes cluster whose service is away for longer takes no new work until it is back; what runs goes on."""
    check_s: float = 1.0
    stall_s: float = 3.0
    """When our own check comes this late, we were frozen, and silence proves nothing."""
    summary_s: float = 60.0
    """Time between utilisation summaries in the log."""
    healthy_samples: int = 3
    """Good samples in a row before a GPU that had vanished is used again."""
    retest_s: float = 600.0
    """A GPU that failed by an event (Xid) is used again after so long without another; twice as long each time."""
    suspect_s: float = 300.0
    """So long without a sign, and a GPU is no longer suspect."""
    black_hole_jobs: int = 3
    """Starts of so many different jobs in a row that fail at once close a node to new work."""
    at_once_s: float = 10.0
    """A program that fails within this time failed at once."""
    relapses: int = 3
    """A node that was lost so often within `relapse_s` takes no new work for a while, where others take it."""
    relapse_s: float = 3600.0
    straggler_percent: int = 150
    """A member that needs this much of the median step time of its like holds the gang up."""
    metrics_gpus_max: int = 8192
    """GPUs shown one by one on /metrics; of more, only the first by name."""
