"""The shell around the decision log: follows the log with a fold of its own, archives, publishes, answers.

The recorder keeps its own state, in step with its archive and not with the process's shared fold, because it must say
what each message changed even for messages that came while it was away.
"""

import asyncio
import logging
from pathlib import Path

from gangline_core.fold import apply
from gangline_core.job import ENDS, JobState
from gangline_core.state import State, decode_snapshot, encode_snapshot
from gangline_core.step import Step
from gangline_kit.bus import Record
from gangline_kit.errors import TemporaryError
from gangline_kit.service import Site
from gangline_recorder.archive import Archive, lines
from gangline_recorder.config import Config
from gangline_recorder.events import public_events
from gangline_wire import streams, subjects
from gangline_wire.codec import CodecError, decode, encode, message
from gangline_wire.requests import Denied, EventLine, History, JobHistory

log = logging.getLogger(__name__)

HISTORY_EVENTS_MAX = 2_000
"""Most events one history answer holds."""
UNPUBLISHED_MAX = 10_000
"""Events waiting for the feed; when it is full the recorder stops reading the log until the feed takes more."""
WINDOW_MAX = 256
"""Events in flight to the feed at once."""
SNAPSHOT_NAME = "state.json"


async def run(site: Site, config: Config) -> None:
    """Record until cancelled. Two recorders never share an archive folder; the feed drops what both publish."""
    await Recorder(site, config).run()


class Recorder:
    """Archive, feed and history of one log."""

    def __init__(self, site: Site, config: Config) -> None:
        """A recorder on the folder named by the configuration."""
        self.site = site
        self.config = config
        self.folder = Path(config.archive_dir)
        self.archive = Archive(self.folder, segment_bytes=config.segment_bytes)
        self.state = State()
        self.feed: asyncio.Queue[EventLine] = asyncio.Queue(UNPUBLISHED_MAX)
        self.since_snapshot = 0

    async def run(self) -> None:
        """Catch up from the archive, then follow the log."""
        await asyncio.to_thread(self._refold)
        serving = await self.site.bus.serve(subjects.API_HISTORY, self.answer)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._follow())
                group.create_task(self._publish())
                group.create_task(self._sync())
        finally:
            await serving.stop()
            self.archive.close()

    def _refold(self) -> None:
        """Bring the state to the archive's end: newest local snapshot, then the lines after it."""
        self.state = self._local_snapshot() or State()
        for line in lines(self.folder, after=self.state.kept.seq):
            apply(self.state, message(line.seq, line.data.encode()))
        if self.state.kept.digest != self.archive.digest:
            raise CodecError(f"the archive's hash chain ends in {self.archive.digest}, its fold in another")

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

    async def _follow(self) -> None:
        async for stored in self.site.bus.read(streams.LOG.name, self.archive.seq + 1):
            entry = message(stored.seq, stored.data)
            step = apply(self.state, entry)
            self.archive.append(stored.seq, at=entry.at, data=stored.data)
            self.archive.flush()
            for alarm in step.alarms:
                log.error("an event did not belong", extra={"alarm": alarm})
            self._trace(step)
            for event in public_events(self.state, entry, step):
                await self.feed.put(event)
            self.site.metrics.count("gangline_archive_messages_total")
            self.site.metrics.count("gangline_archive_bytes_total", len(stored.data))
            await self._maybe_snapshot()

    def _trace(self, step: Step) -> None:
        """Phases of jobs that are over now, in each job's own trace."""
        for moved in step.moves:
            job = self.state.job(moved.job)
            if job is None or not job.trace:
                continue
            if moved.after in ENDS:
                self.site.tracing.phase("job", job.trace, start_ms=job.submitted_ms, end_ms=step.at, job=job.id)
            if moved.after == JobState.STOPPING and job.started_ms:
                self.site.tracing.phase("run", job.trace, start_ms=job.started_ms, end_ms=step.at, job=job.id)

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
                await asyncio.to_thread(self.archive.sync)

    async def _maybe_snapshot(self) -> None:
        self.since_snapshot += 1
        if self.since_snapshot < self.config.snapshot_messages:
            return
        self.since_snapshot = 0
        data = encode_snapshot(self.state)
        await asyncio.to_thread(_write_whole, self.folder / SNAPSHOT_NAME, data)
        try:
            await self.site.follower.snapshot()
        except TemporaryError as error:
            log.warning("no snapshot for others this time: %s", error)

    async def answer(self, data: bytes, headers: dict[str, str]) -> bytes:
        """Tell a job's story from the public feed."""
        try:
            asked = decode(data, JobHistory)
        except CodecError as error:
            return encode(Denied(kind="invalid", message=str(error)))
        events: list[EventLine] = []
        subject = f"{subjects.EVENTS}.*.{asked.job}.*"
        async for stored in self.site.bus.read_subject(streams.EVENTS.name, subject, 1, follow=False):
            events.append(decode(stored.data, EventLine))
            if len(events) >= HISTORY_EVENTS_MAX:
                break
        return encode(History(events=tuple(events)))


def _subject(event: EventLine) -> str:
    return subjects.event(event.group, job=event.job, name=event.event)


def _write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a crash leaves the old one or the new one."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(data)
    fresh.chmod(0o600)
    fresh.replace(path)
