"""What owners are told of their jobs: an event per change of reason, and annotations with the number and the reason."""

import logging
from typing import Any

from gangline_core.counted import counted
from gangline_core.door.arrays import label
from gangline_core.fold import Message
from gangline_core.ids import JobId
from gangline_core.job import Job
from gangline_core.state import State
from gangline_core.step import Step
from gangline_kit.errors import TemporaryError
from gangline_kit.service import Site
from gangline_kubernetes.api import Api, RefusedError
from gangline_kubernetes.config import Config
from gangline_kubernetes.desk import by
from gangline_kubernetes.due import Due
from gangline_kubernetes.happenings import WARNINGS, Happenings
from gangline_kubernetes.objects import OwnerObject
from gangline_kubernetes.owner_kinds import OwnerKind
from gangline_kubernetes.owner_writes import OwnerWriter
from gangline_kubernetes.owners import Owners
from gangline_kubernetes.ownership import LABEL_OWNER
from gangline_kubernetes.statuses import made_way, message_of, word_of

log = logging.getLogger(__name__)

NOTE_NUMBER = "gangline.dev/job-number"
"""Annotation of an owner: the number of its job, as `gangline show` takes it."""
NOTE_REASON = "gangline.dev/reason"
"""Annotation of an owner: why its job stands where it stands, as a word and a sentence."""
TICK_S = 0.25
SAME_WORD_S = 60.0
"""A sentence whose word stays the same is written again, for its numbers, at most this often."""
REASON_CHARS_MAX = 1_000
WRITES_MAX = 20
"""Owners that are told at the same time."""


class OwnerWords:
    """Tells owners; one that cannot be told now is told with the next change."""

    def __init__(self, site: Site, config: Config, api: Api, owners: Owners) -> None:
        """Nobody was told yet."""
        self._site = site
        self._by = by(config.cluster)
        self._owners = owners
        self._writer = OwnerWriter(api)
        self._happenings = Happenings(site, api)
        self._due = Due(site.clock, self._handle, name="tell owner of", tick_s=TICK_S, most=WRITES_MAX)
        self._told: dict[JobId, tuple[str, float]] = {}
        """Word and time of what each owner was told last."""
        self._preemptions: dict[JobId, int] = {}

    @property
    def state(self) -> State:
        """The fold."""
        return self._site.follower.state

    def note(self, message: Message, step: Step) -> None:
        """The log knows something new: jobs moved, or were looked at and wait for a reason."""
        for moved in step.moves:
            self._touch(moved.job)
        for pool in dict.fromkeys((*step.rounds, *step.decided)):
            for name in self.state.waiting.get(pool, ()):
                self._touch(name)

    def take_over(self) -> None:
        """Look at the jobs of all owners once."""
        for name in self.state.kept.jobs:
            self._touch(name)

    def _touch(self, name: JobId) -> None:
        job = self.state.job(name)
        if job is not None and LABEL_OWNER in job.spec.labels and job.submitted_by == self._by:
            self._due.soon(name)

    async def work_for_ever(self) -> None:
        """Tell every owner about whose job something is new."""
        await self._due.work_for_ever()

    async def _handle(self, name: JobId) -> None:
        try:
            await self._tell(name)
        except (RefusedError, TemporaryError) as error:
            log.info("the owner of job %s was not told: %s", name, error)

    async def _tell(self, name: JobId) -> None:
        job = self.state.job(name)
        known = self._owners.objects.get(job.spec.labels[LABEL_OWNER]) if job is not None else None
        if job is None or known is None or known[1].metadata.deletion_timestamp:
            self._told.pop(name, None)
            self._preemptions.pop(name, None)
            return
        kind, found = known
        notes = notes_of(self.state, job)
        word, said = word_of(job), {key: found.metadata.annotations.get(key, "") for key in notes}
        now_s = self._site.clock.monotonic_s()
        told, told_s = self._told.get(name, (said[NOTE_REASON].partition(":")[0], now_s - SAME_WORD_S))
        if told == word and (said == notes or now_s - told_s < SAME_WORD_S):
            return
        is_news = told != word or said[NOTE_NUMBER] != notes[NOTE_NUMBER]
        self._told[name] = (word, now_s)
        await self._writer.change(kind, found, lambda _: {"metadata": {"annotations": notes}})
        if is_news:
            await self._event(kind, found, job)

    async def _event(self, kind: OwnerKind, found: OwnerObject, job: Job) -> None:
        word, about = word_of(job), (kind.group_version, kind.name)
        made_room = job.preemptions > self._preemptions.get(job.id, 0) or word == "Preempted"
        self._preemptions[job.id] = job.preemptions
        if job.yielded_to and made_room:
            await self._happenings.tell(
                found.metadata,
                "Preempted",
                made_way(self.state, job),
                is_warning=True,
                related=f"job {label(self.state, job.yielded_to[-1])}",
                kind=about,
            )
        if word != "Preempted":
            name = label(self.state, job.id)
            placed = f"job {name}, attempt {job.attempt}, {counted(len(job.tasks), 'task')}"
            message = message_of(self.state, job) or placed
            await self._happenings.tell(found.metadata, word, message, is_warning=word in WARNINGS, kind=about)


def notes_of(state: State, job: Job) -> dict[str, Any]:
    """The annotations that an owner of this job bears."""
    word, message = word_of(job), message_of(state, job)
    text = f"{word}: {message}" if message else word
    return {NOTE_NUMBER: str(job.id), NOTE_REASON: text[:REASON_CHARS_MAX]}
