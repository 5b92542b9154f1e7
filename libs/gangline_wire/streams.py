"""JetStream streams, key-value buckets and object stores as data, with their limits."""

from msgspec import Struct

from gangline_wire import subjects

GIB = 1 << 30
MIB = 1 << 20

MESSAGE_BYTES_MAX = 8 * MIB
"""Largest message; the shipped server configurations allow it (`max_payload`)."""


class Stream(Struct, frozen=True):
    """One stream: what it holds, how much, and what happens when it is full."""

    name: str
    subjects: tuple[str, ...]
    bytes_max: int
    age_s_max: int = 0
    """0 keeps for ever."""
    messages_per_subject_max: int = -1
    discard_old: bool = False
    """False refuses new messages when full: nothing that was not handled is lost."""
    duplicate_window_s: int = 120
    persist_async: bool = False
    """True answers before the disk has it (`persist_mode: async`): only for what can be made again from elsewhere."""


class Bucket(Struct, frozen=True):
    """One key-value bucket."""

    name: str
    ttl_s: float = 0
    bytes_max: int = 64 * MIB
    history: int = 1


LOG = Stream(name="GANGLINE_LOG", subjects=(f"{subjects.LOG}.>",), bytes_max=16 * GIB)
OUTPUT = Stream(
    name="GANGLINE_OUTPUT",
    subjects=(f"{subjects.OUTPUT}.>",),
    bytes_max=4 * GIB,
    age_s_max=14 * 86_400,
    discard_old=True,
    persist_async=True,
)
EVENTS = Stream(
    name="GANGLINE_EVENTS",
    subjects=(f"{subjects.EVENTS}.>",),
    bytes_max=2 * GIB,
    age_s_max=7 * 86_400,
    discard_old=True,
    persist_async=True,
)
STREAMS = (LOG, OUTPUT, EVENTS)

LEASE_TTL_S = 3.0
LEASE_RENEW_S = 1.0

LEASES = Bucket(name="GANGLINE_LEASES", ttl_s=LEASE_TTL_S)
SECRETS = Bucket(name="GANGLINE_SECRETS", bytes_max=256 * MIB)
BUCKETS = (LEASES, SECRETS)

SNAPSHOTS = "GANGLINE_SNAPSHOTS"
"""Object store of fold snapshots, named by log sequence."""
