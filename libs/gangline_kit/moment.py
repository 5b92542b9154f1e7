"""When a decision is made: its time, and how far in the log its maker had read."""

from msgspec import Struct

from gangline_core.state import State
from gangline_kit.clock import Clock


class Moment(Struct, frozen=True):
    """Both are inputs of a decision and stand in its message, so they are taken together, before it is made.

    Taken apart, the log may go on between them: then a message claims to know what its maker never saw, a replay
    decides again on another state, and time runs backwards from what was read to what was written.
    """

    at: int
    """Time in ms."""
    seq: int
    """Sequence in the log."""


def present(state: State, clock: Clock) -> Moment:
    """Now: the wall clock, but never before what the log has already seen."""
    return Moment(at=max(clock.now_ms(), state.kept.at), seq=state.kept.seq)
