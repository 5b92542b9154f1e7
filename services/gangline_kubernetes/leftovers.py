"""Secrets and Services of jobs that no Job object owns: they go when their job has ended."""

import logging

from gangline_core.fold import Message
from gangline_core.ids import JobId
from gangline_core.job import ENDS, Job
from gangline_core.state import State
from gangline_core.step import Step
from gangline_kit.errors import TemporaryError
from gangline_kit.service import Site
from gangline_kubernetes.api import Api, RefusedError, path_of
from gangline_kubernetes.config import Config
from gangline_kubernetes.desk import by
from gangline_kubernetes.manifests import secret_name
from gangline_kubernetes.meeting import meets, service_name

log = logging.getLogger(__name__)

LOOK_S = 1.0
AGAIN_MS = 24 * 3600 * 1000
"""Jobs that ended within this time before a new leader came are looked at again: nobody may have cleaned up then."""


class Leftovers:
    """What is to be deleted; everything else we make is owned by something that goes."""

    def __init__(self, site: Site, config: Config, api: Api, agent: str) -> None:
        """`agent` is the carrier that this cluster's nodes name."""
        self.site = site
        self.config = config
        self.api = api
        self.agent = agent
        self.ended: dict[JobId, None] = {}

    @property
    def state(self) -> State:
        """The fold."""
        return self.site.follower.state

    def note(self, message: Message, step: Step) -> None:
        """Jobs ended."""
        for moved in step.moves:
            if moved.after in ENDS:
                self._enter(self.state.job(moved.job))

    def take_over(self) -> None:
        """Jobs that ended lately may have ended while nobody led."""
        now = self.site.now_ms()
        for job in self.state.kept.jobs.values():
            if job.state in ENDS and now - job.ended_ms < AGAIN_MS:
                self._enter(job)

    def _enter(self, job: Job | None) -> None:
        if job is None or not job.attempt or job.submitted_by == by(self.config.cluster):
            return
        pool = self.state.nodes_of(job.spec.pool)
        if (job.spec.secrets or meets(job.spec)) and any(node.agent == self.agent for node in pool):
            self.ended[job.id] = None

    async def clean_for_ever(self) -> None:
        """Delete what is left of each."""
        while True:
            await self.site.clock.sleep(LOOK_S)
            for name in list(self.ended):
                if await self._clean(name):
                    del self.ended[name]

    async def _clean(self, name: JobId) -> bool:
        """True when nothing is left."""
        job = self.state.job(name)
        wanted = {"services": service_name(name), "secrets": secret_name(name)}
        if job is not None and not job.spec.secrets:
            del wanted["secrets"]
        try:
            for plural, called in wanted.items():
                await self._delete(path_of("v1", plural, namespace=self.config.namespace, name=called))
        except TemporaryError as error:
            log.info("what is left of job %s stays for now: %s", name, error)
            return False
        return True

    async def _delete(self, path: str) -> None:
        try:
            await self.api.call("DELETE", path)
        except RefusedError as error:
            if not error.is_gone:
                log.warning("%s: %s", path, error)
