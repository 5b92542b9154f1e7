"""Bringing tasks into being: creates or binds their pods, until it is known whether each is there or was refused."""

import logging
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from gangline_core.facts import ExitCause
from gangline_kit.carrying.known import Order
from gangline_kit.errors import OutcomeUnknownError, TemporaryError
from gangline_kubernetes import manifests
from gangline_kubernetes.adoption import GATE
from gangline_kubernetes.allocating import Allocator
from gangline_kubernetes.api import MERGE, STRATEGIC, Api, RefusedError, path_of
from gangline_kubernetes.claims import Claims
from gangline_kubernetes.config import Config, DeviceMode
from gangline_kubernetes.devices import Claim
from gangline_kubernetes.evicting import evict
from gangline_kubernetes.manifests import Home, NoImageError
from gangline_kubernetes.meeting import NOTE_NOTICE
from gangline_kubernetes.names import FINALIZER, MANAGER, NOTE_VISIBLE, Mark, mark_of
from gangline_kubernetes.objects import Meta, Pod
from gangline_kubernetes.places import pointed
from gangline_kubernetes.shallow import read

log = logging.getLogger(__name__)

TRIES_MAX = 40
"""So often a start is tried while the server does not answer; with growing pauses that is minutes."""
RIGHTS_TRIES_MAX = 10
"""So often where we are said to lack a right, which with its pauses is less than a minute."""
RELEASE_TRIES = 5
"""So often a pod is read anew at once, when somebody changed it between our reading and our writing."""


class Refusal(Struct, frozen=True):
    """A task that will not start here."""

    cause: ExitCause
    error: str
    blames_node: bool = True
    """False for a place that would have been good."""


class Start(Struct, frozen=True):
    """One task to bring into being."""

    order: Order
    home: Home
    uuids: tuple[str, ...] = ()
    devices: dict[int, tuple[str, str]] = {}
    """Pool and device behind each GPU index, in mode dra."""
    claims: tuple[Claim, ...] = ()
    """Claims of a pod of somebody else that get those devices, in the order in which the pod names them."""
    adopted: Meta | None = None
    """The pod of somebody else that is to be bound, instead of making one."""
    is_gated: bool = False
    """True when our scheduling gate must be taken off that pod first."""
    is_others: bool = False
    """True when another scheduler binds it: we say where, and take our gate off."""


class Starter:
    """Makes starts come true; safe to be asked twice for one task, as answers may be lost."""

    def __init__(
        self, api: Api, config: Config, claims: Claims, *, is_away: Callable[[], bool] = lambda: False
    ) -> None:
        """Write through this API; `claims` say which devices others hold, `is_away` whether it answers nobody."""
        self._is_away = is_away
        self._api = api
        self._config = config
        self.claims = claims
        self._allocator = Allocator(api, config, claims)
        self._pod = msgspec.json.Decoder(Pod)

    async def start(self, start: Start) -> Pod | Refusal:
        """The task's pod on its node, or why there is none.

        Raises:
            TemporaryError: the server did not answer for very long.
        """
        order = start.order
        if order.task.gpus and self._config.mode is DeviceMode.COUNT and order.task.gpu_milli % 1000:
            return Refusal(ExitCause.START_FAILED, "mode count cannot share a GPU; use mode annotation or dra")
        is_one_write = start.adopted is None and self._config.mode is not DeviceMode.DRA
        why, forbidden = "the API server does not answer", 0
        for number in range(1, TRIES_MAX + 1):
            if is_one_write and self._is_away():
                # Nothing was made, so it may be made somewhere else.
                break
            try:
                if start.adopted is not None:
                    if start.claims:
                        await self._allocator.give(order, start.adopted, start.claims, start.devices)
                    return await self._bind(start, start.adopted)
                return await self._create(start)
            except RefusedError as error:
                forbidden += error.is_for_lack_of_rights
                if not passes(error, forbidden):
                    if start.adopted is not None and start.claims:
                        await self._allocator.take_back(start.adopted, start.claims)
                    return _judged(error)
                why = str(error)
                log.info("start of %s: %s; again soon", order.task.id, error)
            except NoImageError as error:
                return Refusal(ExitCause.START_FAILED, str(error))
            except OutcomeUnknownError as error:
                is_one_write = False
                log.info("start of %s: %s; looking whether it was done", order.task.id, error)
            except TemporaryError as error:
                log.warning("start of %s: %s", order.task.id, error)
            await self._api.pause(number)
        raise TemporaryError(f"task {order.task.id} could not be started: {why}")

    async def _create(self, start: Start) -> Pod | Refusal:
        body = manifests.pod(start.order, self._config, start.home, uuids=start.uuids)
        is_dra = self._config.mode is DeviceMode.DRA and bool(start.order.task.gpus)
        if is_dra:
            # Bound only when its devices are its own: a kubelet that sees it before would turn it away.
            del body["spec"]["nodeName"]
        made = await self._make(path_of("v1", "pods", namespace=start.home.namespace), body)
        pod = read(self._pod, made)
        found = self._checked(start, pod)
        if isinstance(found, Refusal) or not is_dra or pod.spec.node_name:
            return found
        self.claims.pods[pod.metadata.uid] = start.order.task.id
        claim = await self._allocator.make(start.order, pod.metadata)
        await self._allocator.give(start.order, pod.metadata, [claim], start.devices)
        return await self._bind(start, pod.metadata)

    async def _make(self, path: str, body: Any) -> bytes:
        """Create the object, or give the one that an earlier try has made."""
        try:
            return await self._api.call("POST", path, body)
        except RefusedError as error:
            if error.reason != "AlreadyExists":
                raise
            found = await self._api.get(f"{path}/{body['metadata']['name']}")
            if found is None:
                raise OutcomeUnknownError("it was there and is gone") from None
            return found

    def _checked(self, start: Start, pod: Pod) -> Pod | Refusal:
        task = start.order.task
        if mark_of(pod, self._config.cluster) != Mark(task=task.id, placed_ms=task.placed_ms):
            return Refusal(ExitCause.PLACE_REFUSED, f"another pod is called {pod.metadata.name}")
        if pod.spec.node_name not in ("", task.node):
            return Refusal(ExitCause.PLACE_REFUSED, f"its pod is on node {pod.spec.node_name}")
        return pod

    async def _bind(self, start: Start, meta: Meta) -> Pod | Refusal:
        """Bind a pod that is there; its devices come along in the same write.

        Raises:
            RefusedError: it is somebody else's, gated, or being deleted.
        """
        task = start.order.task
        if start.is_others:
            return await self._point(start, meta)
        if start.is_gated:
            await self._ungate(meta)
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": meta.name,
                "namespace": meta.namespace,
                "uid": meta.uid,
                "annotations": self._notes(start, meta) | self._visible(start),
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": task.node},
        }
        path = path_of("v1", "pods", namespace=meta.namespace, name=meta.name)
        try:
            await self._api.call("POST", f"{path}/binding", binding)
        except RefusedError as error:
            if error.code != 409:
                raise
            # Perhaps by ourselves, and the answer was lost: only the pod knows.
            found = await self._api.get(path)
            if found is None:
                raise
            pod = read(self._pod, found)
            is_unbound = pod.metadata.uid == meta.uid and not pod.spec.node_name
            if is_unbound and not pod.metadata.deletion_timestamp and error.is_of_versions:
                # Somebody wrote in the same moment; nothing speaks against it.
                raise TemporaryError(str(error)) from error
            if pod.metadata.uid != meta.uid or pod.spec.node_name != task.node:
                raise
            return self._checked(start, pod)
        found = await self._api.get(path) if start.adopted is None else None
        return read(self._pod, found) if found is not None else self._assumed(start, meta)

    async def _point(self, start: Start, meta: Meta) -> Pod | Refusal:
        """Let another scheduler bind the pod, to the task's node only; in one write with our marks.

        Raises:
            RefusedError: it is gone, or the server does not take the change.
            TemporaryError: somebody else changes it all the time.
        """
        task, path = start.order.task, path_of("v1", "pods", namespace=meta.namespace, name=meta.name)
        for _ in range(RELEASE_TRIES):
            pod = read(self._pod, await self._api.call("GET", path))
            if pod.metadata.uid != meta.uid or pod.metadata.deletion_timestamp:
                return Refusal(ExitCause.PLACE_REFUSED, f"pod {meta.name} is gone", blames_node=False)
            if mark_of(pod, self._config.cluster) == Mark(task=task.id, placed_ms=task.placed_ms):
                return self._checked(start, pod)
            body = self._pointing(start, pod)
            if isinstance(body, Refusal):
                return body
            try:
                return self._checked(start, read(self._pod, await self._api.call("PATCH", path, body, form=MERGE)))
            except RefusedError as error:
                if error.code != 409:
                    raise
        raise TemporaryError(f"pod {meta.name} is changed by others all the time")

    def _pointing(self, start: Start, pod: Pod) -> dict[str, Any] | Refusal:
        """What changes about such a pod: where it may be, its gates, and our marks."""
        meta, spec = pod.metadata, pod.spec
        seen = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        body: dict[str, Any] = {"metadata": {**seen, "annotations": self._notes(start, meta)}}
        if spec.node_name:
            return body
        if not any(gate.name == GATE for gate in spec.scheduling_gates):
            why = f"pod {meta.name} lost its gate, so {spec.scheduler_name} binds it wherever it likes"
            return Refusal(ExitCause.PLACE_REFUSED, why, blames_node=False)
        gates = [{"name": gate.name} for gate in spec.scheduling_gates if gate.name != GATE]
        return {**body, "spec": {"affinity": pointed(spec.affinity, start.order.task.node), "schedulingGates": gates}}

    async def _ungate(self, meta: Meta) -> None:
        """Take our gate off, which may be off already."""
        body = {"metadata": {"uid": meta.uid}, "spec": {"schedulingGates": [{"name": GATE, "$patch": "delete"}]}}
        path = path_of("v1", "pods", namespace=meta.namespace, name=meta.name)
        await self._api.call("PATCH", path, body, form=STRATEGIC)

    def _notes(self, start: Start, meta: Meta) -> dict[str, str]:
        """Our marks for a pod of somebody else."""
        return manifests.marks(start.order, self._config) | manifests.stays(meta)

    def _visible(self, start: Start) -> dict[str, str]:
        return {NOTE_VISIBLE: ",".join(start.uuids)} if start.uuids else {}

    def _assumed(self, start: Start, meta: Meta) -> Pod:
        """The pod as the binding made it; the watch brings the rest."""
        notes = {**meta.annotations, **self._notes(start, meta)}
        after = msgspec.structs.replace(meta, annotations=notes)
        spec = msgspec.structs.replace(Pod(metadata=meta).spec, node_name=start.order.task.node)
        return Pod(metadata=after, spec=spec)

    async def release(self, pod: Pod) -> None:
        """Take our finalizer off a pod whose end is in the log.

        Raises:
            RefusedError, TemporaryError: as `Api.call`.
        """
        if self._config.mode is DeviceMode.DRA:
            is_ours = pod.metadata.labels.get("app.kubernetes.io/managed-by") == MANAGER
            await (self._allocator.drop if is_ours else self._allocator.take_back)(pod.metadata)
        uid, path = pod.metadata.uid, path_of("v1", "pods", namespace=pod.metadata.namespace, name=pod.metadata.name)
        try:
            for _ in range(RELEASE_TRIES):
                change = _let_go(pod.metadata)
                if not change or pod.metadata.uid != uid:
                    return
                # The list of finalizers is sent whole: with the version it was read in, so that nobody's is lost.
                change |= {"uid": uid, "resourceVersion": pod.metadata.resource_version}
                try:
                    await self._api.call("PATCH", path, {"metadata": change}, form=MERGE)
                    return
                except RefusedError as error:
                    if error.code != 409:
                        raise
                pod = read(self._pod, await self._api.call("GET", path))
        except RefusedError as error:
            if error.code != 404 and not error.is_another:
                raise
            return
        raise TemporaryError(f"pod {pod.metadata.name} is changed by others all the time")

    async def ask(self, pod: Meta) -> None:
        """See whether a pod might be evicted now; one that is gone might.

        Raises:
            KeptError, RefusedError, TemporaryError: as `delete`.
        """
        try:
            await evict(self._api, pod, {"preconditions": {"uid": pod.uid}}, is_asked_only=True)
        except RefusedError as error:
            if error.code not in (404, 409):
                raise

    async def delete(
        self, pod: Meta, *, grace_s: int | None, notice: str = "", makes_way: str = "", is_eviction: bool = False
    ) -> None:
        """Ask a pod to end, with our notice first; gone already is as good.

        One that `makes_way` says so by the condition that its owner's rules about failures look for.

        Raises:
            KeptError: it is an eviction, and a disruption budget does not allow it now; the pod was told nothing.
            RefusedError, TemporaryError: as `Api.call`.
        """
        path = path_of("v1", "pods", namespace=pod.namespace, name=pod.name)
        options: dict[str, Any] = {"preconditions": {"uid": pod.uid}}
        if grace_s is not None:
            options["gracePeriodSeconds"] = max(manifests.GRACE_S_MIN, grace_s)
        try:
            if is_eviction:
                await evict(self._api, pod, options, is_asked_only=True)
            if notice:
                notes = {**manifests.may_go(pod), NOTE_NOTICE: notice}
                body = {"metadata": {"uid": pod.uid, "annotations": notes}}
                await self._api.call("PATCH", path, body, form=MERGE)
            if makes_way:
                condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
                told = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition | {"message": makes_way}]}}
                await self._api.call("PATCH", f"{path}/status", told, form=STRATEGIC)
            if is_eviction:
                await evict(self._api, pod, options)
            else:
                await self._api.call("DELETE", path, options)
        except RefusedError as error:
            if error.code not in (404, 409) and not error.is_another:
                raise


def _let_go(meta: Meta) -> dict[str, Any]:
    """What changes about a pod that goes its way without us; empty when nothing does."""
    change: dict[str, Any] = {}
    if FINALIZER in meta.finalizers:
        change["finalizers"] = [name for name in meta.finalizers if name != FINALIZER]
    if (notes := manifests.may_go(meta)) and not meta.deletion_timestamp:
        change["annotations"] = notes
    return change


def passes(error: RefusedError, forbidden: int) -> bool:
    """True for a refusal that ends by itself, and that is not the job's fault.

    A namespace that was just made gets its service account in a moment, a server that has too much to do, or whose
    store does not answer, is well again some time, and credentials and rights of ours are made anew where they are
    upgraded. Rights may also be kept from us for good, so after so many tries that were forbidden it does not pass.
    """
    if error.code in (401, 429) or (error.code >= 500 and not error.is_too_large):
        return True
    if error.is_for_lack_of_rights:
        return forbidden < RIGHTS_TRIES_MAX
    return error.code == 403 and "service account" in error.message and "not found" in error.message


def _judged(error: RefusedError) -> Refusal:
    """Whether the job is to blame for what the server refused, or only this place and moment."""
    if error.code in (409, 410) or error.is_another or (error.code == 404 and "pods" in error.message):
        return Refusal(ExitCause.PLACE_REFUSED, str(error))
    return Refusal(ExitCause.START_FAILED, str(error))


def decode_pod(data: bytes) -> Pod:
    """A pod as the server answers with it."""
    return read(msgspec.json.Decoder(Pod), data)
