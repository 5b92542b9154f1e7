"""Every decision of a log made again from the log alone, and compared byte by byte with what was written."""

from collections.abc import Sequence

from gangline_core.fold import Message, apply
from gangline_core.redecide import redecide
from gangline_core.state import State, encode_snapshot
from gangline_kit.bus.tail import LogMessage
from gangline_kit.follower import as_message
from gangline_lab.difference import compare
from gangline_lab.replay import DECIDING
from gangline_wire.lanes import kind_of


def replay_fault(stored: Sequence[LogMessage], live: State) -> str:
    """The first decision that comes out otherwise, or a state that does; "" when all is the same."""
    pending: dict[int, list[Message]] = {}
    messages = [as_message(one) for one in stored]
    for message in messages:
        if kind_of(message.lane) in DECIDING:
            pending.setdefault(message.seen, []).append(message)
    state = State()
    for step in range(len(messages) + 1):
        if step:
            apply(state, messages[step - 1])
        for written in pending.pop(state.kept.seq, ()):
            decided = redecide(state, written.lane, written.facts, written.at)
            difference = None if decided is None else compare(state, written, decided)
            if difference is not None:
                return f"message {written.seq} of {written.lane} is decided otherwise in a replay: {difference}"
    if pending:
        return f"decisions on states that were never there: {sorted(pending)}"
    if encode_snapshot(state) != encode_snapshot(live):
        return "the replayed state is not the live one"
    return ""
