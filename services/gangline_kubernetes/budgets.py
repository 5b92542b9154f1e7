"""Disruption budgets: jobs whose pods may not go now are nobody's victims, for as long as that is so.

The log chooses victims; so it is told in good time which jobs a PodDisruptionBudget keeps, or how many tasks of an
elastic one, and told again when it does not any more. Where a budget shrinks after a victim was chosen, the eviction is
refused and waits (see `evicting`), and who wanted the room looks for other room when it has waited for a grace.
"""

import logging
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from gangline_core.door.edits import JobEdit
from gangline_core.fold import Message
from gangline_core.ids import JobId, TaskId
from gangline_core.job import ENDS, Job, JobState
from gangline_core.spec import is_elastic
from gangline_core.step import Step
from gangline_kit.service import Site
from gangline_kubernetes.asking import ask
from gangline_kubernetes.carrier import Carrier
from gangline_kubernetes.config import Config
from gangline_kubernetes.desk import by
from gangline_kubernetes.evicting import ends_for_others
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
        """False while a job has to give up more living pods for others, all or some, than a budget lets go now."""
        if not self._known:
            return True
        going = [task for task in self._site.follower.state.tasks_of(job) if ends_for_others(job, task)]
        if not going or any(self._carrier.is_past_budget(task.id) for task in going):
            return True
        names = {task.id for task in going}
        counted = (sum(name in names for name in pods) > allowed for pods, allowed, _ in self._counts(job.id))
        return not any(counted)

    async def work_for_ever(self) -> None:
        """Tell the log what changed."""
        while True:
            await self._site.clock.sleep(LOOK_S)
            if self._is_dirty or self._free_since or self._carrier.kept:
                self._is_dirty = False
                await self._look()

    async def _look(self) -> None:
        jobs, now_s = self._site.follower.state.kept.jobs, self._site.clock.monotonic_s()
        kept = self._kept()
        for name, (why, stays) in kept.items():
            job = jobs.get(name)
            self._free_since.pop(name, None)
            if job is not None and job.state in LIVES and (edit := _kept_by(job, stays)) is not None:
                await self._say(job, edit, why)
        held = (one for one in jobs.values() if LABEL_KEPT in one.spec.labels or one.spec.stays)
        for job in [one for one in held if one.id not in kept]:
            since_s = self._free_since.setdefault(job.id, now_s)
            if job.state in ENDS:
                self._free_since.pop(job.id)
            elif job.state not in LIVES or now_s - since_s >= CALM_S:
                self._free_since.pop(job.id)
                await self._say(job, _freed(job), "no budget keeps it now")

    def _counts(self, only: JobId | None = None) -> Iterator[tuple[list[TaskId], int, str]]:
        """For each job and budget the tasks that count in it, how many of those it lets go, and its name."""
        tasks = self._site.follower.state.kept.tasks
        here: dict[str, list[tuple[TaskId, Pod]]] = {}
        for task, pod in self._carrier.pods.items() if self._known else ():
            if task in tasks and only in (None, tasks[task].job) and pod.is_ready:
                here.setdefault(pod.metadata.namespace, []).append((task, pod))
        for (namespace, name), budget in sorted(self._known.items()):
            found: dict[JobId, list[TaskId]] = {}
            for task, pod in here.get(namespace, ()):
                if _is_meant(budget, pod):
                    found.setdefault(tasks[task].job, []).append(task)
            for members in found.values():
                yield members, budget.status.disruptions_allowed, f"{namespace}/{name}"

    def _kept(self) -> dict[JobId, tuple[str, int]]:
        """Why a job may not be preempted whole, as more of its pods would go than a budget allows; how many stay."""
        found: dict[JobId, tuple[str, int]] = {}
        state = self._site.follower.state
        for members, allowed, name in self._counts():
            job = state.job(state.kept.tasks[members[0]].job)
            if job is None or len(members) <= allowed:
                continue
            _, stays = found.get(job.id, ("", 0))
            why = f"PodDisruptionBudget {name} lets {allowed} of its pods go now"
            found[job.id] = (why, max(stays, len(job.tasks) - allowed))
        for task, why in self._carrier.kept.items():
            # Whether we see the budget or not: what it was asked for it did not allow.
            job = state.job(state.kept.tasks[task].job) if task in state.kept.tasks else None
            if job is not None:
                found[job.id] = (why, len(job.tasks))
        return found

    async def _say(self, job: Job, edit: JobEdit, why: str) -> None:
        """Have the log keep the job, or so many of its tasks, from making room for others; or keep it no longer."""
        request = EditJob(job=int(job.id), edit=edit, by=by(self._config.cluster), standing="admin", why=why)
        if isinstance(denied := await ask(self._site, request), Denied):
            log.warning("job %s is not kept as its budget says: %s", job.id, denied.message)


def _kept_by(job: Job, stays: int) -> JobEdit | None:
    """What the log has to know of a job that a budget keeps; None when it does."""
    stays = stays if is_elastic(job.spec) else 0
    if not job.spec.preemptible:
        return JobEdit(stays=stays) if stays != job.spec.stays else None
    return JobEdit(preemptible=False, labels=job.spec.labels | {LABEL_KEPT: "true"}, stays=stays)


def _freed(job: Job) -> JobEdit:
    """What the log has to know of a job that no budget keeps any more; who could never be preempted still cannot."""
    if LABEL_KEPT not in job.spec.labels:
        return JobEdit(stays=0)
    labels = {key: value for key, value in job.spec.labels.items() if key != LABEL_KEPT}
    return JobEdit(preemptible=True, labels=labels, stays=0)


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
