"""From an order to its start: where the pod belongs, which devices it gets, and what it needs beside itself."""

import asyncio
import logging
from collections.abc import Mapping

from msgspec.structs import replace

from gangline_core.ids import JobId, TaskId
from gangline_core.job import JobState
from gangline_kit.carrying.known import Order
from gangline_kit.carrying.sealed import sealed_values
from gangline_kit.errors import TemporaryError
from gangline_kit.service import Site
from gangline_kubernetes.adoption import is_gated
from gangline_kubernetes.api import Api, RefusedError, path_of
from gangline_kubernetes.broods import NoPodError
from gangline_kubernetes.config import Config, DeviceMode
from gangline_kubernetes.desk import Desk
from gangline_kubernetes.devices import Claim
from gangline_kubernetes.evicting import KeptError
from gangline_kubernetes.handing import claim_names
from gangline_kubernetes.inventory import Inventory
from gangline_kubernetes.manifests import Home, secret_key, secret_name
from gangline_kubernetes.meeting import meets, owner_reference, service, service_name
from gangline_kubernetes.names import own_labels
from gangline_kubernetes.nursery import Nursery
from gangline_kubernetes.objects import Pod
from gangline_kubernetes.owners import Owners
from gangline_kubernetes.ownership import LABEL_OWNER, LABEL_PODS
from gangline_kubernetes.starts import TRIES_MAX, Start, decode_pod, passes
from gangline_wire.seal import PLACEHOLDER, unseal_text
from gangline_wire.streams import SECRETS

log = logging.getLogger(__name__)

SECURITY = "pod-security.kubernetes.io/enforce"
"""Label of a namespace: what it lets pods do."""
CLAIM_TRIES_MAX = 8
"""So often a pod is read again until its claims are there; with growing pauses that is half a minute."""
THERE_S = 10.0
"""A Service that was there is made again, unless it is still there, by a start that comes later than this."""
THERE_MAX = 10_000
"""Jobs whose Service is known to be there."""


class Maker:
    """Knows what a start needs beside its order."""

    def __init__(
        self,
        site: Site,
        config: Config,
        api: Api,
        *,
        desk: Desk,
        inventory: Inventory,
        nursery: Nursery,
        owners: Owners,
    ) -> None:
        """Look things up here."""
        self._secrets = site.bus.kv(SECRETS.name)
        self._config = config
        self._api = api
        self._desk = desk
        self._inventory = inventory
        self._nursery = nursery
        self._owners = owners
        self._clock = site.clock
        self._follower = site.follower
        self._there: dict[str, float] = {}
        """When Services were last known to be there, by namespace and name."""
        self._making = asyncio.Lock()

    def home(self, order: Order) -> Home:
        """The namespace of the job's object, or the usual one."""
        home = self._desk.home(order.job) or Home(namespace=self._config.namespace)
        known = self._desk.namespaces.get(home.namespace)
        level = known.metadata.labels.get(SECURITY, "") if known is not None else ""
        return replace(home, is_restricted=level == "restricted")

    async def make(self, order: Order) -> Start:
        """The start of one task; what keeps us from it for a while is waited for.

        Raises:
            NoPodError: there is no pod for it, or nobody wants it any more.
            RefusedError: what it needs cannot be made, such as the job's Secret.
            TemporaryError: the bus or the server did not answer for very long.
        """
        why, forbidden = "", 0
        for number in range(1, TRIES_MAX + 1):
            try:
                return await self._made(order)
            except RefusedError as error:
                forbidden += error.is_for_lack_of_rights
                if not passes(error, forbidden):
                    raise
                why = str(error)
            except NoPodError:
                raise
            except TemporaryError as error:
                why = str(error)
            log.info("what task %s needs: %s; again soon", order.task.id, why)
            await self._api.pause(number)
            known = self._follower.state.kept.tasks.get(order.task.id)
            if known is None or known.stop:
                raise NoPodError(why)
        raise TemporaryError(why)

    async def _made(self, order: Order) -> Start:
        home, task = self.home(order), order.task
        adopted = await self._adopted(order)
        is_dra = self._config.mode is DeviceMode.DRA
        claims = await self._claims(adopted) if adopted is not None and is_dra and task.gpus else ()
        indexes = tuple(share.index for share in task.gpus)
        if order.job.spec.secrets:
            await self._make_secret(order, home)
        if adopted is None and meets(order.job.spec):
            await self._make_service(order, home)
        return Start(
            order=order,
            home=home,
            uuids=self._inventory.uuids_of(task.node, indexes) if self._config.mode is DeviceMode.ANNOTATION else (),
            adopted=adopted.metadata if adopted is not None else None,
            is_gated=adopted is not None and is_gated(adopted),
            is_others=adopted is not None and adopted.spec.scheduler_name != self._config.scheduler_name,
            devices=self._inventory.devices_of(task.node) if is_dra else {},
            claims=claims,
        )

    async def _claims(self, pod: Pod) -> tuple[Claim, ...]:
        """The claims of somebody else's pod; those that are made for it may still be on their way.

        Raises:
            RefusedError: they do not come.
        """
        meta, known = pod.metadata, self._inventory.claims.found
        path = path_of("v1", "pods", namespace=meta.namespace, name=meta.name)
        for number in range(1, CLAIM_TRIES_MAX + 1):
            names = claim_names(pod) or ()
            found = [known[key] for name in names if (key := (meta.namespace, name)) in known]
            if found and len(found) == len(names):
                return tuple(found)
            await self._api.pause(number)
            pod = decode_pod(await self._api.call("GET", path))
        raise RefusedError(409, "Conflict", "nobody makes its ResourceClaims")

    async def unmake(self, task: TaskId) -> None:
        """See Letting.unmake.

        Raises:
            KeptError: its owner would take away more pods than a disruption budget lets go now.
        """
        state = self._owners.state
        known = state.kept.tasks.get(task)
        job = state.job(known.job) if known is not None else None
        if job is not None and job.state in (JobState.RUNNING, JobState.RESIZING) and not self._owners.may_go(job):
            raise KeptError("more of its gang would go than a disruption budget allows")
        await self._owners.letting.unmake(task)

    async def _adopted(self, order: Order) -> Pod | None:
        """The pod that somebody else has made for the task, or will have made."""
        if LABEL_PODS in order.job.spec.labels:
            return self._nursery.pod_of(order)
        return await self._owners.letting.pod_of(order) if LABEL_OWNER in order.job.spec.labels else None

    async def _make_secret(self, order: Order, home: Home) -> None:
        """The job's sealed values as a Secret that goes with its Job object; made once, found by every task."""
        job = JobId(order.job.array or order.task.job)
        values = await sealed_values(self._secrets, self._follower.state, job)
        # Of every role: whichever task comes first makes it for all.
        said = (text for role in order.job.spec.roles for text in (*role.command, *role.environment.values()))
        texts = {text for text in said if PLACEHOLDER in text}
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": secret_name(order.task.job),
                "namespace": home.namespace,
                "labels": own_labels(order.task.job),
                **({"ownerReferences": [owner_reference(home.owner)]} if home.owner is not None else {}),
            },
            "stringData": {secret_key(text): unseal_text(text, values) for text in sorted(texts)},
        }
        await self._make("secrets", home.namespace, body)

    async def _make_service(self, order: Order, home: Home) -> None:
        """The Service behind which the job's pods have names; one call for a whole gang."""
        key = f"{home.namespace}/{service_name(order.task.job)}"
        if self._is_there(key):
            return
        async with self._making:
            if not self._is_there(key):
                await self._make("services", home.namespace, service(order, home.namespace, home.owner))
                self._there.pop(key, None)
                self._there[key] = self._clock.monotonic_s()
        while len(self._there) > THERE_MAX:
            del self._there[next(iter(self._there))]

    def _is_there(self, key: str) -> bool:
        """True for one that was there a moment ago; somebody may have deleted it since."""
        return self._clock.monotonic_s() - self._there.get(key, -THERE_S) < THERE_S

    async def _make(self, plural: str, namespace: str, body: Mapping[str, object]) -> None:
        """Create it, unless it is there."""
        try:
            await self._api.call("POST", path_of("v1", plural, namespace=namespace), body)
        except RefusedError as error:
            if error.reason != "AlreadyExists":
                raise
