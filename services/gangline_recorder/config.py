"""What the recorder service reads from its environment, once, at start."""

from msgspec import Struct


class Config(Struct, frozen=True):
    """Settings of the recorder service (GANGLINE_RECORDER_*)."""

    archive_dir: str = ""
    """Folder of the archive; must outlive the process."""
    segment_bytes: int = 64 << 20
    """Size at which a new segment file is begun."""
    gather_ms: int = 20
    """How long messages are gathered before they are written and published together."""
    sync_s: float = 1.0
    """Longest time between a message's arrival and its fsync; a lost tail is fetched again from the log."""
    snapshot_messages: int = 20_000
    """Messages between snapshots of the fold."""
    snapshot_bytes: int = 256 << 20
    """Bytes of messages between snapshots, if these come first."""
    log_keep_s: float = 30 * 86_400.0
    """Messages of the log that are older than this are dropped, once the archive and two snapshots are past them."""
    log_fill_max: float = 0.5
    """From this share of its byte limit on the log drops younger ones, too; 1 leaves that to `log_keep_s` alone."""
    guard_s: float = 600.0
    """How often a log without its beginning is looked at: does a snapshot reach what it still has?"""
