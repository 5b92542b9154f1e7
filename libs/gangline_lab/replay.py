"""Deciding everything again from the log, and comparing each decision byte by byte with what was written.

A writer decided on the state at `seq_seen` with the time `at`, and both stand in its message. So the replay folds the
log, stops at each such sequence, decides again with the code that runs in production, and compares.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from gangline_core.fold import Message, apply
from gangline_core.redecide import redecide
from gangline_core.state import State
from gangline_lab.archive import ArchiveError, Entry, Fault, Progress, part_of, read, read_at
from gangline_lab.difference import Difference, compare
from gangline_wire.lanes import kind_of

DECIDING = frozenset({"admission", "queue", "placement", "scheduler", "elastic", "accounting"})
"""Kinds of lanes whose messages may hold decisions; agents and telemetry only report what they see."""


AHEAD_MAX = 10_000
"""Messages kept ahead of the fold; decisions further ahead are read again from their places."""


class ReplayReport(Struct, frozen=True):
    """What a replay came to."""

    messages: int
    facts: int
    compared: dict[str, int]
    """Messages decided again, by kind of lane."""
    inputs: dict[str, int]
    """Messages that carry input and were only folded, by kind of lane."""
    last_seq: int
    head: str
    """Digest of the last state: the head of the log's hash chain."""
    alarms: tuple[str, ...] = ()
    """Events that did not belong when they were folded, as in production."""
    difference: Difference | None = None
    """The first decision that came out otherwise."""
    fault: Fault | None = None
    """Where the archive itself is broken; nothing after it was replayed."""

    @property
    def equal(self) -> bool:
        """True when the archive is sound and every decision came out byte for byte as it was written."""
        return self.difference is None and self.fault is None

    @property
    def decisions(self) -> int:
        """Messages decided again."""
        return sum(self.compared.values())


class _Place(Struct, frozen=True):
    """Where a message that decided something stands."""

    seq: int
    segment: Path
    offset: int


def replay(path: Path, *, progress: Progress | None = None) -> ReplayReport:
    """Replay the archive in this folder; the first difference or fault ends it.

    Reads the archive twice: once to prove the chain and to learn which decisions were made on which state, once to
    fold and decide. `progress` counts both passes.
    """
    run = _Replay()
    try:
        pending = _index(read(path, progress=part_of(progress, 0, 2)))
        log = _Log(read(path, progress=part_of(progress, 1, 2)))
        run.decide_all(log.messages(pending.pop(0, ())))
        while run.difference is None and (entry := log.next()) is not None:
            run.fold(entry)
            run.decide_all(log.messages(pending.pop(entry.message.seq, ())))
    except ArchiveError as error:
        run.fault = error.fault
    return run.report()


def _index(entries: Iterator[Entry]) -> dict[int, list[_Place]]:
    """Deciding messages by the sequence on which they decided."""
    pending: dict[int, list[_Place]] = {}
    for entry in entries:
        if kind_of(entry.message.lane) in DECIDING:
            seen = entry.message.seen
            if not 0 <= seen < entry.message.seq:
                raise ArchiveError(_not_before(entry, seen))
            place = _Place(seq=entry.message.seq, segment=entry.segment, offset=entry.offset)
            pending.setdefault(seen, []).append(place)
    return pending


def _not_before(entry: Entry, seen: int) -> Fault:
    problem = f"it says it was decided on the state at {seen}, which is not before it"
    return Fault(segment=entry.segment.name, line=entry.line, seq=entry.message.seq, problem=problem)


class _Log:
    """The archive's messages in order; those that decided on a state are looked at before their turn to be folded."""

    def __init__(self, entries: Iterator[Entry]) -> None:
        self._entries = entries
        self._waiting: deque[Entry] = deque()
        """Read, but not folded yet."""
        self._ahead: dict[int, Message] = {}
        """The same by sequence."""

    def next(self) -> Entry | None:
        if not self._waiting:
            return next(self._entries, None)
        entry = self._waiting.popleft()
        del self._ahead[entry.message.seq]
        return entry

    def messages(self, places: Iterable[_Place]) -> Iterator[Message]:
        for place in places:
            while place.seq not in self._ahead and len(self._waiting) < AHEAD_MAX:
                entry = next(self._entries, None)
                if entry is None:
                    break
                self._waiting.append(entry)
                self._ahead[entry.message.seq] = entry.message
            found = self._ahead.get(place.seq)
            yield read_at(place.segment, place.offset) if found is None else found


class _Replay:
    """A replay under way."""

    def __init__(self) -> None:
        self.state = State()
        self.messages = 0
        self.facts = 0
        self.compared: dict[str, int] = {}
        self.inputs: dict[str, int] = {}
        self.alarms: list[str] = []
        self.difference: Difference | None = None
        self.fault: Fault | None = None

    def fold(self, entry: Entry) -> None:
        step = apply(self.state, entry.message)
        self.alarms.extend(step.alarms)
        self.messages += 1
        self.facts += len(entry.message.facts)
        kind = kind_of(entry.message.lane)
        if kind not in DECIDING:
            self.inputs[kind] = self.inputs.get(kind, 0) + 1

    def decide_all(self, messages: Iterable[Message]) -> None:
        """Decide again what was decided on the state that now stands, up to the first difference."""
        for written in messages:
            if self.difference is None:
                self._decide(written)

    def _decide(self, written: Message) -> None:
        kind = kind_of(written.lane)
        try:
            decided = redecide(self.state, written.lane, written.facts, written.at)
        except Exception as error:
            error.add_note(f"while deciding message {written.seq} of lane {written.lane} again")
            raise
        if decided is None:
            self.inputs[kind] = self.inputs.get(kind, 0) + 1
            return
        self.compared[kind] = self.compared.get(kind, 0) + 1
        self.difference = compare(self.state, written, decided)

    def report(self) -> ReplayReport:
        return ReplayReport(
            messages=self.messages,
            facts=self.facts,
            compared=dict(sorted(self.compared.items())),
            inputs=dict(sorted(self.inputs.items())),
            last_seq=self.state.kept.seq,
            head=self.state.kept.digest,
            alarms=tuple(self.alarms),
            difference=self.difference,
            fault=self.fault,
        )
