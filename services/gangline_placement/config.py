"""What the placement service reads from its environment, once, at start."""

from msgspec import Struct


class Config(Struct, frozen=True):
    """Settings of the placement service (GANGLINE_PLACEMENT_*)."""

    idle_check_s: float = 1.0
    """How often an open round is looked for although no event came."""
    schedulers_led: int = 1
    """Most schedulers of one pool in this process, where the pool's policy asks for several."""
    share_wait_s: float = 0.25
    """How long the leader waits for the shares of schedulers before it decides the rest of a round."""
