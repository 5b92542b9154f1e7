"""The tasks on the cluster's nodes: what the watch shows of their pods, and what is being done about them."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec.structs import replace

from gangline_core.facts import ExitCause
from gangline_core.ids import NodeId, TaskId
from gangline_core.job import Job, JobState, Outcome
from gangline_core.reasons import sentence
from gangline_kit.carrying.known import Local, Order, Phase
from gangline_kit.errors import TemporaryError
from gangline_kit.service import Site
from gangline_kit.tasks import Tasks
from gangline_kubernetes.api import RefusedError
from gangline_kubernetes.broods import NoPodError
from gangline_kubernetes.config import Config
from gangline_kubernetes.evicting import KeptError, ends_for_others
from gangline_kubernetes.happenings import Happenings
from gangline_kubernetes.marks import Marks
from gangline_kubernetes.names import MANAGER, mark_of
from gangline_kubernetes.objects import Pod
from gangline_kubernetes.reading import HOPELESS, is_of_the_node, local_of, stuck, unbound, vanished
from gangline_kubernetes.starts import Refusal, Start, Starter
from gangline_kubernetes.statuses import resized
from gangline_wire.seal import SecretMissingError

log = logging.getLogger(__name__)

HOPELESS_S = 30.0
"""A container whose settings are wrong gets this long to be put right."""
UNBOUND_S = 60.0
"""So long another scheduler may take to bind a pod to the node that it was let go for."""
STOP_TRIES_MAX = 1_000
MANAGED_BY = "app.kubernetes.io/managed-by"
CONDITION_CHARS_MAX = 1_000
GOES_ON = frozenset({JobState.RUNNING, JobState.RESIZING})
OWN_ENDS = frozenset({ExitCause.START_FAILED, ExitCause.TIME_LIMIT})
"""Ends that a task is itself to blame for."""


class Makes(Protocol):
    """Knows what a start needs beside its order, and who would make anew what is stopped."""

    async def make(self, order: Order) -> Start:
        """The start of one task."""

    async def unmake(self, task: TaskId) -> None:
        """Have nobody make its pod anew."""


class Carrier:
    """The same promises as an agent's runner: `known`, `start`, `stop`, `forget`; pods are its processes."""

    def __init__(
        self,
        site: Site,
        config: Config,
        *,
        starter: Starter,
        makes: Makes,
        marks: Marks,
        changed: Callable[[TaskId], None],
    ) -> None:
        """`makes` tells how an order is started; `changed` hears of every task about which something is new."""
        self.site = site
        self.config = config
        self.starter = starter
        self._marks = marks
        self._makes = makes
        self._changed = changed
        self._known: dict[TaskId, Local] = {}
        self.pods: dict[TaskId, Pod] = {}
        """The pod of each task, as last seen."""
        self._stopping: dict[TaskId, ExitCause] = {}
        self._starting: dict[TaskId, Order] = {}
        self._stuck_since: dict[TaskId, float] = {}
        self._faults: dict[TaskId, str] = {}
        """What kept a task from starting, while its pod is being taken away."""
        self.resting: dict[NodeId, tuple[float, str]] = {}
        """Nodes that refused a pod: until when they are given no more, and why."""
        self.kept: dict[TaskId, str] = {}
        """Tasks that shall end and whose pods a disruption budget keeps, and what it says."""
        self.kept_ms: dict[TaskId, int] = {}
        """When a budget kept each of those last, until it is gone: its time to end counts from then."""
        self.happenings: Happenings | None = None
        self._slots = asyncio.Semaphore(config.in_flight)
        self._work = Tasks()

    @property
    def known(self) -> Mapping[TaskId, Local]:
        """Every task that is here or was, and that was not to be forgotten."""
        return self._known

    async def close(self) -> None:
        """Do no more; pods stay as they are."""
        await self._work.close()

    # --- what the watch tells -----------------------------------------------------------------------------

    def hear(self, before: Pod | None, after: Pod | None) -> None:
        """A pod came, changed, or is gone."""
        pod = after or before
        mark = self._marks.of(pod) if pod is not None else None
        if mark is None or pod is None:
            return
        task = mark.task
        self.starter.claims.pods.setdefault(pod.metadata.uid, task)
        held = self.pods.get(task)
        if held is not None and held.metadata.uid != pod.metadata.uid and not (after and held.is_over):
            # A second pod of the same task can only be the ghost of another life; it is nobody's.
            return
        if after is not None:
            self.pods[task] = after
            local = local_of(after, mark, stopping=self._stopping.get(task))
            self._enter(self._kept(local))
            if held is not None and after.is_ready != held.is_ready:
                # A gang that changed its size may have been waited for until this.
                self._changed(task)
            return
        self.pods.pop(task, None)
        self.starter.claims.forget(pod.metadata.uid)
        local = self._known.get(task) or local_of(pod, mark, stopping=None)
        if local.phase != Phase.EMPTY:
            self._enter(vanished(local, stopping=self._stopping.get(task)))

    def _kept(self, local: Local) -> Local:
        """What was once seen of an end stays, whatever is deleted afterwards."""
        known = self._known.get(local.task)
        ended = known is not None and known.phase == Phase.EMPTY and known.placed_ms == local.placed_ms
        return known if ended and known is not None else local

    def _enter(self, local: Local) -> None:
        if local.phase == Phase.EMPTY and not local.error:
            local = replace(local, error=self._faults.get(local.task, ""))
        if self._known.get(local.task) == local:
            return
        self._known[local.task] = local
        if local.phase == Phase.EMPTY:
            self._stuck_since.pop(local.task, None)
            node = self.pods[local.task].spec.node_name if local.task in self.pods else ""
            if local.cause == ExitCause.PLACE_REFUSED and node:
                self._rest(NodeId(node), local.error)
        self._changed(local.task)

    def _rest(self, node: NodeId, why: str) -> None:
        self.resting[node] = (self.site.clock.monotonic_s() + self.config.rest_s, f"refused a pod: {why}")

    # --- orders -------------------------------------------------------------------------------------------

    def start(self, order: Order) -> None:
        """Begin to start a task; must not be called for a known one."""
        task = order.task
        self._starting[task.id] = order
        self._known[task.id] = Local(task=task.id, placed_ms=task.placed_ms, phase=Phase.STARTING, silent=True)
        self._work.spawn(self._start(order), name=f"start {task.id}")

    async def _start(self, order: Order) -> None:
        task = order.task
        began_s = self.site.clock.monotonic_s()
        try:
            done = await self._tried(order)
        finally:
            self._starting.pop(task.id, None)
        if isinstance(done, Refusal):
            log.warning("task %s on node %s: %s", task.id, task.node, done.error)
            self.site.metrics.count("gangline_kubernetes_refused_total", cause=done.cause.value)
            if done.cause == ExitCause.PLACE_REFUSED and done.blames_node:
                self._rest(task.node, done.error)
            local = Local(
                task=task.id,
                placed_ms=task.placed_ms,
                phase=Phase.EMPTY,
                cause=self._stopping.get(task.id, done.cause),
                error=done.error,
                silent=True,
            )
            self._enter(local)
            return
        self.site.metrics.count("gangline_kubernetes_bound_total")
        self.site.metrics.observe("gangline_kubernetes_bind_seconds", self.site.clock.monotonic_s() - began_s)
        self._seen(done)
        if task.id in self._stopping:
            self._work.spawn(self._stop(task.id), name=f"stop {task.id}")

    async def _tried(self, order: Order) -> Pod | Refusal:
        if order.task.id in self._stopping:
            return Refusal(ExitCause.STOPPED, "stopped before it was started")
        try:
            # What a start needs may take long to come, such as a pod that its owner has yet to make.
            start = await self._makes.make(order)
            async with self._slots:
                return await self.starter.start(start)
        except NoPodError as error:
            return Refusal(ExitCause.PLACE_REFUSED, str(error), blames_node=False)
        except TemporaryError as error:
            return Refusal(ExitCause.PLACE_REFUSED, str(error))
        except (RefusedError, SecretMissingError) as error:
            return Refusal(ExitCause.START_FAILED, str(error))
        except Exception as error:
            log.exception("start of %s", order.task.id)
            return Refusal(ExitCause.START_FAILED, f"{type(error).__name__}: {error}"[:500])

    def _seen(self, pod: Pod) -> None:
        """The answer to a write shows the pod before the watch does; what the watch showed already is newer."""
        mark = mark_of(pod, self.config.cluster)
        if mark is not None and mark.task not in self.pods and self._known[mark.task].phase == Phase.STARTING:
            self.pods[mark.task] = pod

    def stop(self, task: TaskId, cause: ExitCause) -> None:
        """Ask a task to stop, in the end by force; a repeat changes nothing."""
        if task in self._stopping:
            return
        self._stopping[task] = cause
        if task not in self._starting:
            self._work.spawn(self._stop(task), name=f"stop {task}")

    async def _stop(self, name: TaskId) -> None:
        """Delete the task's pod; its end is what the watch then shows."""
        for number in range(1, STOP_TRIES_MAX):
            pod = self.pods.get(name)
            if pod is None or self._known[name].phase == Phase.EMPTY:
                return
            try:
                if self._leaves(name):
                    # Its owner would take it away without asking.
                    await self._ask(name, pod)
                await self._makes.unmake(name)
                await self._end(name, pod)
                return
            except KeptError as error:
                await self._stays(name, pod, str(error))
            except (RefusedError, TemporaryError) as error:
                log.warning("stop of %s: %s", name, error)
            await self.site.clock.sleep(min(30.0, 0.5 * number))

    async def may_leave(self, name: TaskId) -> None:
        """Wait until no budget keeps a member that shall leave a gang which goes on: only then is it told."""
        for number in range(1, STOP_TRIES_MAX):
            pod = self.pods.get(name)
            if pod is None or not self._leaves(name):
                return
            try:
                await self._ask(name, pod)
                return
            except KeptError as error:
                await self._stays(name, pod, str(error))
            except (RefusedError, TemporaryError) as error:
                log.warning("whether %s may leave: %s", name, error)
            await self.site.clock.sleep(min(30.0, 0.5 * number))

    async def _ask(self, name: TaskId, pod: Pod) -> None:
        if not self.is_past_budget(name):
            async with self._slots:
                await self.starter.ask(pod.metadata)
            self.kept.pop(name, None)

    async def _stays(self, name: TaskId, pod: Pod, why: str) -> None:
        self.kept[name], self.kept_ms[name] = why, self.site.now_ms()
        await self._tell(pod, "EvictionWaits", f"{self._makes_way(name)} It stays for now: {why}")

    def _leaves(self, name: TaskId) -> bool:
        """True for a member that leaves for others, while its job runs on."""
        job = self._job_of(name)
        return job is not None and job.state in GOES_ON and self._is_for_others(name)

    async def _end(self, name: TaskId, pod: Pod) -> None:
        """Delete the pod, or evict it where that is for somebody else, who may have to wait for a budget's leave."""
        why = self._makes_way(name)
        is_eviction = self._is_for_others(name) and not self.is_past_budget(name)
        async with self._slots:
            await self.starter.delete(
                pod.metadata,
                grace_s=self._grace(name),
                notice=self._notice(name),
                makes_way=why if pod.metadata.labels.get(MANAGED_BY) != MANAGER else "",
                is_eviction=is_eviction,
            )
        if self.kept.pop(name, None) is not None and not is_eviction:
            patience_s = f"{self.config.budget_s:.0f} s"
            await self._tell(pod, "BudgetOverridden", f"{why} Its disruption budget was waited for {patience_s}.")

    async def _tell(self, pod: Pod, word: str, message: str) -> None:
        if self.happenings is not None:
            await self.happenings.tell(pod.metadata, word, message, is_warning=True, kind=("v1", "Pod"))

    def is_past_budget(self, name: TaskId) -> bool:
        """True for a task whose budget was waited for as long as the settings say."""
        task = self.site.follower.state.kept.tasks.get(name)
        patience_ms = int(self.config.budget_s * 1000)
        return bool(patience_ms) and task is not None and self.site.now_ms() >= task.stop_ms + patience_ms

    def _is_for_others(self, name: TaskId) -> bool:
        task, job = self.site.follower.state.kept.tasks.get(name), self._job_of(name)
        is_own = self._stopping.get(name) in OWN_ENDS
        return task is not None and job is not None and not is_own and ends_for_others(job, task)

    def _job_of(self, name: TaskId) -> Job | None:
        state = self.site.follower.state
        task = state.kept.tasks.get(name)
        return state.job(task.job) if task is not None else None

    def _makes_way(self, name: TaskId) -> str:
        """For whom or what a task ends that is not to blame for it, as its job queues again or goes on without it."""
        job = self._job_of(name)
        if job is not None and self._leaves(name):
            return resized(job)[:CONDITION_CHARS_MAX]
        if (
            job is None
            or job.outcome not in (None, Outcome.REQUEUED)
            or job.reason is None
            or self._stopping.get(name) in OWN_ENDS
        ):
            return ""
        return sentence(job.reason)[:CONDITION_CHARS_MAX]

    def _grace(self, name: TaskId) -> int | None:
        task = self.site.follower.state.kept.tasks.get(name)
        job = self.site.follower.state.job(task.job) if task is not None else None
        return None if job is None else job.spec.grace_s

    def _notice(self, name: TaskId) -> str:
        """What the program is told: why it must end and when it will be killed."""
        state = self.site.follower.state
        task = state.kept.tasks.get(name)
        job = state.job(task.job) if task is not None else None
        if task is None or job is None:
            return ""
        code = job.reason.code.value if job.reason is not None else "Stopped"
        return f'{{"cause":"{code}","kill_ms":{task.stop_ms + job.spec.grace_s * 1000}}}'

    def forget(self, task: TaskId) -> None:
        """The log knows the end of the task: its pod may go."""
        self._known.pop(task, None)
        self._stopping.pop(task, None)
        self._stuck_since.pop(task, None)
        self._faults.pop(task, None)
        self.kept.pop(task, None)
        self.kept_ms.pop(task, None)
        pod = self.pods.pop(task, None)
        if pod is not None:
            self._work.spawn(self._release(pod), name=f"release {task}")

    async def _release(self, pod: Pod) -> None:
        """Let the pod go; with a Job object it stays to be looked at until that goes, without one it goes now."""
        for number in range(1, STOP_TRIES_MAX):
            try:
                async with self._slots:
                    await self.starter.release(pod)
                    is_ours = pod.metadata.labels.get("app.kubernetes.io/managed-by") == MANAGER
                    # One that got no node shows nobody anything.
                    is_idle = not pod.metadata.owner_references or not pod.spec.node_name
                    if is_ours and is_idle and not pod.metadata.deletion_timestamp:
                        await self.starter.delete(pod.metadata, grace_s=None)
                return
            except (RefusedError, TemporaryError) as error:
                log.warning("release of pod %s: %s", pod.metadata.name, error)
            await self.site.clock.sleep(min(30.0, 0.5 * number))

    def contest(self, task: TaskId, why: str) -> None:
        """Somebody else was given a device of this task: it makes way if it has not begun."""
        local = self._known.get(task)
        if self._faults.get(task) == why:
            return
        self._faults[task] = why
        if local is None or local.phase != Phase.STARTING:
            log.warning("task %s runs, and %s", task, why)
            self.site.metrics.count("gangline_kubernetes_contested_total")
            return
        self.stop(task, ExitCause.PLACE_REFUSED)

    # --- what takes too long ------------------------------------------------------------------------------

    def look_for_stuck(self) -> None:
        """Pods that could not be started for too long count as failed to start."""
        now_s = self.site.clock.monotonic_s()
        for name, pod in self.pods.items():
            local = self._known.get(name)
            if local is None or local.phase != Phase.STARTING:
                self._stuck_since.pop(name, None)
                continue
            is_unbound = not pod.spec.node_name and pod.spec.scheduler_name != self.config.scheduler_name
            why = unbound(pod) if is_unbound else stuck(pod)
            if why is None:
                self._stuck_since.pop(name, None)
                continue
            since_s = self._stuck_since.setdefault(name, now_s)
            patience_s = UNBOUND_S if is_unbound else HOPELESS_S if why.reason in HOPELESS else self.config.stuck_s
            if now_s - since_s >= patience_s:
                self._faults[name] = f"{why.reason}: {why.message}"
                is_unbound = is_unbound or is_of_the_node(why.message)
                self.stop(name, ExitCause.PLACE_REFUSED if is_unbound else ExitCause.START_FAILED)
                task = self.site.follower.state.kept.tasks.get(name)
                if is_unbound and task is not None:
                    self._rest(task.node, self._faults[name])
