"""Asking an autoscaler for machines for whole jobs whose pods do not exist yet: one ProvisioningRequest per job."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from gangline_core.fold import Message
from gangline_core.ids import JobId
from gangline_core.job import Job, JobState
from gangline_core.spec import selector_of, tolerations_of
from gangline_core.state import State
from gangline_core.step import Step
from gangline_kit.errors import TemporaryError
from gangline_kit.service import Site
from gangline_kubernetes.affinities import LABEL, REQUIRED, Affinities, Term
from gangline_kubernetes.api import Api, RefusedError, path_of
from gangline_kubernetes.config import Config
from gangline_kubernetes.desk import Desk
from gangline_kubernetes.manifests import MAIN
from gangline_kubernetes.names import LABEL_CLUSTER, LABEL_JOB, MANAGER, is_number, own_labels
from gangline_kubernetes.nodes import PRODUCT
from gangline_kubernetes.objects import Listed, Meta, OwnerObject
from gangline_kubernetes.ownership import LABEL_PODS
from gangline_kubernetes.shallow import read
from gangline_kubernetes.statuses import ROOM

log = logging.getLogger(__name__)

Manifest = dict[str, Any]
REQUESTS = "autoscaling.x-k8s.io/v1"
PLURAL = "provisioningrequests"
PREFIX = "gangline-job-"
LOOK_S = 1.0
ABSENT_S = 60.0
"""A cluster without this kind is asked again after this."""
MADE_MAX = 1_000
"""Most requests that are open at the same time."""
CHECK_S = 20.0
"""What became of the open requests is looked at this often."""
ENDED = frozenset({"Failed", "BookingExpired", "CapacityRevoked"})
"""Conditions of a request that brings no more machines, whatever its job waits for."""
AGAIN_S = 60.0
"""A request that ended is made anew after this, and after twice as long each further time."""
AGAIN_S_MAX = 1800.0


class Asked(Struct, frozen=True):
    """A request, as far as we read what became of it."""

    metadata: Meta
    status: dict[str, Any] = {}

    @property
    def ended(self) -> str:
        """Why it brings no more machines; empty while it may."""
        held = (one for one in self.status.get("conditions") or () if one.get("status") == "True")
        return next((str(one["type"]) for one in held if one.get("type") in ENDED), "")

    @property
    def job(self) -> JobId | None:
        """The job it was made for."""
        number = self.metadata.labels.get(LABEL_JOB, "")
        return JobId(int(number)) if is_number(number) else None


class Provisioner:
    """Requests for jobs that wait for room, and for nothing else; each goes when its job no longer does."""

    def __init__(self, site: Site, config: Config, api: Api, *, desk: Desk, agent: str, affinities: Affinities) -> None:
        """`agent` is the carrier that this cluster's nodes name."""
        self.site = site
        self.config = config
        self.api = api
        self.desk = desk
        self.agent = agent
        self.affinities = affinities
        self.looked_at: dict[JobId, None] = {}
        self.made: dict[JobId, str] = {}
        """Namespace of each job's request."""
        self.again: dict[JobId, tuple[int, float]] = {}
        """How often a job's request has ended in vain, and before when none is made anew."""

    @property
    def state(self) -> State:
        """The fold."""
        return self.site.follower.state

    def note(self, message: Message, step: Step) -> None:
        """Jobs began or ceased to wait, or wait for something else."""
        if not self.config.provisioning_class:
            return
        self.looked_at |= {moved.job: None for moved in step.moves}
        for pool in dict.fromkeys((*step.rounds, *step.decided)):
            self.looked_at |= dict.fromkeys(self.state.waiting.get(pool, ()))

    async def work_for_ever(self) -> None:
        """Bring requests and waits together."""
        if not self.config.provisioning_class:
            return
        while not await self._find():
            await self.site.clock.sleep(ABSENT_S)
        check_s = self.site.clock.monotonic_s() + CHECK_S
        while True:
            now_s = self.site.clock.monotonic_s()
            if now_s >= check_s and self.made:
                await self._check()
                check_s = now_s + CHECK_S
            due = (name for name, (_, at_s) in self.again.items() if now_s >= at_s and name not in self.made)
            self.looked_at |= dict.fromkeys(due)
            for name in list(self.looked_at):
                # Taken out first: news that comes while we ask the server must be looked at again.
                self.looked_at.pop(name, None)
                await self._look(name)
            await self.site.clock.sleep(LOOK_S)

    async def _find(self) -> bool:
        """Requests that a leader before us has made; False while this cluster has none of this kind."""
        try:
            found = await self._listed()
        except (RefusedError, TemporaryError) as error:
            log.warning("no machines are asked for: %s", error)
            return False
        for one in found:
            if one.job is not None:
                self.made[one.job] = one.metadata.namespace
        self.looked_at |= dict.fromkeys((*self.made, *self.state.kept.jobs))
        return True

    async def _listed(self) -> list[Asked]:
        query = {"labelSelector": f"app.kubernetes.io/managed-by={MANAGER}"}
        data = await self.api.call("GET", path_of(REQUESTS, PLURAL), query=query)
        return read(msgspec.json.Decoder(Listed[Asked]), data).items or []

    async def _check(self) -> None:
        """Take away the requests that ended in vain; jobs that still wait have new ones made later."""
        try:
            for one in await self._listed():
                name = one.job
                if name is None or not one.ended or self.made.get(name) != one.metadata.namespace:
                    continue
                await self._drop(name)
                del self.made[name]
                count, _ = self.again.get(name, (0, 0.0))
                pause_s = min(AGAIN_S_MAX, AGAIN_S * (1 << min(count, 10)))
                self.again[name] = (count + 1, self.site.clock.monotonic_s() + pause_s)
                log.info("machines for job %s: %s; asked for anew in %d s", name, one.ended, pause_s)
        except (RefusedError, TemporaryError) as error:
            log.warning("what became of the requests for machines is not known: %s", error)

    async def _look(self, name: JobId) -> None:
        job = self.state.job(name)
        wants = job is not None and self.wants(job)
        if not wants:
            self.again.pop(name, None)
        elif name in self.again and self.site.clock.monotonic_s() < self.again[name][1]:
            return
        try:
            if job is not None and wants and name not in self.made and len(self.made) < MADE_MAX:
                home = self.desk.home(job)
                namespace = home.namespace if home is not None else self.config.namespace
                await self._make(job, namespace)
                self.made[name] = namespace
            elif not wants and name in self.made:
                await self._drop(name)
                del self.made[name]
        except RefusedError as error:
            log.warning("no machines are asked for job %s: %s", name, error)
        except TemporaryError as error:
            log.info("machines for job %s: %s; again soon", name, error)
            self.looked_at[name] = None

    def wants(self, job: Job) -> bool:
        """True for a job that waits for room on this cluster, which its pods do not show as they do not exist."""
        if job.state != JobState.WAITING or job.reason is None or job.reason.code not in ROOM:
            return False
        nodes = self.state.nodes_of(job.spec.pool)
        is_here = any(node.agent == self.agent for node in nodes) or (not nodes and job.spec.pool == self.config.pool)
        is_ours = job.spec.node_selector.get(LABEL_CLUSTER, self.config.cluster) == self.config.cluster
        return is_here and is_ours and LABEL_PODS not in job.spec.labels

    async def _make(self, job: Job, namespace: str) -> None:
        """The request, then the templates it names, which go with it."""
        body = request_for(job, namespace, self.config.provisioning_class)
        await self._create(path_of(REQUESTS, PLURAL, namespace=namespace), body)
        data = await self.api.call("GET", path_of(REQUESTS, PLURAL, namespace=namespace, name=f"{PREFIX}{job.id}"))
        made = read(msgspec.json.Decoder(OwnerObject), data).metadata
        owner = {"apiVersion": REQUESTS, "kind": "ProvisioningRequest", "name": made.name, "uid": made.uid}
        for template in templates_of(job, namespace, self.config, self.affinities.terms):
            template["metadata"]["ownerReferences"] = [owner]
            await self._create(path_of("v1", "podtemplates", namespace=namespace), template)

    async def _create(self, path: str, body: Manifest) -> None:
        """Make an object, or find that an earlier try did, of which only the first part may have come through."""
        try:
            await self.api.call("POST", path, body)
        except RefusedError as error:
            if error.reason != "AlreadyExists":
                raise

    async def _drop(self, name: JobId) -> None:
        path = path_of(REQUESTS, PLURAL, namespace=self.made[name], name=f"{PREFIX}{name}")
        try:
            await self.api.call("DELETE", path)
        except RefusedError as error:
            if not error.is_gone:
                raise


def _meta(job: Job, name: str, namespace: str) -> Manifest:
    return {"name": name, "namespace": namespace, "labels": own_labels(job.id)}


def request_for(job: Job, namespace: str, kind: str) -> Manifest:
    """Machines for all members at once: the least the job starts with."""
    sets = [
        {"podTemplateRef": {"name": f"{PREFIX}{job.id}-{k}"}, "count": role.min_count}
        for k, role in enumerate(job.spec.roles)
        if role.min_count
    ]
    return {
        "apiVersion": REQUESTS,
        "kind": "ProvisioningRequest",
        "metadata": _meta(job, f"{PREFIX}{job.id}", namespace),
        "spec": {"provisioningClassName": kind, "podSets": sets},
    }


def templates_of(
    job: Job, namespace: str, config: Config, terms_of: Callable[[Mapping[str, str]], Sequence[Term]]
) -> list[Manifest]:
    """One pod template per role, as far as it says which machine can hold such a pod.

    `terms_of` gives the node affinity behind a selector.
    """
    found: list[Manifest] = []
    for number, role in enumerate(job.spec.roles):
        if not role.min_count:
            continue
        asked = role.resources
        amounts: dict[str, str] = {name: str(count) for name, count in sorted(asked.devices.items())}
        if asked.cpu_milli:
            amounts["cpu"] = f"{asked.cpu_milli}m"
        if asked.memory_mib:
            amounts["memory"] = f"{asked.memory_mib}Mi"
        if gpus := -(-asked.gpu_milli // 1000):
            amounts[config.gpu_resource] = str(gpus)
        limits = {name: value for name, value in amounts.items() if name != "cpu"}
        asked_labels = selector_of(job.spec, role)
        selector = {key: value for key, value in asked_labels.items() if not key.startswith((LABEL, LABEL_CLUSTER))}
        if len(asked.gpu_models) == 1:
            selector[PRODUCT[0]] = asked.gpu_models[0]
        container = {
            "name": MAIN,
            "image": role.image or config.image or "none",
            "resources": {"requests": amounts, "limits": limits},
        }
        spec: Manifest = {"containers": [container], "restartPolicy": "Never", "nodeSelector": selector}
        if terms := terms_of(asked_labels):
            spec["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
        spec["tolerations"] = [
            {
                "key": one.key,
                **({"operator": "Equal", "value": one.value} if one.value or one.is_exact else {"operator": "Exists"}),
                **({"effect": one.effect} if one.effect else {}),
            }
            for one in tolerations_of(job.spec, role)
        ]
        meta = _meta(job, f"{PREFIX}{job.id}-{number}", namespace)
        found.append(
            {"apiVersion": "v1", "kind": "PodTemplate", "metadata": meta, "template": {"metadata": {}, "spec": spec}}
        )
    return found
