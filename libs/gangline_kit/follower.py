"""The process's one fold of the log: snapshot, then tail, then every message as it comes."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256

import msgspec
from msgspec import Struct

from gangline_core.fold import Message, apply
from gangline_core.state import State, decode_snapshot, encode_snapshot
from gangline_core.step import Step
from gangline_kit.bus import Bus
from gangline_kit.bus.tail import LogMessage
from gangline_kit.clock import Clock
from gangline_kit.errors import LogCutError, PermanentError, TemporaryError
from gangline_kit.tasks import Tasks
from gangline_wire.envelope import SCHEMA_VERSION
from gangline_wire.stored import message as stored_message
from gangline_wire.streams import LOG, SNAPSHOTS

log = logging.getLogger(__name__)

SNAPSHOTS_KEPT = 2
FOLD_S_MAX = 0.01
"""The fold gives the loop to others after this long, so that a long catch-up does not starve leases."""

CUT_ADVICE = (
    "the log has dropped its beginning, and no snapshot reaches what it still has. The recorder makes one of its "
    "archive when it starts: start it, with the archive's folder in place"
)

Callback = Callable[[Message, Step], None]


class SnapshotHead(Struct, frozen=True):
    """First line of a snapshot: what it is, and how to tell that log and snapshot belong together."""

    v: int
    seq: int
    message: str
    """Digest of the stored message at `seq`."""
    body: str
    """Digest of the bytes after this line."""


def as_message(stored: LogMessage) -> Message:
    """What is stored in the log, as the fold wants it."""
    return stored_message(stored.seq, stored.data, subject=stored.subject, stored_ms=stored.stored_ms)


class Follower:
    """Owns `state`; everybody in the process may read it between awaits, nobody else may change it."""

    def __init__(
        self,
        bus: Bus,
        clock: Clock,
        *,
        use_snapshots: bool = True,
        read: Callable[[LogMessage], Message] | None = None,
        failed: Callable[[BaseException], None] = lambda _: None,
    ) -> None:
        """Nothing is read before `start`; `read` makes a message of what is stored.

        `failed` hears why the log cannot be followed any more.
        """
        self.state = State()
        self.caught_up = False
        """True from the moment the log's end of the start was folded."""
        self.failure: BaseException | None = None
        self.restored_seq = 0
        """Sequence of the snapshot the fold began with; 0 when it began with nothing."""
        self.alarms = 0
        """Events that did not belong, since the start."""
        self.resubscriptions = 0
        """How often the reading of the log had to begin anew: after each loss of the bus, and when it fell silent."""
        self._bus = bus
        self._clock = clock
        self._use_snapshots = use_snapshots
        self._read = read or as_message
        self._tell_failed = failed
        self._callbacks: list[Callback] = []
        self._changed = asyncio.Event()
        self._last_raw = b""
        self._tasks = Tasks(self._failed)

    async def start(self) -> None:
        """Fold the newest snapshot and everything after it up to the log's present end, then follow for ever.

        Raises:
            PermanentError: the log does not continue the snapshot, or holds what this build cannot read.
            TemporaryError: the bus is away, or the log has dropped what no snapshot holds.
        """
        target = await self._bus.last_seq(LOG.name)
        found = await find_snapshot(self._bus, target) if self._use_snapshots else None
        if found is not None:
            self.state, self._last_raw, self.restored_seq = found.state, found.raw, found.state.kept.seq
        elif not await is_whole(self._bus):
            raise TemporaryError(f"waiting for a snapshot: {CUT_ADVICE}")
        self._tasks.spawn(self._follow(), name="follower")
        await self.reached(target, timeout_s=None)
        self.caught_up = True

    async def stop(self) -> None:
        """Follow no more."""
        await self._tasks.close()

    def listen(self, callback: Callback) -> Callable[[], None]:
        """Call back after each folded message; gives the function that ends it. It must not raise."""
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback) if callback in self._callbacks else None

    @contextmanager
    def listening(self, callback: Callback) -> Iterator[None]:
        """The same for the length of a block."""
        end = self.listen(callback)
        try:
            yield
        finally:
            end()

    async def reached(self, seq: int, timeout_s: float | None = 5.0) -> None:
        """Wait until the message with this sequence is folded.

        Raises:
            TemporaryError: not within `timeout_s` (None waits for ever).
            PermanentError: the follower failed.
        """
        await self.wait_change(lambda: self.state.kept.seq >= seq, timeout_s)

    async def wait_change(self, predicate: Callable[[], bool], timeout_s: float | None = None) -> None:
        """Wait until the predicate holds; it is looked at after each batch of messages; errors as `reached`."""
        if predicate():
            return
        try:
            async with asyncio.timeout(timeout_s):
                while not predicate():
                    self.check()
                    await self._changed.wait()
        except TimeoutError:
            raise TemporaryError(f"the fold is at {self.state.kept.seq} and did not get further in time") from None

    def check(self) -> None:
        """Raise PermanentError when the follower cannot go on."""
        if self.failure is None:
            return
        kind = LogCutError if isinstance(self.failure, LogCutError) else PermanentError
        raise kind(f"the log cannot be followed any more: {self.failure}") from self.failure

    async def snapshot(self) -> int:
        """Write the state to the object store and drop old ones; gives its sequence. Called by the recorder.

        Raises:
            TemporaryError: the bus is away.
        """
        seq, data = encode(self.state, self._last_raw)
        if not seq or not self._last_raw:
            return 0
        objects = self._bus.objects(SNAPSHOTS)
        await objects.put(snapshot_name(seq), data)
        for name in (await objects.list())[:-SNAPSHOTS_KEPT]:
            await objects.delete(name)
        return seq

    # --- inside -------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        tail = self._bus.tail(LOG.name, self.state.kept.seq + 1)
        async for batch in tail.batches():
            self.resubscriptions = tail.resubscribed
            until = self._clock.monotonic_s() + FOLD_S_MAX
            for message in batch:
                self._fold(message)
                if self._clock.monotonic_s() > until:
                    self._wake()
                    await asyncio.sleep(0)
                    until = self._clock.monotonic_s() + FOLD_S_MAX
            self._wake()

    def _fold(self, stored: LogMessage) -> None:
        seq = stored.seq
        if seq != self.state.kept.seq + 1:
            lacks = f"log message {self.state.kept.seq + 1} is not there any more, the next one is {seq}"
            raise LogCutError(f"{lacks}: begin anew from a newer snapshot")
        message = self._read(stored)
        step = apply(self.state, message)
        self._last_raw = stored.data
        for alarm in step.alarms:
            self.alarms += 1
            log.warning("parked: %s", alarm)
        for callback in tuple(self._callbacks):
            callback(message, step)

    def _wake(self) -> None:
        """Wake everybody who waits, once; each looks for itself."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _failed(self, error: BaseException) -> None:
        log.error("the log cannot be followed any more", exc_info=error)
        self.failure = error
        self._wake()
        self._tell_failed(error)


class Found(Struct, frozen=True):
    """A snapshot that the log continues."""

    state: State
    raw: bytes
    """The stored message at its sequence."""


async def find_snapshot(bus: Bus, target: int) -> Found | None:
    """The newest snapshot that is whole, of our schema, of this very log, and that the log, up to `target`, continues.

    One that cannot be had, because the bus is away or slow, is passed over like one that is damaged.
    """
    objects = bus.objects(SNAPSHOTS)
    try:
        names = await objects.list()
    except TemporaryError as error:
        log.warning("no snapshot is used: %s", error)
        return None
    for name in reversed(names):
        try:
            head, state = decode(await objects.get(name) or b"")
            stored = await bus.message_at(LOG.name, head.seq)
            goes_on = head.seq >= target or await bus.message_at(LOG.name, head.seq + 1) is not None
        except (SnapshotError, PermanentError, TemporaryError) as error:
            log.warning("snapshot %s is skipped: %s", name, error)
            continue
        if head.seq > target or (stored is not None and digest(stored) != head.message):
            log.warning("snapshot %s is skipped: it is not of this log", name)
        elif stored is None or not goes_on:
            log.warning("snapshot %s is skipped: the log has dropped what follows it", name)
        else:
            return Found(state=state, raw=stored)
    return None


async def is_whole(bus: Bus) -> bool:
    """True while the log has dropped nothing, so that it can be folded from its first message on."""
    state = (await bus.stream_info(LOG.name)).state
    return state.messages == state.last_seq


class SnapshotError(Exception):
    """Bytes that are no snapshot this build can use."""


def encode(state: State, last_raw: bytes) -> tuple[int, bytes]:
    """Sequence and bytes of a snapshot of the state, whose last folded message was `last_raw`."""
    body = encode_snapshot(state)
    head = SnapshotHead(v=SCHEMA_VERSION, seq=state.kept.seq, message=digest(last_raw), body=digest(body))
    return state.kept.seq, msgspec.json.encode(head) + b"\n" + body


def decode(data: bytes) -> tuple[SnapshotHead, State]:
    """Head and state of a snapshot.

    Raises:
        SnapshotError: damaged, or of a newer schema.
    """
    line, _, body = data.partition(b"\n")
    try:
        head = msgspec.json.decode(line, type=SnapshotHead)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SnapshotError(f"no snapshot: {error}") from error
    if head.v > SCHEMA_VERSION:
        raise SnapshotError(f"schema {head.v} is newer than ours ({SCHEMA_VERSION})")
    if digest(body) != head.body:
        raise SnapshotError("damaged: the digest does not fit")
    try:
        return head, decode_snapshot(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SnapshotError(f"does not fit this build: {error}") from error


def snapshot_name(seq: int) -> str:
    """Name that sorts by sequence."""
    return f"{seq:020d}"


def digest(data: bytes) -> str:
    """What a snapshot remembers bytes by."""
    return sha256(data).hexdigest()[:32]
