"""What the elastic service reads from its environment, once, at start."""

from msgspec import Struct


class Config(Struct, frozen=True):
    """Settings of the elastic service (GANGLINE_ELASTIC_*)."""

    settle_ms: int = 200
    """How long the pool must be quiet before growth is proposed."""
    idle_check_s: float = 5.0
    """How often time alone may bring a new size, or end a change that takes too long."""
