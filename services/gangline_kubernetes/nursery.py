"""Adopted pods: gathered into gangs, submitted once they are whole, bound where the log says, told why they wait."""

import logging
from hashlib import sha256
from typing import Any

from msgspec.structs import replace

from gangline_core.fold import Message
from gangline_core.ids import JobId
from gangline_core.job import ENDS, Job, JobState
from gangline_core.reasons import sentence
from gangline_core.state import State
from gangline_core.step import Step
from gangline_kit.carrying.known import Order
from gangline_kit.errors import TemporaryError
from gangline_kit.service import Site
from gangline_kit.tasks import Tasks
from gangline_kubernetes.adoption import ALONE, Gang, job_of, ordered, wants_us
from gangline_kubernetes.api import Api, RefusedError
from gangline_kubernetes.asking import ask
from gangline_kubernetes.claims import Claims
from gangline_kubernetes.config import Config
from gangline_kubernetes.desk import Desk, by
from gangline_kubernetes.handing import REASON, Unfit, fitted
from gangline_kubernetes.names import mark_of
from gangline_kubernetes.native_groups import Policy, gang_by, membership_of, placed_by, policies_of
from gangline_kubernetes.objects import OwnerObject, Pod
from gangline_kubernetes.owners import Owners
from gangline_kubernetes.ownership import LABEL_GANG, LABEL_NAMESPACE, LABEL_PODS, Fault, owned
from gangline_kubernetes.places import REASON as PLACE
from gangline_kubernetes.pod_words import tell
from gangline_kubernetes.statuses import scheduled_condition
from gangline_kubernetes.volumes import Volumes
from gangline_wire.requests import Admitted, CancelJob, Denied, Refused, SubmitJobs

log = logging.getLogger(__name__)

TICK_S = 0.05
GATHER_S = 2.0
"""A gang whose size nobody tells is whole when no pod has come for so long."""
BATCH_MAX = 500
"""Gangs that are submitted at the same time."""
RETIRED_S = 5.0
"""Pods that are left of a job that ended are looked at again after this."""
TOLD_S = 1.0
"""A waiting pod is told another reason at most this often; what it was not told now, it is told then."""
VOLUME_S = 5.0
"""What may change without a word to us, such as a volume that is bound, is asked for again after this."""
AGAIN_S = 30.0
"""A refused gang is looked at again after this."""


class Nursery:
    """Pods of others, from seen to bound."""

    def __init__(self, site: Site, config: Config, api: Api, *, desk: Desk, owners: Owners, claims: Claims) -> None:
        """Nothing is done before `work_for_ever`."""
        self.site = site
        self.config = config
        self.api = api
        self.desk = desk
        self.owners = owners
        self.claims = claims
        self.affinities = owners.asks.affinities
        self.volumes = Volumes(api, site.clock, config.scheduler_name)
        self.pods: dict[str, Pod] = {}
        """Pods that want us and have no job yet, or a job that has not started; by uid."""
        self.gangs: dict[Gang, dict[str, None]] = {}
        self.gang_of_pod: dict[str, Gang] = {}
        self.sizes: dict[tuple[str, str], int] = {}
        """How many pods each PodGroup wants, by namespace and name."""
        self.policies: dict[tuple[str, str], Policy] = {}
        """What groups of the cluster's own kind say, by namespace and name."""
        self.unclear: dict[str, tuple[Pod, float]] = {}
        """Pods whose owner was not heard of yet, and since when; by uid."""
        self.living: dict[tuple[str, str], dict[JobId, None]] = {}
        """Living jobs of each gang, by namespace and name."""
        self.job_of_pod: dict[str, JobId] = {}
        self.fresh: dict[Gang, float] = {}
        """Gangs that changed, and when."""
        self.counted: dict[Gang, int] = {}
        """Pods of each gang that waits for more of them, as its pods were told."""
        self.told: dict[str, tuple[str, float]] = {}
        self.waiting: dict[JobId, None] = {}
        """Waiting jobs whose pods may have to be told why."""
        self._work = Tasks()
        self._busy: dict[Gang, None] = {}

    @property
    def state(self) -> State:
        """The fold."""
        return self.site.follower.state

    def hear(self, before: Pod | None, after: Pod | None) -> None:
        """A pod came, changed or went."""
        pod = after or before
        assert pod is not None
        uid = pod.metadata.uid
        self.unclear.pop(uid, None)
        if after is not None and self.config.adopt and wants_us(after, self.config) and not self.owners.claims(after):
            if uid not in self.pods and (self.owners.broods.is_unclear(after.metadata) or self._misses_group(after)):
                self.unclear[uid] = (after, self.site.clock.monotonic_s())
                self.owners.look_for(self.owners.broods.missing(after.metadata))
            else:
                self._take(after)
        elif uid in self.pods:
            has_place = after is not None and bool(after.spec.node_name or mark_of(after, self.config.cluster))
            self._drop(uid, has_place=has_place)

    def hear_group(self, before: OwnerObject | None, after: OwnerObject | None) -> None:
        """A PodGroup came, changed or went."""
        one = after or before
        assert one is not None
        key = (one.metadata.namespace, one.metadata.name)
        for name, policy in policies_of(one).items():
            self.policies[one.metadata.namespace, name] = policy
            if after is None:
                del self.policies[one.metadata.namespace, name]
        size = one.spec.get("minMember") if after is not None else None
        if isinstance(size, int):
            self.sizes[key] = size
        else:
            self.sizes.pop(key, None)

    def _misses_group(self, pod: Pod) -> bool:
        """True while the group that its spec names is not there: nobody knows yet what belongs together."""
        member = membership_of(pod)
        return member is not None and (pod.metadata.namespace, member.policy) not in self.policies

    def _gang_of(self, pod: Pod) -> Gang:
        member = membership_of(pod)
        policy = self.policies.get((pod.metadata.namespace, member.policy)) if member is not None else None
        return gang_by(pod, member, policy) if member is not None and policy is not None else self.owners.gang_of(pod)

    def _take(self, pod: Pod) -> None:
        uid, member = pod.metadata.uid, membership_of(pod)
        is_new = uid not in self.pods
        gang = self.gang_of_pod.get(uid)
        if gang is None:
            gang = self.gang_of_pod[uid] = self._gang_of(pod)
        policy = self.policies.get((pod.metadata.namespace, member.policy)) if member is not None else None
        pod = self.volumes.known(placed_by(pod, policy) if policy is not None else pod)
        self.pods[uid] = pod
        self.affinities.hold(uid, [pod])
        self.gangs.setdefault(gang, {})[uid] = None
        if is_new and uid not in self.job_of_pod:
            self.fresh[gang] = self.site.clock.monotonic_s()

    def _clear(self, now_s: float) -> None:
        """Take in pods whose owner is known by now, or will not be."""
        for uid, (pod, since_s) in list(self.unclear.items()):
            if (now_s - since_s < GATHER_S and self.owners.broods.is_unclear(pod.metadata)) or self._misses_group(pod):
                continue
            del self.unclear[uid]
            if not self.owners.claims(pod):
                self._take(pod)

    def _drop(self, uid: str, *, has_place: bool) -> None:
        del self.pods[uid]
        self.affinities.drop(uid)
        self.volumes.forget(uid)
        gang = self.gang_of_pod.pop(uid)
        self.told.pop(uid, None)
        members = self.gangs.get(gang, {})
        members.pop(uid, None)
        if not members:
            self.gangs.pop(gang, None)
            self.fresh.pop(gang, None)
            self.counted.pop(gang, None)
        job = self.job_of_pod.pop(uid, None)
        if job is not None and not has_place:
            # A pod that went before it had its place will not come again: whoever made it makes another.
            self._work.spawn(self._cancel(job), name=f"cancel {job}")

    def note(self, message: Message, step: Step) -> None:
        """The log knows something new: why jobs wait, and which ones will not get their pods back."""
        for moved in step.moves:
            again = moved.after == JobState.WAITING and moved.before is not None
            job = self.state.job(moved.job) if again or moved.after in ENDS else None
            if job is not None and LABEL_PODS in job.spec.labels and job.submitted_by == by(self.config.cluster):
                self._retire(job)
            if moved.after in (JobState.HELD, JobState.SUSPENDED):
                self.waiting[moved.job] = None
        for pool in dict.fromkeys((*step.rounds, *step.decided)):
            for job_id in self.state.waiting.get(pool, ()):
                job = self.state.job(job_id)
                if job is not None and LABEL_PODS in job.spec.labels:
                    self.waiting[job_id] = None

    def _retire(self, job: Job) -> None:
        """A job whose pods are gone ends; what is left of them is a gang of its own."""
        if job.state not in ENDS:
            self._work.spawn(self._cancel(job.id), name=f"cancel {job.id}")
        now_s = self.site.clock.monotonic_s()
        for uid in uids_of(job):
            if self.job_of_pod.get(uid) == job.id:
                del self.job_of_pod[uid]
            if uid in self.pods:
                self.fresh[self.gang_of_pod[uid]] = now_s + RETIRED_S
        self.living.get(key_of(job), {}).pop(job.id, None)

    def take_over(self) -> None:
        """Find the jobs of all pods in the log."""
        for job in self.state.kept.jobs.values():
            if job.submitted_by == by(self.config.cluster) and job.state not in ENDS:
                self._enter(job.id, uids_of(job))
                if LABEL_PODS in job.spec.labels:
                    self.living.setdefault(key_of(job), {})[job.id] = None
                    if job.state in (JobState.WAITING, JobState.HELD) and any(
                        uid not in self.pods and uid not in self.unclear for uid in uids_of(job)
                    ):
                        # One of its pods went while nobody looked, and will not come again.
                        self._retire(job)
        for gang, members in self.gangs.items():
            if not all(uid in self.job_of_pod for uid in members):
                self.fresh.setdefault(gang, self.site.clock.monotonic_s())

    def _enter(self, job: JobId, uids: tuple[str, ...]) -> None:
        self.job_of_pod |= {uid: job for uid in uids if uid in self.pods}

    def pod_of(self, order: Order) -> Pod:
        """The pod of a task of an adopted job.

        Raises:
            RefusedError: it is gone.
        """
        uids, first = uids_of(order.job), 0
        for role in order.job.spec.roles:
            if role.name == order.task.role:
                break
            first += role.count
        pod = self.pods.get(uids[first + order.task.index])
        if pod is None:
            raise RefusedError(404, "NotFound", "its pod is gone; whoever made it makes another")
        return pod

    # --- acting -------------------------------------------------------------------------------------------

    async def work_for_ever(self) -> None:
        """Submit gangs that are whole; tell waiting pods why they wait."""
        known = [self.pods[uid] for uid in self.job_of_pod if uid in self.pods]
        self._work.spawn(self.volumes.again(known, self.affinities), name="volumes")
        try:
            while True:
                await self.site.clock.sleep(TICK_S)
                now_s = self.site.clock.monotonic_s()
                self._clear(now_s)
                for gang in [gang for gang, at in self.fresh.items() if self._is_whole(gang, at, now_s)]:
                    if len(self._busy) >= BATCH_MAX:
                        break
                    if gang not in self._busy:
                        del self.fresh[gang]
                        self._busy[gang] = None
                        self._work.spawn(self._submit(gang), name=f"adopt {gang.name}")
                self._tell_incomplete(now_s)
                await self._tell_waiting(now_s)
        finally:
            await self._work.close()

    def _size_of(self, gang: Gang) -> int:
        """So many pods make it whole; 1 while others of it live, as whoever comes then takes the place of one."""
        key = (gang.namespace, gang.name)
        return 1 if self.living.get(key) else max(gang.size, self.sizes.get(key, 1))

    def _count_of(self, gang: Gang) -> int:
        return sum(uid not in self.job_of_pod for uid in self.gangs.get(gang, ()))

    def _is_whole(self, gang: Gang, changed_s: float, now_s: float) -> bool:
        if now_s < changed_s:
            return False
        size = self._size_of(gang)
        if size > 1:
            return self._count_of(gang) >= size
        return gang.name.startswith(ALONE) or now_s - changed_s > GATHER_S

    def _tell_incomplete(self, now_s: float) -> None:
        """Pods that wait for others of their gang are told for how many, when that changes."""
        for gang, at in self.fresh.items():
            size, count = self._size_of(gang), self._count_of(gang)
            if count < size and now_s - at > GATHER_S and self.counted.get(gang) != count:
                self.counted[gang] = count
                message = f"{count} of the {size} pods of gang {gang.name} are there; it starts when all are."
                condition = {"type": "PodScheduled", "status": "False", "reason": "GangIncomplete", "message": message}
                for uid in self.gangs.get(gang, ()):
                    self._work.spawn(self._tell(self.pods[uid], condition), name=f"tell {uid}")

    async def _submit(self, gang: Gang) -> None:
        try:
            await self._submitted(gang)
        except (RefusedError, TemporaryError) as error:
            log.warning("pods of %s/%s: %s", gang.namespace, gang.name, error)
            self.fresh[gang] = self.site.clock.monotonic_s() + 1.0
        finally:
            self._busy.pop(gang, None)

    async def _submitted(self, gang: Gang) -> None:
        pods = [self.pods[uid] for uid in self.gangs.get(gang, ()) if uid not in self.job_of_pod]
        if not pods:
            return
        fits = [fitted(pod, self.config, self.claims.found, self.claims.templates) for pod in pods]
        if unfit := [one for one in fits if isinstance(one, Unfit)]:
            await self._refused(gang, pods, REASON, unfit[0].message, again_s=1.0 if unfit[0].is_for_now else AGAIN_S)
            return
        pods = [one for one in fits if isinstance(one, Pod)]
        settled = await self._settled(gang, pods)
        if settled is None:
            return
        pods = settled
        roles = ordered(pods)
        pool = self.state.kept.pools.get(pods[0].metadata.labels.get("gangline.dev/pool", self.config.pool))
        spec = job_of(roles, self.config, pool.pool if pool is not None else None, self.config.gpu_resource)
        mine = owned(spec, pods[0].metadata, self.desk.namespaces.get(gang.namespace), self.config)
        if isinstance(mine, Fault):
            await self._refused(gang, pods, "Forbidden", mine.message)
            return
        uids = tuple(pod.metadata.uid for role in roles for pod in role)
        digest = sha256(" ".join(uids).encode()).hexdigest()[:32]
        # The digest lets a pod that was made anew be a job while the one before it is still ending.
        name = f"{gang.namespace}/{mine.name}"[:200] + f"-{digest[:6]}"
        named = replace(mine, name=name, labels={**mine.labels, LABEL_PODS: " ".join(uids), LABEL_GANG: gang.name})
        request = SubmitJobs(
            jobs=(named,), submit_id=f"{by(self.config.cluster)}:pods:{digest}", by=by(self.config.cluster)
        )
        match await ask(self.site, request, waits_for_fold=False):
            case Admitted(jobs=jobs):
                self._enter(JobId(jobs[0]), uids)
                self.living.setdefault((gang.namespace, gang.name), {})[JobId(jobs[0])] = None
            case Refused(refusals=refusals):
                reason = refusals[0].reason
                await self._refused(gang, pods, reason.code.value, sentence(reason))
            case Denied(message=message):
                await self._refused(gang, pods, "Invalid", message)
            case other:
                raise TemporaryError(f"admission answered {type(other).__name__}")

    async def _settled(self, gang: Gang, pods: list[Pod]) -> list[Pod] | None:
        """The pods as they can be placed; None when they were told why not, or are looked at again at once."""
        found = await self.volumes.settled(pods, self.affinities)
        if not isinstance(found, Unfit):
            return found
        if found.message:
            await self._refused(gang, pods, PLACE, found.message, again_s=VOLUME_S if found.is_for_now else AGAIN_S)
        else:
            self.fresh[gang] = self.site.clock.monotonic_s() + TICK_S
        return None

    async def _refused(self, gang: Gang, pods: list[Pod], code: str, message: str, again_s: float = AGAIN_S) -> None:
        """Tell the pods, and look at them again later: a group may be made, a limit raised."""
        self.fresh[gang] = self.site.clock.monotonic_s() + again_s
        condition = {"type": "PodScheduled", "status": "False", "reason": code, "message": message}
        for pod in pods:
            if not _says(pod, condition):
                await self._tell(pod, condition)

    async def _cancel(self, job: JobId) -> None:
        known = self.state.job(job)
        if known is not None and known.state not in (*ENDS, JobState.STOPPING):
            await ask(self.site, CancelJob(job=int(job), by=by(self.config.cluster), why="one of its pods is gone"))

    async def _tell_waiting(self, now_s: float) -> None:
        """Why their jobs wait, in the words that people and autoscalers look for."""
        names, self.waiting = list(self.waiting), {}
        for name in names:
            job = self.state.job(name)
            condition = scheduled_condition(self.state, job) if job is not None else None
            if job is None or condition is None:
                continue
            for uid in uids_of(job):
                code, last_s = self.told.get(uid, ("", -AGAIN_S))
                if uid not in self.pods or code == condition["reason"]:
                    continue
                if now_s - last_s < TOLD_S:
                    self.waiting[name] = None
                else:
                    self.told[uid] = (condition["reason"], now_s)
                    self._work.spawn(self._tell(self.pods[uid], condition), name=f"tell {uid}")

    async def _tell(self, pod: Pod, condition: dict[str, Any]) -> None:
        await tell(self.api, pod, condition, lambda: self.pods.get(pod.metadata.uid))


def _says(pod: Pod, condition: dict[str, Any]) -> bool:
    """True for a pod that has this condition already."""
    word = (condition["type"], condition["status"], condition["reason"], condition["message"])
    return any((one.type, one.status, one.reason, one.message) == word for one in pod.status.conditions)


def key_of(job: Job) -> tuple[str, str]:
    """Namespace and name of an adopted job's gang."""
    return job.spec.labels.get(LABEL_NAMESPACE, ""), job.spec.labels.get(LABEL_GANG, "")


def uids_of(job: Job) -> tuple[str, ...]:
    """Uids of an adopted job's pods, in the order of its roles; none for any other job."""
    return tuple(job.spec.labels.get(LABEL_PODS, "").split())
