"""What the admission service reads from its environment, once, at start."""

from msgspec import Struct


class Config(Struct, frozen=True):
    """Settings of the admission service (GANGLINE_ADMISSION_*)."""

    gather_ms: int = 5
    """How long an append waits at most for clients that are expected back, while several come at a time."""
    admin_token_file: str = ""
    """File of the first administrator's token: read if it exists, else made (0600) when no administrator exists."""
    first_group: str = "default"
    """Group that is made when there is none yet."""
    first_user: str = ""
    """User that is made in the first group; empty makes none."""
