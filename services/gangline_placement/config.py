"""What the placement service reads from its environment, once, at start."""

from msgspec import Struct


class Config(Struct, frozen=True):
    """Settings of the placement service (GANGLINE_PLACEMENT_*)."""

    idle_check_s: float = 1.0
    """How often an open round is looked for although no event came."""
