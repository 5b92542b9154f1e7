"""Asking an autoscaler for machines for whole jobs whose pods do not exist yet: one ProvisioningRequest per job."""

import logging
from typing import Any

import msgspec

from gangline_core.fold import Message
from gangline_core.ids import JobId
from gangline_core.job import Job, JobState
from gangline_core.state import State
from gangline_core.step import Step
from gangline_kit.errors import TemporaryError
from gangline_kit.service import Site
from gangline_kubernetes.api import Api, RefusedError, path_of
from gangline_kubernetes.config import Config
from gangline_kubernetes.desk import Desk
from gangline_kubernetes.manifests import MAIN
from gangline_kubernetes.names import LABEL_JOB, MANAGER
from gangline_kubernetes.nodes import PRODUCT
from gangline_kubernetes.objects import Listed, OwnerObject
from gangline_kubernetes.ownership import LABEL_PODS
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


class Provisioner:
    """Requests for jobs that wait for room, and for nothing else; each goes when its job no longer does."""

    def __init__(self, site: Site, config: Config, api: Api, *, desk: Desk, agent: str) -> None:
        """`agent` is the carrier that this cluster's nodes name."""
        self.site = site
        self.config = config
        self.api = api
        self.desk = desk
        self.agent = agent
        self.looked_at: dict[JobId, None] = {}
        self.made: dict[JobId, str] = {}
        """Namespace of each job's request."""

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
        while True:
            for name in list(self.looked_at):
                # Taken out first: news that comes while we ask the server must be looked at again.
                self.looked_at.pop(name, None)
                await self._look(name)
            await self.site.clock.sleep(LOOK_S)

    async def _find(self) -> bool:
        """Requests that a leader before us has made; False while this cluster has none of this kind."""
        query = {"labelSelector": f"app.kubernetes.io/managed-by={MANAGER}"}
        try:
            data = await self.api.call("GET", path_of(REQUESTS, PLURAL), query=query)
        except (RefusedError, TemporaryError) as error:
            log.warning("no machines are asked for: %s", error)
            return False
        for one in msgspec.json.decode(data, type=Listed[OwnerObject]).items or ():
            number = one.metadata.labels.get(LABEL_JOB, "")
            if number.isdecimal():
                self.made[JobId(int(number))] = one.metadata.namespace
        self.looked_at |= dict.fromkeys((*self.made, *self.state.kept.jobs))
        return True

    async def _look(self, name: JobId) -> None:
        job = self.state.job(name)
        wants = job is not None and self.wants(job)
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
        return is_here and LABEL_PODS not in job.spec.labels

    async def _make(self, job: Job, namespace: str) -> None:
        """The request, then the templates it names, which go with it."""
        body = request_for(job, namespace, self.config.provisioning_class)
        await self._create(path_of(REQUESTS, PLURAL, namespace=namespace), body)
        data = await self.api.call("GET", path_of(REQUESTS, PLURAL, namespace=namespace, name=f"{PREFIX}{job.id}"))
        made = msgspec.json.decode(data, type=OwnerObject).metadata
        owner = {"apiVersion": REQUESTS, "kind": "ProvisioningRequest", "name": made.name, "uid": made.uid}
        for template in templates_of(job, namespace, self.config):
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
    labels = {"app.kubernetes.io/managed-by": MANAGER, LABEL_JOB: str(job.id)}
    return {"name": name, "namespace": namespace, "labels": labels}


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


def templates_of(job: Job, namespace: str, config: Config) -> list[Manifest]:
    """One pod template per role, as far as it says which machine can hold such a pod."""
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
        selector = dict(job.spec.node_selector)
        if len(asked.gpu_models) == 1:
            selector[PRODUCT[0]] = asked.gpu_models[0]
        container = {
            "name": MAIN,
            "image": role.image or config.image or "none",
            "resources": {"requests": amounts, "limits": limits},
        }
        spec: Manifest = {"containers": [container], "restartPolicy": "Never", "nodeSelector": selector}
        spec["tolerations"] = [
            {"key": one.key, "operator": "Equal", "value": one.value}
            if one.value
            else {"key": one.key, "operator": "Exists"}
            for one in job.spec.tolerations
        ]
        meta = _meta(job, f"{PREFIX}{job.id}-{number}", namespace)
        found.append(
            {"apiVersion": "v1", "kind": "PodTemplate", "metadata": meta, "template": {"metadata": {}, "spec": spec}}
        )
    return found
