"""The shell around the decision log: goes along with the fold, archives, publishes, answers.

What each message changed is told for messages, too, that came while the recorder was away: from the archive's end it
folds on by itself until it meets the process's fold, and goes along with that one from there. What it had archived
and not yet told when it died, it finds by comparing the end of the feed with the archive, and tells then.
"""

import asyncio
import contextlib
import logging
from collections import deque
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.fold import Message, apply
from gangline_core.job import ENDS, Job, JobState
from gangline_core.state import State, decode_snapshot, encode_snapshot
from gangline_core.step import Step
from gangline_kit.bus import Record
from gangline_kit.errors import PermanentError, TemporaryError
from gangline_kit.follower import as_message, find_snapshot, is_whole
from gangline_kit.service import Site
from gangline_recorder.archive import Archive, BrokenArchiveError, Opened, lines
from gangline_recorder.config import Config
from gangline_recorder.cutting import Cutter, beyond_reach, lost_data
from gangline_recorder.events import public_events
from gangline_recorder.history import Teller
from gangline_recorder.told import Told, read_told
from gangline_wire import streams, subjects
from gangline_wire.codec import CodecError, encode
from gangline_wire.requests import EventLine

log = logging.getLogger(__name__)

UNPUBLISHED_MAX = 10_000
"""Events waiting for the feed; when it is full the recorder writes no more until the feed takes some."""
BACKLOG_MAX = 20_000
"""Messages waiting to be written; beyond these the recorder lets go of the fold and reads them again later."""
WINDOW_MAX = 256
"""Events in flight to the feed at once."""
RETOLD_MAX = 100_000
"""Most events that are told late, after a recorder died; the feed itself keeps not much more."""
DISK_RETRY_S = 1.0
RELIEF_S = 10.0
"""How often it is looked whether the log is fuller than it may be."""
SNAPSHOT_NAME = "state.json"


async def run(site: Site, config: Config, *, opened: Opened | None = None) -> None:
    """Record until cancelled. Two recorders never share an archive folder; the feed drops what both publish.

    `opened` is the disk of the archive, when it is not the machine's.
    """
    await Recorder(site, config, opened).run()


class Entry(Struct, frozen=True):
    """One folded message and what it did."""

    message: Message
    alarms: tuple[str, ...]
    events: tuple[EventLine, ...]


class Recorder:
    """Archive, feed and history of one log."""

    def __init__(self, site: Site, config: Config, opened: Opened | None = None) -> None:
        """A recorder on the folder named by the configuration."""
        self.site = site
        self.config = config
        self.folder = Path(config.archive_dir)
        self.archive = Archive(self.folder, segment_bytes=config.segment_bytes, opened=opened)
        self.told: Told | None = None
        """What the feed had when this process began; None once what it lacked is on its way to it."""
        self.disk_error: OSError | None = None
        """Why the archive could not be made safe."""
        self.backlog: deque[Entry] = deque()
        """What the process's fold has shown and the archive does not have yet."""
        self.grown = asyncio.Event()
        self.is_behind = False
        """Something was not taken into the backlog."""
        self.feed: asyncio.Queue[EventLine] = asyncio.Queue(UNPUBLISHED_MAX)
        self.since_snapshot = self.since_snapshot_bytes = 0
        self.saved_seq = 0
        self.cutter = Cutter(site.bus, self.archive, config)

    async def run(self) -> None:
        """Catch up from the archive, then follow the log."""
        serving = await self.site.bus.serve(subjects.API_HISTORY, Teller(self.site.bus).answer)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._follow())
                group.create_task(self._publish())
                group.create_task(self._sync())
                group.create_task(self._guard())
                group.create_task(self._relieve())
        finally:
            await serving.stop()
            try:
                self.archive.close()
            except OSError as error:
                log.error("the archive's end was not written, the log keeps it: %s", error)

    # --- the log ------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Record for ever; begins anew when the disk or the feed fell too far behind, or the disk took no more."""
        self.told = await self._what_was_told()
        while True:
            try:
                await self._follow_once()
            except OSError as error:
                log.error("the archive cannot be written, the log keeps what it lacks: %s", error)
                self.site.not_ready["archive"] = str(error)
                await self._reopen()

    async def _reopen(self) -> None:
        """Try the disk until it takes what is cut off at the archive's end."""
        while True:
            await self.site.clock.sleep(DISK_RETRY_S)
            self.disk_error = None
            try:
                return await asyncio.to_thread(self.archive.reopen)
            except OSError as error:
                log.warning("the archive cannot be opened: %s", error)

    async def _what_was_told(self) -> Told:
        while True:
            try:
                return await read_told(self.site.bus, window=WINDOW_MAX)
            except TemporaryError as error:
                await self.site.clock.sleep(error.retry_after_s)

    async def _follow_once(self) -> None:
        """From the archive's end on, until something falls behind; OSError when the disk takes no more."""
        follower = self.site.follower
        state, untold = await asyncio.to_thread(self._refold, self.told)
        for event in untold:
            await self.feed.put(event)
        await self._wait_for_the_fold()
        self.backlog.clear()
        self.is_behind = False
        meeting = follower.state.kept.seq, follower.state.kept.digest
        with follower.listening(self.note):
            await self._catch_up(state, *meeting)
            self.told = None
            del state
            await self._go_along()

    def _refold(self, told: Told | None) -> tuple[State, list[EventLine]]:
        """The state at the archive's end, and the archived events that the feed lacks.

        Begins with the newest local snapshot, unless that is from after something that is to be told.
        """
        snapshot = self._local_snapshot()
        if told is not None and snapshot is not None and told.may_lack(snapshot.kept.seq):
            snapshot = None
        state = snapshot or State()
        untold: deque[EventLine] = deque(maxlen=RETOLD_MAX)
        for line in lines(self.folder, after=state.kept.seq):
            entry = line.message
            step = apply(state, entry)
            if told is not None and told.may_lack(line.seq):
                untold.extend(event for event in public_events(state, entry, step) if told.lacks(event.id))
        if state.kept.digest != self.archive.digest:
            raise CodecError(f"the archive's hash chain ends in {self.archive.digest}, its fold in another")
        return state, list(untold)

    def _local_snapshot(self) -> State | None:
        path = self.folder / SNAPSHOT_NAME
        try:
            state = decode_snapshot(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            log.warning("snapshot is not usable, folding the whole archive", extra={"error": str(error)})
            return None
        return state if state.kept.seq <= self.archive.seq else None

    async def _wait_for_the_fold(self) -> None:
        """The process's fold may have begun with a snapshot from before the archive's end.

        Raises:
            PermanentError: the log ends before the archive does.
        """
        while self.site.follower.state.kept.seq < self.archive.seq:
            try:
                await self.site.follower.reached(self.archive.seq)
            except TemporaryError as error:
                log.warning("waiting for the fold: %s", error)
                with contextlib.suppress(TemporaryError):
                    last = await self.site.bus.last_seq(streams.LOG.name)
                    if last < self.archive.seq:
                        raise PermanentError(lost_data(last, self.archive.seq)) from None

    async def _has_log(self, seq: int) -> bool:
        """Whether the log still has this message; asked until the bus answers."""
        while True:
            try:
                return await self.site.bus.message_at(streams.LOG.name, seq) is not None
            except TemporaryError as error:
                await self.site.clock.sleep(error.retry_after_s)

    async def _catch_up(self, state: State, until: int, digest: str) -> None:
        """Fold and record what the archive lacks of the log that the process has folded already.

        Raises:
            PermanentError: the archive is of another log.
        """
        if state.kept.seq < until:
            if not await self._has_log(state.kept.seq + 1):
                raise PermanentError(beyond_reach(state.kept.seq))
            async for stored in self.site.bus.read_subject(streams.LOG.name, "", state.kept.seq + 1, follow=False):
                if stored.seq <= until:
                    entry = as_message(stored)
                    await self._record(self._untold(self._seen(state, entry, apply(state, entry))), state)
        if state.kept.digest != digest:
            raise PermanentError(f"the archive in {self.folder} is of another log: their chains differ at {until}")

    def _untold(self, entry: Entry) -> Entry:
        """Without what the feed has: it may know more than an archive whose end was lost."""
        told = self.told
        if told is None:
            return entry
        return replace(entry, events=tuple(event for event in entry.events if not told.has(event.id)))

    def note(self, entry: Message, step: Step) -> None:
        """The process's fold went on."""
        if self.is_behind or len(self.backlog) >= BACKLOG_MAX:
            self.is_behind = True
            return
        self.backlog.append(self._seen(self.site.follower.state, entry, step))
        self.grown.set()

    def _seen(self, state: State, entry: Message, step: Step) -> Entry:
        """What is to be written of a message, from the state right after it."""
        for moved in step.moves:
            self._trace(state.job(moved.job), moved.after, at=step.at)
        return Entry(entry, tuple(step.alarms), tuple(public_events(state, entry, step)))

    def _trace(self, job: Job | None, after: JobState, *, at: int) -> None:
        """Phases of a job that are over now, in the job's own trace."""
        if job is None or not job.trace:
            return
        if after in ENDS:
            self.site.tracing.phase("job", job.trace, start_ms=job.submitted_ms, end_ms=at, job=job.id)
        if after == JobState.STOPPING and job.started_ms:
            self.site.tracing.phase("run", job.trace, start_ms=job.started_ms, end_ms=at, job=job.id)

    async def _go_along(self) -> None:
        """Record what the fold shows, until it shows too much; OSError when the disk takes no more."""
        self.site.not_ready.pop("archive", None)
        while self.backlog or not self.is_behind:
            await self.grown.wait()
            await self.site.clock.sleep(self.config.gather_ms / 1000)
            self.grown.clear()
            if self.disk_error is not None:
                raise self.disk_error
            while self.backlog:
                await self._record(self.backlog.popleft(), self.site.follower.state)
        log.warning("recording fell behind at log sequence %d", self.archive.seq)

    async def _record(self, entry: Entry, state: State) -> None:
        data = entry.message.raw
        self.archive.append(entry.message)
        if not self.backlog:
            self.archive.flush()
        for alarm in entry.alarms:
            log.error("an event did not belong", extra={"alarm": alarm})
        for event in entry.events:
            await self.feed.put(event)
        self.site.metrics.count("gangline_archive_messages_total")
        self.site.metrics.count("gangline_archive_bytes_total", len(data))
        self.since_snapshot += 1
        self.since_snapshot_bytes += len(data)
        await self._maybe_snapshot(state)

    # --- what becomes of it -------------------------------------------------------------------------------

    async def _publish(self) -> None:
        """Publish in windows, keyed by event id: a repeat inside the duplicate window is dropped by the stream."""
        while True:
            window = [await self.feed.get()]
            while not self.feed.empty() and len(window) < WINDOW_MAX:
                window.append(self.feed.get_nowait())
            await self._store(window)

    async def _store(self, window: list[EventLine]) -> None:
        """Repeat a window until the feed has it, with the pauses it asks for."""
        records = [Record(subject=_subject(event), data=encode(event), msg_id=event.id) for event in window]
        while True:
            try:
                await self.site.bus.append_all(records)
            except TemporaryError as error:
                await self.site.clock.sleep(error.retry_after_s)
            else:
                break
        self.site.metrics.count("gangline_events_published_total", len(window))

    async def _sync(self) -> None:
        while True:
            await self.site.clock.sleep(self.config.sync_s)
            if self.archive.is_unsynced:
                try:
                    await asyncio.to_thread(self.archive.sync)
                except OSError as error:
                    self.disk_error = error
                    self.grown.set()

    async def _maybe_snapshot(self, state: State) -> None:
        has_few = self.since_snapshot < self.config.snapshot_messages
        # A snapshot belongs to the archive's end, so it waits until nothing else does.
        if (has_few and self.since_snapshot_bytes < self.config.snapshot_bytes) or state.kept.seq != self.archive.seq:
            return
        self.since_snapshot = self.since_snapshot_bytes = 0
        data = encode_snapshot(state)
        try:
            await asyncio.to_thread(_write_whole, self.folder / SNAPSHOT_NAME, data)
            await self._save()
            await self._cut()
        except (OSError, TemporaryError) as error:
            log.warning("no snapshot for others this time: %s", error)

    async def _cut(self) -> None:
        """Let go of the log's beginning; errors as `Follower.snapshot`."""
        try:
            done = await self.cutter.cut(self.site.clock.now_ms())
        except BrokenArchiveError as error:
            self.site.not_ready["archive"] = str(error)
            log.error("%s", error)
            return
        if done is not None:
            self.site.metrics.set("gangline_log_cut_sequence", done.seq)

    async def _guard(self) -> None:
        """Whoever begins to fold a log without its beginning finds a snapshot, whatever became of those there were."""
        while True:
            await self.site.clock.sleep(self.config.guard_s)
            try:
                end = await self.site.bus.last_seq(streams.LOG.name)
                if not await is_whole(self.site.bus) and await find_snapshot(self.site.bus, end) is None:
                    log.warning(
                        "no snapshot reaches what the log still has; there is one at %d now", await self._save()
                    )
            except TemporaryError as error:
                log.warning("snapshots cannot be looked at: %s", error)

    async def _relieve(self) -> None:
        """A log that filled up before the next snapshot was due is let go of all the same, or nobody could write."""
        while True:
            await self.site.clock.sleep(RELIEF_S)
            try:
                if self.site.follower.state.kept.seq > self.saved_seq and await self.cutter.is_needed():
                    await self._save()
                    await self._cut()
            except (OSError, TemporaryError) as error:
                log.warning("the log is too full and cannot be cut: %s", error)

    async def _save(self) -> int:
        """A snapshot for everybody; gives its sequence."""
        self.saved_seq = await self.site.follower.snapshot()
        return self.saved_seq


def _subject(event: EventLine) -> str:
    return subjects.event(event.group, job=event.job, name=event.event)


def _write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a crash leaves the old one or the new one."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(data)
    fresh.chmod(0o600)
    fresh.replace(path)
