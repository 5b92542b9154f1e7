"""What the queue service reads from its environment, once, at start."""

from msgspec import Struct


class Config(Struct, frozen=True):
    """Settings of the queue service (GANGLINE_QUEUE_*)."""

    gather_ms: int = 2
    """Shortest time between a round's end and the next one, in which events are gathered."""
    gather_ms_max: int = 250
    """Upper bound of the gathering, which grows with the time the last round took."""
    idle_check_s: float = 1.0
    """Longest sleep between looks at the clock."""
