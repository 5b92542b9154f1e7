"""The shell around the door: gathers requests, has the core judge them, appends the facts, answers after the append."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from gangline_admission.bootstrap import first_facts
from gangline_admission.config import Config
from gangline_admission.judge import judge
from gangline_admission.vault import Vault
from gangline_admission.verdict import Verdict
from gangline_admission.waiting import Pending, WaitingRoom
from gangline_core.door.draft import Draft
from gangline_core.facts import Fact, JobAdmitted, JobRejected
from gangline_kit.errors import LaneConflictError, StreamFullError, TemporaryError, TooLargeError
from gangline_kit.lane import Lane
from gangline_kit.leader import lead
from gangline_kit.moment import Moment
from gangline_kit.service import Site
from gangline_wire import streams, subjects
from gangline_wire.codec import CodecError, decode, encode
from gangline_wire.requests import (
    Admitted,
    CancelJob,
    Denied,
    Done,
    Reply,
    Request,
    SetHold,
    SubmitJobs,
    Unavailable,
)

log = logging.getLogger(__name__)

PENDING_MAX = 4_000
"""Requests that may wait for judgement; further ones are told to come back."""
JOB_REQUESTS = SubmitJobs | CancelJob | SetHold
JOBS_MAX = 2_000
"""Most jobs judged into one append."""
NO_ROOM = "there is no room now for the values that the job is given in secret; ended jobs give theirs back"
NO_ROOM_RETRY_S = 5.0
BYTES_MAX = streams.MESSAGE_BYTES_MAX // 2
"""Most request bytes judged into one append, so that the batch fits a message."""


async def run(site: Site, config: Config) -> None:
    """Lead (or stand by for) the door until cancelled."""
    await lead(site, "admission", Door(site, config).work)


class Door:
    """Judges requests while it leads; one append is in flight at a time."""

    def __init__(self, site: Site, config: Config) -> None:
        """A door; it serves requests and writes only inside `work`."""
        self.site = site
        self.config = config
        self.vault = Vault(site)
        self.waiting = WaitingRoom()
        self.answered = 0
        """How many requests were answered together last time."""

    async def work(self, lane: Lane) -> None:
        """Answer requests for as long as this process leads."""
        facts = first_facts(self.site.follower.state, self.config, self.site.ids)
        if facts:
            await lane.append(facts)
        self.vault.begin(lane.epoch)
        shredding = self.site.tasks.spawn(self.vault.shred(), name="shred secrets")
        serving = await self.site.bus.serve(subjects.API_ADMISSION, self.receive)
        try:
            with self.site.follower.listening(self.vault.note):
                await self._judge_for_ever(lane)
        finally:
            shredding.cancel()
            await serving.stop()
            self._turn_away()

    def receive(self, data: bytes, headers: dict[str, str]) -> asyncio.Future[bytes]:
        """One request in, its answer out; the answer waits for the append."""
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        try:
            request: Request = decode(data, Request)  # type: ignore[arg-type]  # a union is a valid msgspec type
        except CodecError as error:
            answer.set_result(encode(Denied(kind="invalid", message=str(error))))
            return answer
        if len(self.waiting) >= PENDING_MAX:
            refusal = Unavailable(retry_after_s=1.0, message="the door has too many requests waiting")
            answer.set_result(encode(refusal))
            return answer
        self.waiting.add(Pending(request=request, size=len(data), answer=answer))
        return answer

    async def _judge_for_ever(self, lane: Lane) -> None:
        while True:
            batch = await self._gather()
            # The moment written into the message is the one judged at: a replay judges with what it reads.
            now = self.site.moment()
            verdicts = self._judge(batch, now.at)
            try:
                while (place := await self._first_without_room(verdicts)) is not None:
                    # Whoever finds no room is told, and the others are judged anew.
                    await self.vault.take_back(verdicts)
                    _answer(batch.pop(place), Unavailable(retry_after_s=NO_ROOM_RETRY_S, message=NO_ROOM))
                    now = self.site.moment()
                    verdicts = self._judge(batch, now.at)
                await self._store(lane, verdicts, now, stored=partial(_answer_all, batch, verdicts))
            except LaneConflictError:
                await self.vault.take_back(verdicts)
                raise
            except TemporaryError as error:
                log.warning("could not append", extra={"error": str(error)})
                await self.vault.take_back(verdicts)
                for pending in batch:
                    _answer(pending, Unavailable(retry_after_s=1.0, message=str(error)))
                continue
            except TooLargeError as error:
                # Only a batch of one can be: it is answered, and those behind it are judged.
                log.warning("a request is more than the log takes", extra={"error": str(error)})
                await self.vault.take_back(verdicts)
                for pending in batch:
                    _answer(pending, Denied(kind="too_large", message=str(error)))
                continue
            self.vault.entered(verdicts)
            self._trace(batch, now.at)
            self._count(verdicts)

    async def _first_without_room(self, verdicts: Sequence[Verdict]) -> int | None:
        """Keep what jobs were given in secret; tells for which verdict there is no room, or None.

        Raises:
            TemporaryError: the bus is away.
        """
        for place, verdict in enumerate(verdicts):
            try:
                if verdict.secrets:
                    await self.vault.keep(verdict)
            except StreamFullError as error:
                log.warning("no room for what a job was given in secret", extra={"error": str(error)})
                return place
        return None

    def _trace(self, batch: Sequence[Pending], began_ms: int) -> None:
        """Judging and storing, in the trace of each submit."""
        for pending in batch:
            if isinstance(pending.request, SubmitJobs) and pending.request.trace:
                self.site.tracing.phase("admit", pending.request.trace, start_ms=began_ms, end_ms=self.site.now_ms())

    async def _gather(self) -> list[Pending]:
        """What is judged together: all that waits, and for a few milliseconds those who are expected.

        Clients that wait for their answers come back together. Expected are those just answered, and those who came
        meanwhile; so a crowd shares one append, and one client alone waits for nobody.
        """
        expected = self.answered + len(self.waiting)
        await self.waiting.filled(1)
        if len(self.waiting) < expected:
            await self.waiting.filled(expected, within_s=self.config.gather_ms / 1000)
        batch: list[Pending] = []
        jobs = size = 0
        while self.waiting and jobs < JOBS_MAX and (not batch or size + self.waiting.next_size <= BYTES_MAX):
            pending = self.waiting.take()
            batch.append(pending)
            jobs += _jobs(pending.request)
            size += pending.size
            # An edit of settings ends its batch: whatever comes after it is judged on a state that holds it.
            if not isinstance(pending.request, JOB_REQUESTS):
                break
        self.answered = len(batch)
        return batch

    def _judge(self, batch: Sequence[Pending], now: int) -> list[Verdict]:
        """Later requests of a batch see what earlier ones changed, through the draft."""
        draft = Draft()
        return [judge(self.site.follower.state, draft, pending.request, now) for pending in batch]

    async def _store(
        self, lane: Lane, verdicts: Sequence[Verdict], now: Moment, *, stored: Callable[[int], None]
    ) -> None:
        """Append what was decided; `stored` hears the sequence once it is durable, while the fold still takes it."""
        facts: list[Fact] = [fact for verdict in verdicts for fact in verdict.facts]
        if not facts:
            stored(0)
            return
        await lane.append(tuple(facts), now, stored=stored)

    def _count(self, verdicts: Sequence[Verdict]) -> None:
        facts = [fact for verdict in verdicts for fact in verdict.facts]
        for group, count in Counter(fact.spec.group for fact in facts if isinstance(fact, JobAdmitted)).items():
            self.site.metrics.count("gangline_jobs_admitted_total", count, group=group)
        for fact in facts:
            if isinstance(fact, JobRejected):
                self.site.metrics.count("gangline_jobs_rejected_total", reason=fact.reason.code.value)

    def _turn_away(self) -> None:
        """We lead no more: whoever waits asks the next leader. Nothing unanswered was promised."""
        while self.waiting:
            _answer(self.waiting.take(), Unavailable(retry_after_s=0.2, message="the door changed hands"))


def _jobs(request: Request) -> int:
    return len(request.jobs) if isinstance(request, SubmitJobs) else 1


def _answer(pending: Pending, reply: Reply) -> None:
    if not pending.answer.done():
        pending.answer.set_result(encode(reply))


def _answer_all(batch: Sequence[Pending], verdicts: Sequence[Verdict], seq: int) -> None:
    """All that was judged together is in the log; whoever reads on waits for its own fold to have this sequence."""
    for pending, verdict in zip(batch, verdicts, strict=True):
        _answer(pending, _with_seq(verdict.reply, seq))


def _with_seq(reply: Reply, seq: int) -> Reply:
    return replace(reply, seq=seq) if isinstance(reply, Admitted | Done) and reply.seq == 0 else reply
