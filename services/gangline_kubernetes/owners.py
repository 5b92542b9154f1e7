"""Owners that wait suspended: each becomes a job of the log, and its pods may exist once they all have their places."""

import logging
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from gangline_core.fold import Message
from gangline_core.ids import JobId
from gangline_core.job import ENDS, Job, JobState, Outcome
from gangline_core.reasons import sentence
from gangline_core.spec import JobSpec
from gangline_core.state import State
from gangline_core.step import Step
from gangline_kit.errors import TemporaryError
from gangline_kit.service import Site
from gangline_kubernetes.adoption import ALONE, Gang, gang_of
from gangline_kubernetes.api import Api, RefusedError
from gangline_kubernetes.asking import ask
from gangline_kubernetes.broods import Broods
from gangline_kubernetes.config import Config
from gangline_kubernetes.desk import Desk, by
from gangline_kubernetes.due import Due
from gangline_kubernetes.handing import Unfit
from gangline_kubernetes.happenings import Happenings
from gangline_kubernetes.objects import Meta, OwnerObject, Pod
from gangline_kubernetes.owner_asks import Asks, shape_of
from gangline_kubernetes.owner_kinds import (
    LABEL_STOPPED,
    OwnerKind,
    is_finished,
    is_held,
    is_suspended,
    is_together,
    parts_of,
    wants,
)
from gangline_kubernetes.owner_letting import OTHER, Letting
from gangline_kubernetes.owner_sizes import bounds_of, wishes
from gangline_kubernetes.ownership import LABEL_KIND, LABEL_OWNER, Fault, owned
from gangline_kubernetes.stages import is_staged, stage_of
from gangline_wire.requests import Admitted, CancelJob, Denied, Refused, SetSize, SubmitJobs

log = logging.getLogger(__name__)

TICK_S = 0.1
AGAIN_S = 30.0
AGAIN_S_MAX = 300.0
"""Pauses between tries of an owner that makes no fitting pods grow up to this."""
LOOK_S = 1.0
"""Pods that nobody wants yet are looked at again after this."""


class Owners:
    """What is known of every owner, its pods, and the job that is its."""

    def __init__(self, site: Site, config: Config, api: Api, *, desk: Desk, asks: Asks) -> None:
        """Nothing is done before `work_for_ever`."""
        self.site = site
        self.config = config
        self.desk = desk
        self.asks = asks
        self.broods = Broods()
        self.offer: Callable[[Pod], None] = lambda pod: None
        """Takes pods that belong to no task of their owner's job."""
        self.is_known: Callable[[str], bool] = lambda kind: True
        """False for a kind of which nobody knows now which objects there are."""
        self.look_for: Callable[[str], None] = lambda kind: None
        """Looks again for a kind that was not there, as somebody speaks of its objects."""
        self.may_go: Callable[[Job], bool] = lambda job: True
        """False while a disruption budget keeps pods of a job that makes way: suspension would ask no budget."""
        self.jobs: dict[str, JobId] = {}
        """The living job of each owner, by uid."""
        self.renewed: dict[JobId, None] = {}
        """Jobs that we ended ourselves, as their owner asks for something else by now."""
        self.due = Due(site.clock, self._handle, name="owner", tick_s=TICK_S)
        """Owners to look at, by uid."""
        self.letting = Letting(site, config, api, asks=asks, broods=self.broods, ask=self._asked, due=self.due)
        self._happenings = Happenings(site, api)
        self._rests_until: dict[str, float] = {}
        """Before when an owner is not taken up again, as it made no fitting pods."""
        self._tries: dict[str, int] = {}
        """How often each owner asked for the same job anew."""

    @property
    def objects(self) -> dict[str, tuple[OwnerKind, OwnerObject]]:
        """Owners by uid."""
        return self.broods.objects

    @property
    def state(self) -> State:
        """The fold."""
        return self.site.follower.state

    # --- what the watches and the log tell ----------------------------------------------------------------

    def hear(self, kind: OwnerKind, before: OwnerObject | None, after: OwnerObject | None) -> None:
        """An owner came, changed or went."""
        one = after or before
        assert one is not None
        uid = one.metadata.uid
        self.broods.hear(kind, before, after)
        if after is None:
            self.asks.affinities.drop(uid)
            self._rests_until.pop(uid, None)
        self.due.now(uid)

    def hear_pod(self, before: Pod | None, after: Pod | None) -> None:
        """A pod came, changed or went."""
        pod = after or before
        assert pod is not None
        was = self.broods.objects.get(root) if (root := self.broods.root_of(pod.metadata)) else None
        self.broods.hear_pod(before, after)
        if was is not None and self.broods.objects[root] is not was:
            self.due.soon(root)
        if after is None:
            self.letting.taken.pop(pod.metadata.uid, None)
            self.letting.extra.pop(pod.metadata.uid, None)
        elif before is None and (root := self.broods.root_of(pod.metadata)) in self.jobs:
            self.due.soon(root)

    def belongs(self, meta: Meta, owner: str) -> bool:
        """True when the object with this uid stands above the pod, as far as that is known."""
        return self.broods.root_of(meta) == owner or any(one.uid == owner for one in meta.owner_references)

    def gang_of(self, pod: Pod) -> Gang:
        """The pod's gang as its labels say, else as its outermost owner does: all pods that it makes at a time."""
        said_so, root = gang_of(pod), self.broods.root_of(pod.metadata)
        if pod.metadata.uid in self.letting.extra:
            return Gang(pod.metadata.namespace, f"{ALONE}{pod.metadata.uid}", 1)
        if not said_so.name.startswith(ALONE) or not root:
            return said_so
        kind, found = self.objects[root]
        parts = parts_of(kind, found)
        if parts and is_staged(kind, found):
            return stage_of(kind, found, parts, pod)
        size = sum(part.count for part in parts)
        if size < 2 or not is_together(kind, found):
            return said_so
        return Gang(pod.metadata.namespace, f"{kind.name}/{found.metadata.name}/{root}", size)

    def claims(self, pod: Pod) -> bool:
        """True for a pod whose owner has a job: it is bound with that job, not by itself."""
        return pod.metadata.uid not in self.letting.extra and self.broods.root_of(pod.metadata) in self.jobs

    def note(self, message: Message, step: Step) -> None:
        """The log knows something new about jobs: what is stopped must not be made again by its owner."""
        for moved in step.moves:
            job = self.state.job(moved.job)
            uid = job.spec.labels.get(LABEL_OWNER, "") if job is not None else ""
            if job is None or not uid or job.submitted_by != by(self.config.cluster):
                continue
            if job.state in (JobState.STOPPING, JobState.WAITING, JobState.SUSPENDED, *ENDS):
                self.due.now(uid)

    def take_over(self) -> None:
        """Find the jobs of all owners in the log, and look at everything once."""
        self.letting.since_ms = self.site.now_ms()
        for job in self.state.kept.jobs.values():
            uid = job.spec.labels.get(LABEL_OWNER, "")
            if uid and job.submitted_by == by(self.config.cluster) and job.state not in ENDS:
                self.jobs[uid] = job.id
                if uid in self.objects:
                    self.asks.hold(*self.objects[uid])
        for uid in (*self.objects, *self.jobs):
            self.due.now(uid)

    # --- acting -------------------------------------------------------------------------------------------

    async def work_for_ever(self) -> None:
        """Look at every owner about which something is new, each by one hand."""
        await self.due.work_for_ever()

    async def _handle(self, uid: str) -> None:
        try:
            await self._look(uid)
        except (RefusedError, TemporaryError, msgspec.ValidationError) as error:
            log.warning("owner %s: %s", uid, error)
            self.due.after(uid, AGAIN_S)

    async def _look(self, uid: str) -> None:
        known = self.objects.get(uid)
        job = self.state.job(self.jobs[uid]) if uid in self.jobs else None
        if known is None and job is not None and not self.is_known(job.spec.labels.get(LABEL_KIND, "")):
            self.due.after(uid, LOOK_S)
            return
        if known is None or known[1].metadata.deletion_timestamp:
            if job is not None and job.state not in (*ENDS, JobState.STOPPING):
                why = "its owner was deleted"
                await ask(self.site, CancelJob(job=int(job.id), by=by(self.config.cluster), why=why))
            self._forget(uid, job)
            return
        kind, found = known
        if job is not None and job.id in self.letting.stale and job.state not in (*ENDS, JobState.STOPPING):
            await self._renew(job, self.letting.stale.pop(job.id))
        elif job is None:
            if wants(kind, found, self.config) and not self.broods.root_of(found.metadata):
                await self._submit(kind, found)
        elif job.state in (JobState.STOPPING, JobState.WAITING, JobState.SUSPENDED, JobState.HELD) or job.state in ENDS:
            await self._take_back(kind, found, job)
            if job.state in (JobState.WAITING, JobState.HELD):
                await self._renew_if_changed(kind, found, job)
            self._forget(uid, job)
        elif job.state == JobState.RUNNING:
            await self._heed_sizes(kind, found, job)
            await self._heed_others(kind, found, job)

    def _forget(self, uid: str, job: Job | None) -> None:
        if job is not None and job.state not in ENDS:
            return
        self.jobs.pop(uid, None)
        self.letting.drop(uid)
        self.asks.affinities.drop(uid)
        pods = list(self.broods.pods_of(uid))
        for pod in pods:
            self.letting.taken.pop(pod.metadata.uid, None)
        if job is None:
            return
        self.letting.released.pop(job.id, None)
        self.letting.stale.pop(job.id, None)
        if self.renewed.pop(job.id, 0) is None:
            # Whatever is said of the owner meanwhile, it is not taken up before.
            failures = self.letting.failures.get(uid, 0)
            pause_s = min(AGAIN_S_MAX, AGAIN_S * (1 << min(failures - 1, 10))) if failures else 0.0
            self._rests_until[uid] = self.site.clock.monotonic_s() + pause_s
            self.due.at(uid, self._rests_until[uid])
        elif job.state == JobState.SUCCEEDED:
            self.letting.failures.pop(uid, None)
        for pod in pods:
            self.offer(pod)

    async def _submit(self, kind: OwnerKind, found: OwnerObject) -> None:
        """Ask for admission; the owner's uid and generation make a repeat give the same job."""
        meta = found.metadata
        if self._rests_until.get(meta.uid, 0.0) > self.site.clock.monotonic_s():
            self.due.at(meta.uid, self._rests_until[meta.uid])
            return
        self._rests_until.pop(meta.uid, None)
        mine = await self._asked(kind, found)
        if isinstance(mine, Unfit | Fault):
            self.due.after(meta.uid, TICK_S)
            if mine.message:
                await self._refuse(kind, found, mine.message)
            return
        held = await self.letting.gate(kind, found)
        if isinstance(held, str):
            await self._refuse(kind, found, held)
            return
        meta = held.metadata
        labels = {**mine.labels, LABEL_OWNER: meta.uid, LABEL_KIND: kind.name}
        named = replace(mine, name=f"{meta.namespace}/{meta.name}"[:120], labels=labels)
        again = self._tries.get(meta.uid, 0)
        submit_id = f"{by(self.config.cluster)}:owner:{meta.uid}:{meta.generation}" + (f":{again}" if again else "")
        request = SubmitJobs(jobs=(named,), submit_id=submit_id, by=by(self.config.cluster))
        match await ask(self.site, request):
            case Admitted(jobs=jobs):
                job = self.state.job(JobId(jobs[0]))
                if job is not None and job.state not in ENDS:
                    self.jobs[meta.uid] = job.id
                    self.due.now(meta.uid)
                elif job is not None:
                    # The same was asked before, and that has ended: it is asked for anew.
                    self._tries[meta.uid] = again + 1
                    self.due.now(meta.uid)
            case Refused(refusals=refusals):
                await self._refuse(kind, found, sentence(refusals[0].reason))
            case Denied(message=message):
                await self._refuse(kind, found, message)
            case other:
                raise TemporaryError(f"admission answered {type(other).__name__}")

    async def _refuse(self, kind: OwnerKind, found: OwnerObject, message: str) -> None:
        """Tell its owner why it is not taken up, and look at it again later."""
        meta = found.metadata
        log.info("%s %s/%s: %s", kind.name, meta.namespace, meta.name, message)
        self.due.after(meta.uid, AGAIN_S)
        await self._happenings.tell(meta, "Refused", message, is_warning=True, kind=(kind.group_version, kind.name))

    async def _asked(self, kind: OwnerKind, found: OwnerObject) -> JobSpec | Unfit | Fault:
        """The job that it asks for now."""
        meta = found.metadata
        pool = self.state.kept.pools.get(meta.labels.get("gangline.dev/pool", self.config.pool))
        spec = await self.asks.job(kind, found, pool.pool if pool is not None else None)
        if isinstance(spec, Unfit):
            return spec
        return owned(spec, meta, self.desk.namespaces.get(meta.namespace), self.config)

    async def _renew_if_changed(self, kind: OwnerKind, found: OwnerObject, job: Job) -> None:
        """End the waiting job of an owner that asks for something else by now; it is submitted anew."""
        mine = await self._asked(kind, found) if is_suspended(kind, self.letting.present(found)) else None
        if isinstance(mine, JobSpec) and shape_of(mine) != shape_of(job.spec):
            await self._renew(job, OTHER)

    async def _renew(self, job: Job, why: str) -> None:
        """End a job, so that its owner is submitted anew."""
        self.renewed[job.id] = None
        await ask(self.site, CancelJob(job=int(job.id), by=by(self.config.cluster), why=why))

    async def _take_back(self, kind: OwnerKind, found: OwnerObject, job: Job) -> None:
        """Suspend the owner of a job that was stopped, so that it does not make anew what we delete."""
        uid = found.metadata.uid
        if job.state == JobState.STOPPING and not self.may_go(job):
            self.due.after(uid, LOOK_S)
            return
        async with self.letting.hand(uid):
            present = self.state.job(job.id)
            if present is not None and present.state in (JobState.STARTING, JobState.RUNNING):
                return
            found = self.letting.present(found)
            was_let_go = self.letting.released.pop(job.id, 0) or not is_suspended(kind, found)
            # After a failure the owner's own rules say whether it tries again. Pods that it makes then are adopted as
            # they come; those that others could bind without us have to queue again.
            end = job.outcome.value if job.outcome is not None else job.state.value
            is_failed = end == Outcome.FAILED.value
            if end == Outcome.SUCCEEDED.value or (is_failed and is_held(parts_of(kind, found), self.config)):
                return
            is_ended = job.state in ENDS and not is_failed and job.id not in self.renewed
            if is_failed and is_finished(found):
                return
            if was_let_go or is_ended:
                await self.letting.suspend(
                    kind, found, {"annotations": {LABEL_STOPPED: str(job.id)}} if is_ended else {}
                )

    async def _heed_others(self, kind: OwnerKind, found: OwnerObject, job: Job) -> None:
        """Pods that the owner makes beyond its job's tasks: each is a job of its own, or runs uncounted and is told."""
        uid, roles, letting = found.metadata.uid, job.spec.roles, self.letting
        here = [pod for pod in self.broods.pods_of(uid) if not pod.metadata.deletion_timestamp]
        others = [pod for pod in here if letting.task_of(pod) is None and pod.metadata.uid not in letting.extra]
        if not others or any(role.is_elastic for role in roles):
            return
        given = {self.letting.task_of(pod) for pod in self.broods.pods_of(uid)}
        if any(task.id not in given for task in self.state.tasks_of(job)):
            self.due.after(uid, LOOK_S)
            return
        for pod in others:
            if pod.spec.node_name:
                message = f"pod {pod.metadata.name} is beyond what job {job.id} was admitted for, and is not counted"
                kinds = (kind.group_version, kind.name)
                await self._happenings.tell(found.metadata, "Uncounted", message, is_warning=True, kind=kinds)
            self.letting.extra[pod.metadata.uid] = None
            self.offer(pod)

    async def _heed_sizes(self, kind: OwnerKind, found: OwnerObject, job: Job) -> None:
        """Somebody who changes the number of an elastic owner's pods asks for that size."""
        parts = parts_of(kind, found)
        admitted = [role.count for role in job.spec.roles]
        asked = wishes(found, parts, bounds_of(kind, found, parts), admitted)
        for role, size in zip(job.spec.roles, asked, strict=False):
            if size and role.is_elastic and size != job.asked.get(role.name) and size != job.sizes.get(role.name):
                request = SetSize(job=int(job.id), size=size, role=role.name, by=by(self.config.cluster))
                if isinstance(denied := await ask(self.site, request), Denied):
                    log.info("%s %s: %s", kind.name, found.metadata.name, denied.message)
