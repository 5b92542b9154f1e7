"""Objects with a queue's name that nobody made suspended: put to wait as soon as they are seen, and told so.

The chart's admission policy does this before an object exists, where the server has such policies; this is for all
other servers, and for what came in while the policy was not there.
"""

import logging
from datetime import UTC, datetime

import msgspec

from gangline_core.fold import Message
from gangline_core.ids import JobId
from gangline_core.state import State
from gangline_core.step import Step
from gangline_kit.errors import TemporaryError
from gangline_kit.service import Site
from gangline_kubernetes.adoption import said
from gangline_kubernetes.api import Api, RefusedError
from gangline_kubernetes.config import Config
from gangline_kubernetes.desk import Desk
from gangline_kubernetes.happenings import Happenings
from gangline_kubernetes.names import NOTE_GROUP, is_number
from gangline_kubernetes.objects import Meta, OwnerObject, Pod
from gangline_kubernetes.owner_kinds import (
    KINDS,
    LABEL_STOPPED,
    OwnerKind,
    is_finished,
    is_ours,
    is_suspended,
    parts_of,
    suspension,
)
from gangline_kubernetes.owner_words import NOTE_NUMBER
from gangline_kubernetes.owner_writes import OwnerWriter
from gangline_kubernetes.owners import Owners
from gangline_kubernetes.ownership import LABEL_OWNER

log = logging.getLogger(__name__)

WORDS = ("gangline.dev/queue", "kueue.x-k8s.io/queue-name")
"""Only these say that an object shall wait for its turn: other queue names are of schedulers that hold no objects."""
NAMES = frozenset(kind.name for kind in KINDS)
TICK_S = 1.0
FRESH_S = 300.0
"""An object that is older has done work that would be lost: it is left as it is, and told that it is in no queue."""


class OnSight:
    """Looks at every owner once per version."""

    def __init__(self, site: Site, config: Config, api: Api, *, desk: Desk, owners: Owners) -> None:
        """Nothing was seen yet."""
        self._site = site
        self._config = config
        self._desk = desk
        self._owners = owners
        self._writer = OwnerWriter(api)
        self._happenings = Happenings(site, api)
        self._seen: dict[str, str] = {}
        """Version of each owner that was looked at, by uid."""
        self._had_jobs: dict[str, None] = {}
        """Uids of owners that had a job: whoever let them go, it was not in passing."""
        self._pods: list[Pod] = []

    @property
    def _state(self) -> State:
        return self._site.follower.state

    def note(self, message: Message, step: Step) -> None:
        """The log knows new jobs of owners."""
        for moved in step.moves:
            self._learn(moved.job)

    def take_over(self) -> None:
        """Learn which owners had jobs."""
        for name in self._state.kept.jobs:
            self._learn(name)

    def _learn(self, name: JobId) -> None:
        job = self._state.job(name)
        if job is not None and (uid := job.spec.labels.get(LABEL_OWNER, "")):
            self._had_jobs[uid] = None

    def hear_pod(self, before: Pod | None, after: Pod | None) -> None:
        """A pod came: one that stands for itself and names a queue, but another scheduler, is in no queue."""
        if before is not None or after is None or not self._config.suspend or after.is_over:
            return
        is_others = after.spec.scheduler_name != self._config.scheduler_name and not after.spec.scheduling_gates
        if is_others and said(after, WORDS) and not _is_made(after.metadata):
            self._pods.append(after)

    async def work_for_ever(self) -> None:
        """Look at what is new."""
        while self._config.adopt and self._config.suspend:
            await self._site.clock.sleep(TICK_S)
            present = self._owners.objects
            for uid, (kind, found) in list(present.items()):
                if self._seen.get(uid) != found.metadata.resource_version:
                    self._seen[uid] = found.metadata.resource_version
                    await self._look(kind, found)
            if len(self._seen) > 2 * len(present) + 1000:
                self._seen = {uid: version for uid, version in self._seen.items() if uid in present}
                self._had_jobs = {uid: None for uid in self._had_jobs if uid in present}
            pods, self._pods = self._pods, []
            for pod in pods:
                await self._tell_pod(pod)

    async def _look(self, kind: OwnerKind, found: OwnerObject) -> None:
        meta = found.metadata
        if not self._is_missed(kind, found) or not self._has_group(meta):
            return
        about = (kind.group_version, kind.name)
        queue = said(Pod(metadata=meta), WORDS)
        if self._age_s(meta) > FRESH_S:
            message = f"it was not suspended when it was made: it is in no queue ({queue}) and counts against no limit"
            await self._happenings.tell(meta, "NotQueued", message, is_warning=True, kind=about)
            return
        try:
            await self._writer.change(kind, found, lambda _: suspension(kind))
        except (RefusedError, TemporaryError, msgspec.ValidationError) as error:
            log.warning("%s %s/%s was not suspended: %s", kind.name, meta.namespace, meta.name, error)
            self._seen.pop(meta.uid, None)
            return
        await self._happenings.tell(meta, "Queued", f"suspended until its turn in queue {queue} comes", kind=about)

    def _is_missed(self, kind: OwnerKind, found: OwnerObject) -> bool:
        """True for one that should wait for us, and runs without ever having waited."""
        meta, parts = found.metadata, parts_of(kind, found)
        # Pods that name our scheduler wait for their turn themselves.
        if not kind.suspend or is_suspended(kind, found) or not parts or is_ours(parts, self._config):
            return False
        is_over = bool(meta.deletion_timestamp) or is_finished(found)
        if not said(Pod(metadata=meta), WORDS) or _is_made(meta) or is_over:
            return False
        is_known = meta.uid in self._owners.jobs or meta.uid in self._had_jobs or LABEL_STOPPED in meta.annotations
        return not is_known and not self._is_noted(meta)

    def _is_noted(self, meta: Meta) -> bool:
        """True when its annotation names a job of its own, or one that the log forgot; copies name somebody else's."""
        number = meta.annotations.get(NOTE_NUMBER, "")
        job = self._state.job(JobId(int(number))) if is_number(number) else None
        return bool(number) and (job is None or job.spec.labels.get(LABEL_OWNER) == meta.uid)

    def _has_group(self, meta: Meta) -> bool:
        """True where jobs have a group: elsewhere a queue's name may be for somebody else."""
        namespace = self._desk.namespaces.get(meta.namespace)
        return bool(self._config.group) or (namespace is not None and NOTE_GROUP in namespace.metadata.annotations)

    def _age_s(self, meta: Meta) -> float:
        try:
            made = datetime.strptime(meta.creation_timestamp or "", "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        except ValueError:
            return FRESH_S + 1
        return self._site.clock.now_ms() / 1000 - made.timestamp()

    async def _tell_pod(self, pod: Pod) -> None:
        meta = pod.metadata
        if self._has_group(meta) and self._age_s(meta) <= FRESH_S:
            ours, its = self._config.scheduler_name, pod.spec.scheduler_name or "default-scheduler"
            message = (
                f"it names schedulerName {its}: it is in no queue and counts against no limit; name {ours} for that"
            )
            await self._happenings.tell(meta, "NotQueued", message, is_warning=True, kind=("v1", "Pod"))


def _is_made(meta: Meta) -> bool:
    """True for what an object made that waits itself: it waits with that."""
    return any(one.controller and one.kind in NAMES for one in meta.owner_references)
