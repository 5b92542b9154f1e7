"""Events of Kubernetes about our objects: one per change of word, with the job that caused it; never a storm."""

from hashlib import sha256
from typing import Any

from gangline_core.counted import counted
from gangline_core.door.arrays import label
from gangline_core.job import Job
from gangline_core.state import State
from gangline_kit.errors import TemporaryError
from gangline_kit.service import Site
from gangline_kubernetes.api import Api, RefusedError, path_of
from gangline_kubernetes.names import GROUP_VERSION
from gangline_kubernetes.objects import JobObject, Meta
from gangline_kubernetes.statuses import made_way, message_of, resized, stamp, word_of

QUIET_S = 60.0
"""The same word about the same object is not told again within this time."""
KEPT_MAX = 10_000
NAME_CHARS = 200
"""So much of an object's name is in its events' names."""
MESSAGE_BYTES_MAX = 1_024

WARNINGS = frozenset({"Refused", "Failed", "TimedOut", "Lost", "Preempted", "NodeLost", "GpuFailed", "StartFailed"})


class Happenings:
    """Tells events, each at most once in a while."""

    def __init__(self, site: Site, api: Api) -> None:
        """Nothing was told yet."""
        self._site = site
        self._api = api
        self._told: dict[tuple[str, str], float] = {}

    async def of_job(self, found: JobObject, job: Job) -> None:
        """The job's present word, with its sentence; a preemption names who it was for."""
        state, word = self._site.follower.state, word_of(job)
        if job.yielded_to and (word == "Preempted" or job.preemptions > found.status.get("preemptions", 0)):
            related = f"job {label(state, job.yielded_to[-1])}"
            await self.tell(found.metadata, "Preempted", made_way(state, job), is_warning=True, related=related)
        if job.resize is not None and job.resize.number > found.status.get("resizes", 0):
            await self.tell(found.metadata, "Resizing", resized(job))
        if word not in ("Preempted", "Resizing"):
            await self.tell(
                found.metadata, word, message_of(state, job) or _placed(state, job), is_warning=word in WARNINGS
            )

    async def tell(
        self,
        meta: Meta,
        reason: str,
        message: str,
        *,
        is_warning: bool = False,
        related: str | None = None,
        kind: tuple[str, str] = (GROUP_VERSION, "Job"),
    ) -> None:
        """Tell one event about an object; when the server does not want it, nobody misses it."""
        now_s = self._site.clock.monotonic_s()
        key = (meta.uid, reason)
        if now_s - self._told.get(key, -QUIET_S) < QUIET_S:
            return
        self._told[key] = now_s
        while len(self._told) > KEPT_MAX:
            del self._told[next(iter(self._told))]
        now_ms = self._site.clock.now_ms()
        namespace = meta.namespace or "default"
        digest = sha256(f"{meta.uid}{reason}{now_ms}".encode()).hexdigest()[:16]
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{meta.name[:NAME_CHARS].rstrip('-.')}.{digest}", "namespace": namespace},
            "involvedObject": {
                "apiVersion": kind[0],
                "kind": kind[1],
                "name": meta.name,
                "uid": meta.uid,
                # What is in no namespace has its events in the first one, and says none.
                **({"namespace": meta.namespace} if meta.namespace else {}),
            },
            "reason": reason,
            "message": message.encode()[:MESSAGE_BYTES_MAX].decode(errors="ignore"),
            "type": "Warning" if is_warning else "Normal",
            "source": {"component": "gangline"},
            "reportingComponent": "gangline.dev/scheduler",
            "reportingInstance": self._site.instance,
            "action": "Scheduling",
            "firstTimestamp": stamp(now_ms),
            "lastTimestamp": stamp(now_ms),
            "count": 1,
        }
        if related is not None:
            body["related"] = {"kind": "GanglineJob", "name": related}
        try:
            await self._api.call("POST", path_of("v1", "events", namespace=namespace), body, tries=1)
        except (RefusedError, TemporaryError):
            self._site.metrics.count("gangline_kubernetes_events_lost_total")


def _placed(state: State, job: Job) -> str:
    if job.spec.array is not None and not job.array:
        return f"array {job.id}"
    return f"job {label(state, job.id)}, attempt {job.attempt}, {counted(len(job.tasks), 'task')}"
