"""What the telemetry service reads from its environment, once, at start."""

from msgspec import Struct


class Config(Struct, frozen=True):
    """Settings of the telemetry service (GANGLINE_TELEMETRY_*)."""

    loss_s: float = 30.0
    """A node silent for longer is lost. Agents stop their tasks earlier, by themselves."""
    check_s: float = 1.0
    stall_s: float = 3.0
    """When our own check comes this late, we were frozen, and silence proves nothing."""
    summary_s: float = 60.0
    """Time between utilisation summaries in the log."""
    healthy_samples: int = 3
    """Good samples in a row before a failed GPU is used again."""
