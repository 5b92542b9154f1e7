"""Disruption budgets: jobs whose pods may not go now are nobody's victims, for as long as that is so.

The log chooses victims; so it is told in good time which jobs a PodDisruptionBudget keeps, and told again when it does
not any more. Where a budget shrinks after a victim was chosen, the eviction is refused and waits (see `evicting`), and
who wanted the room looks for other room when it has waited for a grace.
"""

import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from gangline_core.door.edits import JobEdit
from gangline_core.fold import Message
from gangline_core.ids import JobId
from gangline_core.job import ENDS, Job, JobState
from gangline_core.reasons import ReasonCode
from gangline_core.step import Step
from gangline_kit.service import Site
from gangline_kubernetes.asking import ask
from gangline_kubernetes.carrier import Carrier
from gangline_kubernetes.config import Config
from gangline_kubernetes.desk import by
from gangline_kubernetes.objects import Meta, Pod
from gangline_kubernetes.owners import Owners
from gangline_kubernetes.ownership import LABEL_KEPT
from gangline_wire.requests import Denied, EditJob

log = logging.getLogger(__name__)

LOOK_S = 1.0
CALM_S = 30.0
"""A job that a budget let go is kept for so long still, as budgets change with each pod that comes or goes."""
LIVES = (JobState.RUNNING, JobState.RESIZING)


class BudgetSpec(Struct, frozen=True):
    """Whom a budget is about: nobody without a selector, everybody of its namespace with an empty one."""

    selector: dict[str, Any] | None = None


class BudgetStatus(Struct, frozen=True, rename="camel"):
    """How many of them may go now."""

    disruptions_allowed: int = 0


class Budget(Struct, frozen=True):
    """A PodDisruptionBudget."""

    metadata: Meta
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


class Budgets:
    """Keeps the log informed which jobs budgets keep."""

    def __init__(self, site: Site, config: Config, carrier: Carrier, owners: Owners) -> None:
        """Nothing is said before `work_for_ever`; `owners` ask before they are suspended."""
        owners.may_go = self.lets_go
        self._site = site
        self._config = config
        self._carrier = carrier
        self._known: dict[tuple[str, str], Budget] = {}
        self._free_since: dict[JobId, float] = {}
        """Since when no budget keeps jobs that the log still has as kept."""
        self._is_dirty = False

    def hear(self, before: Budget | None, after: Budget | None) -> None:
        """A budget came, changed or went."""
        for one in filter(None, (before,)):
            self._known.pop((one.metadata.namespace, one.metadata.name), None)
        if after is not None:
            self._known[after.metadata.namespace, after.metadata.name] = after
        self._is_dirty = True

    def hear_pod(self, before: Pod | None, after: Pod | None) -> None:
        """A pod came, changed or went."""
        self._is_dirty |= bool(self._known)

    def note(self, message: Message, step: Step) -> None:
        """The log knows something new about jobs."""
        self._is_dirty |= bool(step.moves)

    def take_over(self) -> None:
        """Look at everything once."""
        self._is_dirty = True

    def lets_go(self, job: Job) -> bool:
        """False for a preempted job that has more living pods than a budget lets go now."""
        if not self._known or job.reason is None or job.reason.code != ReasonCode.PREEMPTED:
            return True
        return job.id not in self._kept() or any(map(self._carrier.is_past_budget, job.tasks))

    async def work_for_ever(self) -> None:
        """Tell the log what changed."""
        while True:
            await self._site.clock.sleep(LOOK_S)
            if self._is_dirty or self._free_since:
                self._is_dirty = False
                await self._look()

    async def _look(self) -> None:
        jobs, now_s = self._site.follower.state.kept.jobs, self._site.clock.monotonic_s()
        kept = self._kept()
        for name, why in kept.items():
            job = jobs.get(name)
            self._free_since.pop(name, None)
            if job is not None and job.state in LIVES and job.spec.preemptible:
                await self._say(job, why)
        for job in [one for one in jobs.values() if LABEL_KEPT in one.spec.labels and one.id not in kept]:
            since_s = self._free_since.setdefault(job.id, now_s)
            if job.state in ENDS:
                self._free_since.pop(job.id)
            elif job.state not in LIVES or now_s - since_s >= CALM_S:
                self._free_since.pop(job.id)
                await self._say(job, "")

    def _kept(self) -> dict[JobId, str]:
        """Why a job may not be preempted whole: more of its pods would go than a budget allows."""
        found: dict[JobId, str] = {}
        tasks = self._site.follower.state.kept.tasks
        for (namespace, name), budget in sorted(self._known.items()):
            pods = ((task, pod) for task, pod in self._carrier.pods.items() if _is_meant(budget, pod))
            counts = Counter(tasks[task].job for task, _ in pods if task in tasks)
            allowed = budget.status.disruptions_allowed
            why = f"PodDisruptionBudget {namespace}/{name} lets {allowed} of its pods go now"
            found |= {job: why for job, count in counts.items() if count > allowed}
        return found

    async def _say(self, job: Job, why: str) -> None:
        """Have the log keep the job from being a victim, with a reason, or keep it no longer."""
        labels = {key: value for key, value in job.spec.labels.items() if key != LABEL_KEPT}
        edit = JobEdit(preemptible=not why, labels=labels | ({LABEL_KEPT: "true"} if why else {}))
        mine = by(self._config.cluster)
        request = EditJob(job=int(job.id), edit=edit, by=mine, standing="admin", why=why or "no budget keeps it now")
        if isinstance(denied := await ask(self._site, request), Denied):
            log.warning("job %s is not kept as its budget says: %s", job.id, denied.message)


def _is_meant(budget: Budget, pod: Pod) -> bool:
    """True for a pod that counts in the budget: others may go whatever it says."""
    meta, selector = pod.metadata, budget.spec.selector
    if selector is None or meta.namespace != budget.metadata.namespace or meta.deletion_timestamp or not pod.is_ready:
        return False
    labels = (selector.get("matchLabels") or {}).items()
    return labels <= meta.labels.items() and all(_asked(selector, meta.labels))


def _asked(selector: dict[str, Any], labels: dict[str, str]) -> Iterator[bool]:
    for one in selector.get("matchExpressions") or ():
        key, values = one.get("key", ""), one.get("values") or ()
        match one.get("operator"):
            case "In":
                yield labels.get(key) in values
            case "NotIn":
                yield labels.get(key) not in values
            case "Exists":
                yield key in labels
            case _:
                yield key not in labels
