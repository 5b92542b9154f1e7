"""The seven oracles of every simulated run, and one checker for all of them.

O1 nothing over capacity; O2 usage is what lives; O3 gangs whole or nothing; O4 changes end; O5 nobody goes for nothing;
O6 whoever does not run knows why; O7 the log replays to the same state and the same decisions.

Whatever plays a log (the dollhouse, the scenarios of `tests/cases`, the lab's simulations) shows every message to one
`Oracles` and closes it at the end.
"""

from collections.abc import Collection, Iterable

from dollhouse.history import History
from dollhouse.invariants import INVARIANTS, faults_of
from gangline_core.fold import Message, apply
from gangline_core.redecide import redecide
from gangline_core.state import State, encode_snapshot
from gangline_core.step import Step
from gangline_wire.lanes import kind_of

ORACLES: dict[str, tuple[str, ...]] = {
    "O1": (
        "capacity is never exceeded",
        "slices are whole and nobody else's",
        "use is the sum of tasks",
        "promised room is there",
    ),
    "O2": ("usage is what lives", "charges are booked once"),
    "O3": ("gangs are whole", "tasks belong to live jobs"),
    "O4": ("history: decisions in a row end",),
    "O5": ("victims wait for somebody", "history: evictions have beneficiaries, claims end well"),
    "O6": ("reasons are readable",),
    "O7": ("replay: same state, same decisions",),
}
"""Oracle -> the promises that make it up; those of one state stand in INVARIANTS."""
DECIDING = ("queue", "placement", "scheduler", "elastic")


class BrokenOracleError(AssertionError):
    """A run broke a promise; the message lists all that were broken."""


class Oracles:
    """Looks on at one run from its first message."""

    def __init__(self, *, states_every: int = 1) -> None:
        """States are looked at after every so many messages, and at the end; the way between them always is."""
        self.messages: list[Message] = []
        self.faults: list[str] = []
        self._states_every = states_every
        self._history = History(None, self.faults.append)

    def look(self, state: State, message: Message, step: Step) -> None:
        """One message was folded; `state` is what it is now.

        Raises:
            BrokenOracleError: a promise is broken.
        """
        self.messages.append(message)
        self._history.look(state, message, step)
        if message.seq % self._states_every == 0:
            self.faults.extend(faults_of(state))
        self._speak()

    def close(self, state: State, *, deciding: Collection[str] = DECIDING) -> None:
        """The run is over: what it came to, and whether its log comes to the same again.

        What writers of `deciding` wrote is decided again; a test that invents decisions leaves out whose they were.

        Raises:
            BrokenOracleError: a promise is broken.
        """
        self.faults.extend(faults_of(state))
        self.faults.extend(replay_faults(self.messages, state, deciding=deciding))
        self._speak()

    def _speak(self) -> None:
        if self.faults:
            raise BrokenOracleError("\n".join(self.faults[:20]))


def prove(state: State) -> None:
    """One state keeps every promise that a state can keep.

    Raises:
        BrokenOracleError: it does not.
    """
    faults = list(faults_of(state))
    if faults:
        raise BrokenOracleError("\n".join(faults[:20]))


def replay_faults(messages: Iterable[Message], live: State, *, deciding: Collection[str] = DECIDING) -> list[str]:
    """Where folding and deciding again differs from what was."""
    again, faults = State(), []
    for message in messages:
        if kind_of(message.lane) in deciding:
            decided = redecide(again, message.lane, message.facts, message.at)
            if decided is not None and decided != message.facts:
                faults.append(f"message {message.seq} of {message.lane} is decided otherwise in a replay")
        apply(again, message)
    if encode_snapshot(again) != encode_snapshot(live):
        faults.append("the log folds to another state than the live one")
    return faults


def states_promised() -> set[str]:
    """Promises of one state that some oracle is made of."""
    return {promise for own in ORACLES.values() for promise in own if promise in INVARIANTS}
