"""Letting owners make their pods, finding the pod of each task, and changing how many there are."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from gangline_core.ids import JobId, TaskId
from gangline_core.job import JobState
from gangline_core.spec import JobSpec
from gangline_core.state import State
from gangline_kit.carrying.environment import role_of
from gangline_kit.carrying.known import Order
from gangline_kit.errors import TemporaryError
from gangline_kit.service import Site
from gangline_kubernetes.adoption import is_gated
from gangline_kubernetes.api import Api, RefusedError
from gangline_kubernetes.broods import Broods, NoPodError
from gangline_kubernetes.config import Config
from gangline_kubernetes.due import Due
from gangline_kubernetes.handing import Unfit
from gangline_kubernetes.names import mark_of
from gangline_kubernetes.objects import OwnerObject, Pod
from gangline_kubernetes.owner_asks import Asks, index_for, part_for, shape_of
from gangline_kubernetes.owner_kinds import (
    OwnerKind,
    Part,
    gated,
    index_of,
    is_suspended,
    part_of,
    parts_of,
    suspension,
    unsuspended,
    whole_parts,
)
from gangline_kubernetes.owner_sizes import note, resized
from gangline_kubernetes.owner_writes import OwnerWriter
from gangline_kubernetes.ownership import LABEL_OWNER, Fault

POD_S = 0.05
POD_S_MAX = 120.0
"""So long an owner that was let go may take to make a pod."""
OTHER = "its owner asks for something else by now"


class Letting:
    """Which pods of owners are which tasks; the one hand that suspends owners and lets them go."""

    def __init__(
        self,
        site: Site,
        config: Config,
        api: Api,
        *,
        asks: Asks,
        broods: Broods,
        ask: Callable[[OwnerKind, OwnerObject], Awaitable[JobSpec | Unfit | Fault]],
        due: Due[str],
    ) -> None:
        """`ask` gives the job that an owner asks for now; owners that must be looked at are `due`."""
        self._site = site
        self._config = config
        self._asks = asks
        self._broods = broods
        self._ask = ask
        self._due = due
        self._writer = OwnerWriter(api)
        self.released: dict[JobId, int] = {}
        """Attempt of each job for which its owner was let go."""
        self.taken: dict[str, str] = {}
        """Task of each pod that was given to one, by uid."""
        self.extra: dict[str, None] = {}
        """Uids of pods that are not of their owner's job: they are jobs of their own."""
        self.stale: dict[JobId, str] = {}
        """Jobs that are not what their owner's pods are, and why."""
        self.failures: dict[str, int] = {}
        """How often in a row an owner made no pod that fitted, by uid."""
        self.since_ms = 0
        """Since when we lead: what was placed before, others may have let go."""
        self._hands: dict[str, asyncio.Lock] = {}

    @property
    def state(self) -> State:
        """The fold."""
        return self._site.follower.state

    def hand(self, uid: str) -> asyncio.Lock:
        """Who lets this owner go, or suspends it, does so alone."""
        return self._hands.setdefault(uid, asyncio.Lock())

    def drop(self, uid: str) -> None:
        """Nobody holds this owner any more."""
        if uid in self._hands and not self._hands[uid].locked():
            del self._hands[uid]

    def present(self, found: OwnerObject) -> OwnerObject:
        """The object as it is known by now."""
        known = self._broods.objects.get(found.metadata.uid)
        return known[1] if known is not None else found

    async def suspend(self, kind: OwnerKind, found: OwnerObject, meta: dict[str, Any]) -> None:
        """Keep its pods from existing, and change its own words.

        Raises:
            RefusedError, TemporaryError: as `Api.call`.
        """
        patch: dict[str, Any] = suspension(kind) | ({"metadata": meta} if meta else {})
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
        known = self._broods.objects.get(uid)
        if known is None:
            raise NoPodError("its owner is gone, and so are its pods")
        kind, found = known
        parts = whole_parts(kind, found)
        is_here = self.released.get(order.job.id) == order.job.attempt
        if not is_here and order.task.placed_ms < self.since_ms and not is_suspended(kind, found):
            # Whoever led before us let it go.
            self.released[order.job.id] = order.job.attempt
            is_here = True
        if not is_here:
            mine = await self._ask(kind, found)
            if isinstance(mine, JobSpec) and shape_of(mine) != shape_of(order.job.spec):
                raise self._unfit(order, OTHER)
            await self._release(kind, found, order)
        elif role_of(order).is_elastic:
            await self._resize(kind, found, order.job.id)
        spec = order.job.spec
        role = next(k for k, one in enumerate(spec.roles) if one.name == order.task.role)
        number, own = part_for(spec, role), index_for(spec, role, order.task.index)
        end_s = self._site.clock.monotonic_s() + POD_S_MAX
        while self._site.clock.monotonic_s() < end_s and self._is_wanted(order):
            for pod in self._candidates(uid, kind, parts, number):
                index = index_of(kind, parts[number], pod)
                seat = self._seat(order, kind, parts, number) if role_of(order).is_elastic else own
                is_held = pod.spec.scheduler_name == self._config.scheduler_name or is_gated(pod)
                fits = index in (None, seat) and (is_held or pod.spec.node_name == order.task.node)
                if fits and self.task_of(pod) in (None, order.task.id):
                    self._check(order, pod)
                    self.taken[pod.metadata.uid] = order.task.id
                    return pod
            if self.released.get(order.job.id) != order.job.attempt:
                raise TemporaryError("its owner could not be let go")
            await self._site.clock.sleep(POD_S)
        why = f"its owner made no pod for it within {POD_S_MAX:.0f} s"
        if not self._is_wanted(order):
            raise NoPodError(why)
        if order.job.id not in self.stale:
            self.failures[uid] = self.failures.get(uid, 0) + 1
        raise self._unfit(order, why)

    def _unfit(self, order: Order, why: str) -> NoPodError:
        """What to raise for a task of a job that has to be made anew."""
        self.stale.setdefault(order.job.id, why)
        self._due.now(order.job.spec.labels[LABEL_OWNER])
        return NoPodError(why)

    def _check(self, order: Order, pod: Pod) -> None:
        """See that a pod asks for no more than is booked for it.

        Raises:
            NoPodError: it does.
        """
        uid = order.job.spec.labels[LABEL_OWNER]
        if more := self._asks.learn(uid, role_of(order), pod):
            raise self._unfit(order, f"pod {pod.metadata.name} asks for more than its owner's template said: {more}")

    def task_of(self, pod: Pod) -> str | None:
        """The task that a pod was given to, or says that it is."""
        mark = mark_of(pod, self._config.cluster)
        return self.taken.get(pod.metadata.uid) or (mark.task if mark is not None else None)

    def _is_wanted(self, order: Order) -> bool:
        """True until the task is to be stopped."""
        task = self.state.kept.tasks.get(order.task.id)
        return task is not None and not task.stop_ms

    def _candidates(self, uid: str, kind: OwnerKind, parts: list[Any], number: int) -> list[Pod]:
        pods = [
            pod
            for pod in self._broods.pods_of(uid)
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
            if self.task_of(pod) not in (None, order.task.id)
        }
        return seat if seat not in taken else next(k for k in range(len(taken) + 1) if k not in taken)

    async def _release(self, kind: OwnerKind, found: OwnerObject, order: Order) -> None:
        """Let the owner go once, for all tasks of the attempt; errors as `_let_go`."""
        self.released[order.job.id] = order.job.attempt
        try:
            await self._let_go(kind, found, order)
        except NoPodError:
            raise
        except (RefusedError, TemporaryError):
            # Else nobody would let it go at the next try.
            self.released.pop(order.job.id, None)
            raise

    async def _let_go(self, kind: OwnerKind, found: OwnerObject, order: Order) -> None:
        """Let the owner make its pods: so many of each part, and those that others bind with our gate.

        Raises:
            NoPodError: such pods cannot be held.
        """
        asked = ((k, role) for k, role in enumerate(order.job.spec.roles) if role.is_elastic)
        sizes = {k: order.job.sizes.get(role.name, role.count) for k, role in asked}

        def let_go(now: OwnerObject) -> dict[str, Any]:
            patch = unsuspended(kind, now, sizes)
            return {**patch, "metadata": note(parts_of(kind, now), sizes)} if sizes else patch

        async with self.hand(found.metadata.uid):
            if not is_suspended(kind, self.present(found)):
                # From before: its templates may only be changed while it is suspended.
                await self.suspend(kind, found, {})
            held = await self.gate(kind, self.present(found))
            if isinstance(held, str):
                self.failures[found.metadata.uid] = self.failures.get(found.metadata.uid, 0) + 1
                raise self._unfit(order, held)
            await self._writer.change(kind, held, let_go)

    async def gate(self, kind: OwnerKind, found: OwnerObject) -> OwnerObject | str:
        """Have the pods that others bind made with our gate, so that none is bound before it has its place.

        Gives the owner as it is then, or why such pods cannot be held.

        Raises:
            RefusedError, TemporaryError: as `Api.call`.
        """
        if not gated(kind, found, self._config):
            return found
        why, after = f"the definition of {kind.name} drops them", None
        try:
            if kind.name == "Job" and found.status.get("startTime"):
                # As below: one that ran before somebody suspended it counts as started.
                await self._writer.write_status(kind, found, {"startTime": None})
            after = await self._writer.change(kind, found, lambda now: gated(kind, now, self._config))
        except RefusedError as error:
            if error.code not in (400, 403, 422):
                raise
            why = str(error)
        if after is not None and not gated(kind, after, self._config):
            return after
        ours = self._config.scheduler_name
        return f"its pod templates take no scheduling gates ({why}), so its pods could be anywhere: name {ours} in them"

    # --- changes of size ----------------------------------------------------------------------------------

    async def unmake(self, task: TaskId) -> None:
        """Have the owner of a member that leaves a gang want one pod less, before that pod is deleted.

        Raises:
            RefusedError, TemporaryError: as `Api.call`.
        """
        known = self.state.kept.tasks.get(task)
        job = self.state.job(known.job) if known is not None else None
        owner = self._broods.objects.get(job.spec.labels.get(LABEL_OWNER, "")) if job is not None else None
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
        named = {task: pod for pod in self._broods.pods_of(uid) if (task := self.task_of(pod))}
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
