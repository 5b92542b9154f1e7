"""What pods are told while they run: sizes and that they leave, as annotations which the kubelet writes into files."""

import logging
from collections.abc import Mapping

from gangline_core.facts import ExitCause, Fact, ResizeConfirmed
from gangline_core.ids import JobId, TaskId
from gangline_core.job import Job, ResizeStage, Task
from gangline_core.state import State
from gangline_kit.carrying.known import Phase
from gangline_kit.errors import TemporaryError
from gangline_kit.service import Site
from gangline_kit.tasks import Tasks
from gangline_kubernetes.api import MERGE, Api, RefusedError, path_of
from gangline_kubernetes.carrier import Carrier
from gangline_kubernetes.meeting import NOTE_NOTICE, NOTE_SIZE, size_of, text_of
from gangline_kubernetes.objects import Pod
from gangline_wire.contract import Sizing, sizing

log = logging.getLogger(__name__)

KEPT_MS = 500
"""A member that waited so long for a budget has its notice from then on."""
TELL_TRIES_MAX = 5
"""What a pod could not be told after so many tries is dropped: the next news says it, too."""


class Telling:
    """Keeps the pods of elastic jobs informed, and lets leaving ones have their notice."""

    def __init__(self, site: Site, api: Api, carrier: Carrier) -> None:
        """Nothing was told yet."""
        self.site = site
        self.api = api
        self.carrier = carrier
        self._told: dict[TaskId, str] = {}
        """Version of the size that each pod was last told."""
        self._wanted: dict[TaskId, Sizing] = {}
        """What is still to be told."""
        self._leaving: dict[TaskId, int] = {}
        """Members that shall leave, and since when they may; 0 while that is being asked."""
        self._work = Tasks()

    @property
    def state(self) -> State:
        """The fold."""
        return self.site.follower.state

    async def close(self) -> None:
        """Tell no more."""
        await self._work.close()

    def inform(self, task: Task) -> None:
        """Let a member of an elastic job know the job's size; what it knows already is not told again."""
        job = self.state.job(task.job)
        if job is None or not any(role.is_elastic for role in job.spec.roles):
            return
        if task.leaves and not self._leaving.get(task.id):
            # A budget may keep it: it is told that it leaves when it may.
            return
        name, found = task.id, sizing(job, task, self.state.tasks_of(job))
        pod = self.carrier.pods.get(name)
        if pod is None or found.version == self._known_by(pod, name):
            return
        is_being_told = name in self._wanted
        self._wanted[name] = found
        if not is_being_told:
            self._work.spawn(self._tell(name), name=f"tell {name}")

    def _known_by(self, pod: Pod, name: TaskId) -> str:
        if name in self._wanted:
            return self._wanted[name].version
        if name not in self._told:
            found = size_of(pod.metadata.annotations.get(NOTE_SIZE, ""))
            self._told[name] = found.version if found is not None else ""
        return self._told[name]

    async def _tell(self, name: TaskId) -> None:
        try:
            for number in range(1, TELL_TRIES_MAX + 1):
                found, pod = self._wanted[name], self.carrier.pods.get(name)
                if pod is None:
                    return
                notes = {NOTE_SIZE: text_of(found)}
                if found.leaves:
                    notes[NOTE_NOTICE] = f'{{"cause":"Resizing","leave_s":{found.leave_s}}}'
                if await self._annotated(pod, notes):
                    self._told[name] = found.version
                    if self._wanted[name] is found:
                        return
                else:
                    await self.api.pause(number)
        finally:
            self._wanted.pop(name, None)

    async def _annotated(self, pod: Pod, notes: Mapping[str, str]) -> bool:
        """True when the pod was told, or is not there to be told."""
        meta = pod.metadata
        body = {"metadata": {"uid": meta.uid, "annotations": dict(notes)}}
        try:
            await self.api.call(
                "PATCH", path_of("v1", "pods", namespace=meta.namespace, name=meta.name), body, form=MERGE
            )
        except RefusedError as error:
            if not error.is_gone and not error.is_another:
                log.warning("pod %s was not told of its size: %s", meta.name, error)
            return True
        except TemporaryError as error:
            log.info("pod %s was not told of its size yet: %s", meta.name, error)
            return False
        return True

    def leave(self, task: Task) -> None:
        """Tell a member that it leaves, and stop it when its notice is over; a repeat changes nothing."""
        if task.id not in self._leaving:
            self._leaving[task.id] = 0
            self._work.spawn(self._leave(task), name=f"leave {task.id}")
        self.inform(task)

    async def _leave(self, task: Task) -> None:
        """Counted from when the log said so, so that a new leader goes on counting; or from when it may leave."""
        asked_ms = self.site.now_ms()
        await self.carrier.may_leave(task.id)
        waited_ms = self.site.now_ms() - asked_ms
        self._leaving[task.id] = self.site.now_ms()
        self.inform(task)
        job = self.state.job(task.job)
        notice_ms = job.spec.elastic.notice_s * 1000 if job is not None else 0
        since_ms = self.site.now_ms() if waited_ms >= KEPT_MS else task.stop_ms
        await self.site.clock.sleep(max(0, since_ms + notice_ms - self.site.now_ms()) / 1000)
        self.carrier.stop(task.id, ExitCause.STOPPED)

    def forget(self, name: TaskId) -> None:
        """The task is over."""
        self._told.pop(name, None)
        self._leaving.pop(name, None)

    # --- the gang's word ----------------------------------------------------------------------------------

    def met(self, tasks: Mapping[TaskId, Task], names: list[TaskId]) -> tuple[Fact, ...]:
        """Gangs of these tasks that were waited for and whose pods are all Ready: readiness is a pod's word here."""
        jobs = dict.fromkeys(tasks[name].job for name in names if name in tasks)
        return tuple(fact for job in jobs if (fact := self._confirmed(job)) is not None)

    def _confirmed(self, name: JobId) -> Fact | None:
        job: Job | None = self.state.job(name)
        if job is None or job.resize is None or job.resize.stage != ResizeStage.CONFIRMING:
            return None
        members = [task for task in self.state.tasks_of(job) if not task.stop]
        if not all(self._is_ready(task.id) for task in members):
            return None
        return ResizeConfirmed(job=job.id, number=job.resize.number, size=len(members))

    def _is_ready(self, name: TaskId) -> bool:
        pod, local = self.carrier.pods.get(name), self.carrier.known.get(name)
        return pod is not None and pod.is_ready and local is not None and local.phase == Phase.RUNNING
