"""What bounds the log: its beginning is dropped once the archive has it on disk and two snapshots are past it.

The recorder does it, because it alone knows what the archive holds. Dropped is at most what is older than the time to
keep, or, when the log is fuller than it may be, all that nobody needs to begin with. The newest message of each lane
always stays: its sequence is what the lane's writer says it expects.
"""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from gangline_core.fold import apply, chain
from gangline_core.state import State
from gangline_kit.bus import Bus
from gangline_kit.bus.jetstream import StreamInfo
from gangline_kit.errors import PermanentError, TemporaryError
from gangline_kit.follower import SnapshotError, decode, digest, encode, find_snapshot, is_whole, snapshot_name
from gangline_recorder.archive import Archive, BrokenArchiveError, last_seq, lines, segments
from gangline_recorder.config import Config
from gangline_wire.archive import ArchiveLine
from gangline_wire.streams import LOG, SNAPSHOTS

log = logging.getLogger(__name__)

SNAPSHOTS_LEAST = 2
"""So many snapshots must be past the cut, so that one may be damaged."""


class Cut(Struct, frozen=True):
    """What was dropped: messages up to `seq`, of which the archive's chain then stood at `head`."""

    seq: int
    head: str


class Cutter:
    """Decides how much of the log may go, proves it, and lets it go."""

    def __init__(self, bus: Bus, archive: Archive, config: Config) -> None:
        """Nothing is dropped before `cut`."""
        self._bus = bus
        self._archive = archive
        self._config = config
        self._cut_seq = 0
        """So far this process has looked; what is older it need not prove again."""

    async def cut(self, now_ms: int) -> Cut | None:
        """Drop what may go; None when nothing may.

        Raises:
            TemporaryError: the bus is away; what was not dropped is dropped next time.
            BrokenArchiveError, OSError: the archive does not have what it should; nothing was dropped.
        """
        info = await self._bus.stream_info(LOG.name)
        is_too_full = self._is_too_full(info)
        wanted = info.state.last_seq if is_too_full else await asyncio.to_thread(self._older_than, now_ms)
        begin = max(info.state.first_seq, self._cut_seq)
        if wanted <= begin:
            return None
        await asyncio.to_thread(self._archive.sync)
        seq = min(wanted, self._archive.synced_seq, await self._before_snapshots())
        if seq <= begin:
            return None
        line = await asyncio.to_thread(proven, self._archive.folder, begin, seq)
        stored = await self._bus.message_at(LOG.name, seq)
        if stored is not None and stored != line.raw:
            raise BrokenArchiveError(f"message {seq} of the archive is not that of the log: nothing is dropped")
        if stored is not None:
            await self._bus.drop_until(LOG.name, seq)
        self._cut_seq = seq
        log.info("the log begins after %d now; the archive has what went before, up to the chain's %s", seq, line.hash)
        return Cut(seq=seq, head=line.hash)

    async def is_needed(self) -> bool:
        """True while the log is fuller than it may be; errors as `cut`."""
        return self._is_too_full(await self._bus.stream_info(LOG.name))

    def _is_too_full(self, info: StreamInfo) -> bool:
        bytes_max = int(info.config.get("max_bytes", -1))
        return bytes_max > 0 and info.state.bytes >= self._config.log_fill_max * bytes_max

    async def _before_snapshots(self) -> int:
        """The last message that two whole snapshots of this log do without; 0 when there are no two."""
        objects = self._bus.objects(SNAPSHOTS)
        sequences = []
        for name in (await objects.list())[-SNAPSHOTS_LEAST:]:
            try:
                head, _ = await asyncio.to_thread(decode, await objects.get(name) or b"")
            except SnapshotError as error:
                log.warning("nothing is dropped: snapshot %s: %s", name, error)
                return 0
            stored = await self._bus.message_at(LOG.name, head.seq)
            if stored is None or digest(stored) != head.message:
                return 0
            sequences.append(head.seq)
        return min(sequences) - 1 if len(sequences) == SNAPSHOTS_LEAST else 0

    def _older_than(self, now_ms: int) -> int:
        """The last message that is too old to be kept, to within a segment of the archive."""
        limit_ms = now_ms - round(self._config.log_keep_s * 1000)
        found = 0
        for path in segments(self._archive.folder):
            first = next(iter(lines(path.parent, only=path)), None)
            if first is None or first.at > limit_ms:
                break
            found = first.seq - 1
        return found


def proven(folder: Path, begin: int, until: int) -> ArchiveLine:
    """The line of message `until`, when the archive on disk has every message from `begin` to it, linked one by one.

    Raises:
        BrokenArchiveError: it does not.
    """
    anchor = max(begin - 1, 1)
    before: ArchiveLine | None = None
    for line in _upto(lines(folder, after=anchor - 1), until):
        expected = anchor if before is None else before.seq + 1
        if line.seq != expected:
            raise BrokenArchiveError(f"the archive has {line.seq} where {expected} should be: nothing is dropped")
        # The message before the first to be dropped is only where the chain goes on from; that of the log begins empty.
        is_anchor = before is None and anchor > 1
        if not is_anchor and chain(before.hash if before else "", line.raw, line.note) != line.hash:
            raise BrokenArchiveError(f"the archive's chain breaks at {line.seq}: nothing is dropped")
        before = line
    if before is None or before.seq != until:
        raise BrokenArchiveError(f"the archive does not reach {until}: nothing is dropped")
    return before


def _upto(found: Iterator[ArchiveLine], until: int) -> Iterator[ArchiveLine]:
    for line in found:
        if line.seq > until:
            return
        yield line


async def rescue(bus: Bus, folder: Path) -> None:
    """Where a log without its beginning has no snapshot that reaches it, make one of the archive.

    It is done before this process folds the log, which needs it as everybody does.

    Raises:
        PermanentError: the log ends before the archive: nothing may be added to what is left of it.
        TemporaryError: the bus is away, or the archive does not help; who to ask is said.
    """
    end = await bus.last_seq(LOG.name)
    archived = await asyncio.to_thread(last_seq, folder)
    if end < archived:
        raise PermanentError(lost_data(end, archived))
    if await is_whole(bus) or await find_snapshot(bus, end) is not None:
        return
    state, raw = await asyncio.to_thread(_fold, folder)
    seq = state.kept.seq
    if not seq or not await _reaches(bus, seq, raw, end):
        raise TemporaryError(beyond_reach(seq), retry_after_s=5.0)
    _, data = encode(state, raw)
    await bus.objects(SNAPSHOTS).put(snapshot_name(seq), data)
    log.warning("no snapshot reached what the log still has; made one of the archive at %d", seq)


async def _reaches(bus: Bus, seq: int, raw: bytes, end: int) -> bool:
    """The archive's last message is still in the log, and the next one is, too."""
    if await bus.message_at(LOG.name, seq) != raw:
        return False
    return seq >= end or await bus.message_at(LOG.name, seq + 1) is not None


def lost_data(end: int, archived: int) -> str:
    """What to do about a log that ends before its archive."""
    return (
        f"the log ends at {end} but its archive at {archived}: the log lost data; bring back the server's files, "
        "or put the archive aside to begin anew without what it tells"
    )


def beyond_reach(seq: int) -> str:
    """What to do about an archive that ends before the log begins."""
    return (
        f"the archive ends at {seq}, and the log has dropped what comes next: put a copy of the archive that reaches "
        "further into its folder"
    )


def _fold(folder: Path) -> tuple[State, bytes]:
    """The state at the archive's end, and the message there."""
    state, raw = State(), b""
    for line in lines(folder) if folder.is_dir() else ():
        raw = line.raw
        apply(state, line.message)
    return state, raw
