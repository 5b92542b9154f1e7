"""Owners that wait suspended: each becomes a job of the log, and its pods may exist once they all have their places."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from gangline_core.fold import Message
from gangline_core.ids import JobId, TaskId
from gangline_core.job import ENDS, Job, JobState, Outcome
from gangline_core.reasons import sentence
from gangline_core.spec import JobSpec
from gangline_core.state import State
from gangline_core.step import Step
from gangline_kit.carrying.environment import role_of
from gangline_kit.carrying.known import Order
from gangline_kit.errors import TemporaryError
from gangline_kit.service import Site
from gangline_kit.tasks import Tasks
from gangline_kubernetes.adoption import ALONE, Gang, gang_of
from gangline_kubernetes.api import Api, RefusedError
from gangline_kubernetes.asking import ask
from gangline_kubernetes.broods import Broods, NoPodError
from gangline_kubernetes.config import Config
from gangline_kubernetes.desk import Desk, by
from gangline_kubernetes.handing import Unfit
from gangline_kubernetes.happenings import Happenings
from gangline_kubernetes.names import mark_of
from gangline_kubernetes.objects import Meta, OwnerObject, Pod
from gangline_kubernetes.owner_asks import Asks, index_for, shape_of
from gangline_kubernetes.owner_kinds import (
    LABEL_STOPPED,
    OwnerKind,
    Part,
    index_of,
    is_finished,
    is_ours,
    is_suspended,
    is_together,
    part_of,
    parts_of,
    suspension,
    unsuspended,
    wants,
)
from gangline_kubernetes.owner_sizes import bounds_of, note, resized, wishes
from gangline_kubernetes.owner_writes import OwnerWriter
from gangline_kubernetes.ownership import LABEL_KIND, LABEL_OWNER, Fault, owned
from gangline_kubernetes.stages import is_staged, stage_of
from gangline_wire.requests import Admitted, CancelJob, Denied, Refused, SetSize, SubmitJobs

log = logging.getLogger(__name__)

TICK_S = 0.1
POD_S = 0.05
POD_S_MAX = 120.0
"""So long an owner that was let go may take to make a pod."""
AGAIN_S = 30.0
AGAIN_S_MAX = 1800.0
OTHER = "its owner asks for something else by now"
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
        self.jobs: dict[str, JobId] = {}
        """The living job of each owner, by uid."""
        self.stale: dict[JobId, str] = {}
        """Jobs that are not what their owner's pods are, and why."""
        self.renewed: dict[JobId, None] = {}
        """Jobs that we ended ourselves, as their owner asks for something else by now."""
        self.failures: dict[str, int] = {}
        """How often in a row an owner made no pod that fitted, by uid."""
        self.extra: dict[str, None] = {}
        """Uids of pods that are not of their owner's job: they are jobs of their own."""
        self.taken: dict[str, str] = {}
        """Task of each pod that was given to one, by uid."""
        self.dirty: dict[str, float] = {}
        """Owners to look at, and when."""
        self.released: dict[JobId, int] = {}
        """Attempt of each job for which its owner was let go."""
        self._writer = OwnerWriter(api)
        self._happenings = Happenings(site, api)
        self._work = Tasks()
        self._busy: dict[str, None] = {}
        self._tries: dict[str, int] = {}
        """How often each owner asked for the same job anew."""
        self._hands: dict[str, asyncio.Lock] = {}
        """Who lets an owner go, or suspends it, does so alone."""
        self._since_ms = 0

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
        self.dirty[uid] = 0.0

    def hear_pod(self, before: Pod | None, after: Pod | None) -> None:
        """A pod came, changed or went."""
        pod = after or before
        assert pod is not None
        self.broods.hear_pod(before, after)
        if after is None:
            self.taken.pop(pod.metadata.uid, None)
            self.extra.pop(pod.metadata.uid, None)
        elif before is None and (root := self.broods.root_of(pod.metadata)) in self.jobs:
            self.dirty.setdefault(root, 0.0)

    def belongs(self, meta: Meta, owner: str) -> bool:
        """True when the object with this uid stands above the pod, as far as that is known."""
        return self.broods.root_of(meta) == owner or any(one.uid == owner for one in meta.owner_references)

    def gang_of(self, pod: Pod) -> Gang:
        """The pod's gang as its labels say, else as its outermost owner does: all pods that it makes at a time."""
        said_so, root = gang_of(pod), self.broods.root_of(pod.metadata)
        if pod.metadata.uid in self.extra:
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
        return pod.metadata.uid not in self.extra and self.broods.root_of(pod.metadata) in self.jobs

    def note(self, message: Message, step: Step) -> None:
        """The log knows something new about jobs: what is stopped must not be made again by its owner."""
        for moved in step.moves:
            job = self.state.job(moved.job)
            uid = job.spec.labels.get(LABEL_OWNER, "") if job is not None else ""
            if job is None or not uid or job.submitted_by != by(self.config.cluster):
                continue
            if job.state in (JobState.STOPPING, JobState.WAITING, JobState.SUSPENDED, *ENDS):
                self.dirty[uid] = 0.0

    def take_over(self) -> None:
        """Find the jobs of all owners in the log, and look at everything once."""
        self._since_ms = self.site.now_ms()
        for job in self.state.kept.jobs.values():
            uid = job.spec.labels.get(LABEL_OWNER, "")
            if uid and job.submitted_by == by(self.config.cluster) and job.state not in ENDS:
                self.jobs[uid] = job.id
                if uid in self.objects:
                    self.asks.hold(*self.objects[uid])
        self.dirty |= dict.fromkeys((*self.objects, *self.jobs), 0.0)

    # --- acting -------------------------------------------------------------------------------------------

    async def work_for_ever(self) -> None:
        """Look at every owner about which something is new, each by one hand."""
        try:
            while True:
                await self.site.clock.sleep(TICK_S)
                now_s = self.site.clock.monotonic_s()
                for uid in [uid for uid, at in self.dirty.items() if at <= now_s and uid not in self._busy]:
                    del self.dirty[uid]
                    self._busy[uid] = None
                    self._work.spawn(self._handle(uid), name=f"owner {uid}")
        finally:
            await self._work.close()

    async def _handle(self, uid: str) -> None:
        try:
            await self._look(uid)
        except (RefusedError, TemporaryError, msgspec.ValidationError) as error:
            log.warning("owner %s: %s", uid, error)
            self.dirty[uid] = self.site.clock.monotonic_s() + AGAIN_S
        finally:
            self._busy.pop(uid, None)

    async def _look(self, uid: str) -> None:
        known = self.objects.get(uid)
        job = self.state.job(self.jobs[uid]) if uid in self.jobs else None
        if known is None and job is not None and not self.is_known(job.spec.labels.get(LABEL_KIND, "")):
            self.dirty[uid] = self.site.clock.monotonic_s() + LOOK_S
            return
        if known is None or known[1].metadata.deletion_timestamp:
            if job is not None and job.state not in (*ENDS, JobState.STOPPING):
                why = "its owner was deleted"
                await ask(self.site, CancelJob(job=int(job.id), by=by(self.config.cluster), why=why))
            self._forget(uid, job)
            return
        kind, found = known
        if job is not None and job.id in self.stale and job.state not in (*ENDS, JobState.STOPPING):
            await self._renew(job, self.stale.pop(job.id))
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
        self.asks.affinities.drop(uid)
        pods = list(self.broods.pods_of(uid))
        for pod in pods:
            self.taken.pop(pod.metadata.uid, None)
        if job is None:
            return
        self.released.pop(job.id, None)
        self.stale.pop(job.id, None)
        if self.renewed.pop(job.id, 0) is None:
            pause_s = min(AGAIN_S_MAX, AGAIN_S * (1 << min(self.failures.get(uid, 0), 10))) / 2
            self.dirty[uid] = self.site.clock.monotonic_s() + (pause_s if uid in self.failures else 0.0)
        elif job.state == JobState.SUCCEEDED:
            self.failures.pop(uid, None)
        for pod in pods:
            self.offer(pod)

    async def _submit(self, kind: OwnerKind, found: OwnerObject) -> None:
        """Ask for admission; the owner's uid and generation make a repeat give the same job."""
        meta = found.metadata
        mine = self._asked(kind, found)
        if isinstance(mine, Unfit | Fault):
            self.dirty[meta.uid] = self.site.clock.monotonic_s() + TICK_S
            if mine.message:
                await self._refuse(kind, found, mine.message)
            return
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
                    self.dirty[meta.uid] = 0.0
                elif job is not None:
                    # The same was asked before, and that has ended: it is asked for anew.
                    self._tries[meta.uid] = again + 1
                    self.dirty[meta.uid] = 0.0
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
        self.dirty[meta.uid] = self.site.clock.monotonic_s() + AGAIN_S
        await self._happenings.tell(meta, "Refused", message, is_warning=True, kind=(kind.group_version, kind.name))

    def _asked(self, kind: OwnerKind, found: OwnerObject) -> JobSpec | Unfit | Fault:
        """The job that it asks for now."""
        meta = found.metadata
        pool = self.state.kept.pools.get(meta.labels.get("gangline.dev/pool", self.config.pool))
        spec = self.asks.job(kind, found, pool.pool if pool is not None else None)
        if isinstance(spec, Unfit):
            return spec
        return owned(spec, meta, self.desk.namespaces.get(meta.namespace), self.config)

    async def _renew_if_changed(self, kind: OwnerKind, found: OwnerObject, job: Job) -> None:
        """End the waiting job of an owner that asks for something else by now; it is submitted anew."""
        mine = self._asked(kind, found) if is_suspended(kind, self._present(found)) else None
        if isinstance(mine, JobSpec) and shape_of(mine) != shape_of(job.spec):
            await self._renew(job, OTHER)

    async def _renew(self, job: Job, why: str) -> None:
        """End a job, so that its owner is submitted anew."""
        self.renewed[job.id] = None
        await ask(self.site, CancelJob(job=int(job.id), by=by(self.config.cluster), why=why))

    def _present(self, found: OwnerObject) -> OwnerObject:
        """The object as it is known by now."""
        known = self.objects.get(found.metadata.uid)
        return known[1] if known is not None else found

    async def _take_back(self, kind: OwnerKind, found: OwnerObject, job: Job) -> None:
        """Suspend the owner of a job that was stopped, so that it does not make anew what we delete."""
        uid = found.metadata.uid
        async with self._hands.setdefault(uid, asyncio.Lock()):
            present = self.state.job(job.id)
            if present is not None and present.state in (JobState.STARTING, JobState.RUNNING):
                return
            found = self._present(found)
            was_let_go = self.released.pop(job.id, 0) or not is_suspended(kind, found)
            # After a failure the owner's own rules say whether it tries again. Pods that it makes then are adopted as
            # they come; those that others would bind have to queue again.
            end = job.outcome.value if job.outcome is not None else job.state.value
            is_failed = end == Outcome.FAILED.value
            if end == Outcome.SUCCEEDED.value or (is_failed and (is_ours(parts_of(kind, found), self.config))):
                return
            is_ended = job.state in ENDS and not is_failed and job.id not in self.renewed
            if is_failed and is_finished(found):
                return
            if was_let_go or is_ended:
                await self._suspend(kind, found, {"annotations": {LABEL_STOPPED: str(job.id)}} if is_ended else {})

    async def _suspend(self, kind: OwnerKind, found: OwnerObject, meta: dict[str, Any]) -> None:
        patch: dict[str, Any] = suspension(kind, suspend=True) | ({"metadata": meta} if meta else {})
        await self._writer.change(kind, found, lambda _: patch)
        if kind.name == "Job":
            # Where its pods may be can be said again only for a Job that counts as not started.
            await self._writer.write_status(kind, found, {"startTime": None})

    # --- starting -----------------------------------------------------------------------------------------

    async def pod_of(self, order: Order) -> Pod:
        """The pod that its owner made for a task, after letting the owner go.

        Raises:
            NoPodError: the owner is gone, or makes no such pod.
            TemporaryError: the server does not answer.
        """
        uid = order.job.spec.labels[LABEL_OWNER]
        known = self.objects.get(uid)
        if known is None:
            raise NoPodError("its owner is gone, and so are its pods")
        kind, found = known
        parts = parts_of(kind, found)
        ours = is_ours(parts, self.config)
        is_here = self.released.get(order.job.id) == order.job.attempt
        if not is_here and order.task.placed_ms < self._since_ms and not is_suspended(kind, found):
            # Whoever led before us let it go.
            is_here = bool(self.released.setdefault(order.job.id, order.job.attempt))
        if not is_here:
            mine = self._asked(kind, found)
            if isinstance(mine, JobSpec) and shape_of(mine) != shape_of(order.job.spec):
                raise self._unfit(order, OTHER)
            self.released[order.job.id] = order.job.attempt
            await self._let_go(kind, found, order, is_ours=ours)
        elif role_of(order).is_elastic:
            await self._resize(kind, found, order.job.id)
        number = next(k for k, role in enumerate(order.job.spec.roles) if role.name == order.task.role)
        end_s = self.site.clock.monotonic_s() + POD_S_MAX
        while self.site.clock.monotonic_s() < end_s and self._is_wanted(order):
            for pod in self._candidates(uid, kind, parts, number):
                index = index_of(kind, parts[number], pod)
                own = index_for(order.job.spec, order.task.index)
                seat = self._seat(order, kind, parts, number) if role_of(order).is_elastic else own
                fits = index in (None, seat) if ours else pod.spec.node_name == order.task.node
                if fits and self._task_of(pod) in (None, order.task.id):
                    self._check(order, pod)
                    self.taken[pod.metadata.uid] = order.task.id
                    return pod
            await self.site.clock.sleep(POD_S)
        why = f"its owner made no pod for it within {POD_S_MAX:.0f} s"
        if not self._is_wanted(order):
            raise NoPodError(why)
        if order.job.id not in self.stale:
            self.failures[uid] = self.failures.get(uid, 0) + 1
        raise self._unfit(order, why)

    def _unfit(self, order: Order, why: str) -> NoPodError:
        """What to raise for a task of a job that has to be made anew."""
        self.stale.setdefault(order.job.id, why)
        self.dirty[order.job.spec.labels[LABEL_OWNER]] = 0.0
        return NoPodError(why)

    def _check(self, order: Order, pod: Pod) -> None:
        """See that a pod asks for no more than is booked for it.

        Raises:
            NoPodError: it does.
        """
        uid = order.job.spec.labels[LABEL_OWNER]
        if more := self.asks.learn(uid, role_of(order), pod):
            raise self._unfit(order, f"pod {pod.metadata.name} asks for more than its owner's template said: {more}")

    def _task_of(self, pod: Pod) -> str | None:
        """The task that a pod was given to, or says that it is."""
        mark = mark_of(pod, self.config.cluster)
        return self.taken.get(pod.metadata.uid) or (mark.task if mark is not None else None)

    def _is_wanted(self, order: Order) -> bool:
        """True until the task is to be stopped."""
        task = self.state.kept.tasks.get(order.task.id)
        return task is not None and not task.stop_ms

    def _candidates(self, uid: str, kind: OwnerKind, parts: list[Any], number: int) -> list[Pod]:
        pods = [
            pod
            for pod in self.broods.pods_of(uid)
            if not pod.metadata.deletion_timestamp
            and pod.metadata.uid not in self.extra
            and part_of(kind, parts, pod) == number
        ]
        return sorted(pods, key=lambda pod: (pod.metadata.name, pod.metadata.uid))

    def _seat(self, order: Order, kind: OwnerKind, parts: list[Part], number: int) -> int:
        """Index of the pod that shall be this member of an elastic role: members that came earlier have lower ones."""
        members = [task for task in self.state.tasks_of(order.job) if task.role == order.task.role and not task.stop]
        seat = sum(task.index < order.task.index for task in members)
        taken = {
            index_of(kind, parts[number], pod)
            for pod in self._candidates(order.job.spec.labels[LABEL_OWNER], kind, parts, number)
            if self._task_of(pod) not in (None, order.task.id)
        }
        return seat if seat not in taken else next(k for k in range(len(taken) + 1) if k not in taken)

    async def _let_go(self, kind: OwnerKind, found: OwnerObject, order: Order, *, is_ours: bool) -> None:
        """Let the owner make its pods: so many of each part, and where somebody else binds them, only there."""
        asked = ((k, role) for k, role in enumerate(order.job.spec.roles) if role.is_elastic)
        sizes = {k: order.job.sizes.get(role.name, role.count) for k, role in asked}
        roles = [role.name for role in order.job.spec.roles]
        places = [[str(task.node) for task in order.gang if task.role == role] for role in roles]
        nodes = None if is_ours else places

        def let_go(now: OwnerObject) -> dict[str, Any]:
            patch = unsuspended(kind, now, nodes, sizes)
            return {**patch, "metadata": note(parts_of(kind, now), sizes)} if sizes else patch

        async with self._hands.setdefault(found.metadata.uid, asyncio.Lock()):
            if not is_suspended(kind, self._present(found)):
                # From before: its templates may only be changed while it is suspended.
                await self._suspend(kind, found, {})
            await self._writer.change(kind, found, let_go)

    # --- changes of size ----------------------------------------------------------------------------------

    async def unmake(self, task: TaskId) -> None:
        """Have the owner of a member that leaves a gang want one pod less, before that pod is deleted.

        Raises:
            RefusedError, TemporaryError: as `Api.call`.
        """
        known = self.state.kept.tasks.get(task)
        job = self.state.job(known.job) if known is not None else None
        owner = self.objects.get(job.spec.labels.get(LABEL_OWNER, "")) if job is not None else None
        if job is None or owner is None or job.state not in (JobState.RUNNING, JobState.RESIZING):
            return
        if any(role.is_elastic for role in job.spec.roles):
            await self._resize(*owner, job.id)

    async def _resize(self, kind: OwnerKind, found: OwnerObject, name: JobId) -> None:
        """Let the owner make as many pods as its job has members; never one less than the highest that stays."""
        job = self.state.job(name)
        if job is None:
            return
        parts, uid = parts_of(kind, found), found.metadata.uid
        named = {task: pod for pod in self.broods.pods_of(uid) if (task := self._task_of(pod))}
        sizes: dict[int, int] = {}
        leaving: list[str] = []
        for number, (role, part) in enumerate(zip(job.spec.roles, parts, strict=False)):
            members = [task for task in self.state.tasks_of(job) if task.role == role.name]
            stay = [named[task.id] for task in members if not task.stop and task.id in named]
            indexes = [index for pod in stay if (index := index_of(kind, part, pod)) is not None]
            wanted = max(job.sizes.get(role.name, role.count), max(indexes, default=-1) + 1)
            if role.is_elastic and part.count != wanted:
                sizes[number] = wanted
                leaving += [named[task.id].metadata.name for task in members if task.stop and task.id in named]
        if sizes:
            await self._writer.change(kind, found, lambda now: resized(kind, now, parts_of(kind, now), sizes, leaving))

    async def _heed_others(self, kind: OwnerKind, found: OwnerObject, job: Job) -> None:
        """Pods that the owner makes beyond its job's tasks: each is a job of its own, or runs uncounted and is told."""
        uid, roles = found.metadata.uid, job.spec.roles
        others = [
            pod
            for pod in self.broods.pods_of(uid)
            if self._task_of(pod) is None and pod.metadata.uid not in self.extra and not pod.metadata.deletion_timestamp
        ]
        if not others or any(role.is_elastic for role in roles):
            return
        given = {self._task_of(pod) for pod in self.broods.pods_of(uid)}
        if any(task.id not in given for task in self.state.tasks_of(job)):
            self.dirty[uid] = self.site.clock.monotonic_s() + LOOK_S
            return
        for pod in others:
            if pod.spec.node_name:
                message = f"pod {pod.metadata.name} is beyond what job {job.id} was admitted for, and is not counted"
                kinds = (kind.group_version, kind.name)
                await self._happenings.tell(found.metadata, "Uncounted", message, is_warning=True, kind=kinds)
            self.extra[pod.metadata.uid] = None
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
