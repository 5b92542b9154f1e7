"""What a message of the log looks like: one writer's batch of facts."""

from msgspec import Struct

from gangline_core.facts import Fact

SCHEMA_VERSION = 1


class Batch(Struct, frozen=True):
    """Facts of one writer that became true together.

    `seq_seen` is the log sequence the writer had folded when it decided, `at` its time in ms; both are inputs of the
    decision, so that a replay can decide again.
    """

    lane: str
    epoch: int
    seq_seen: int
    at: int
    facts: tuple[Fact, ...]
    v: int = SCHEMA_VERSION
