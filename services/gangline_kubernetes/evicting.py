"""Asking whether a pod may go now: a disruption budget may say that it has to stay for a while."""

from typing import Any

from gangline_core.elasticity.by_hand import nearest
from gangline_core.job import Job, JobState, Task, TaskState
from gangline_core.reasons import ReasonCode
from gangline_kit.errors import OutcomeUnknownError
from gangline_kubernetes.api import Api, RefusedError, path_of
from gangline_kubernetes.objects import Meta

SEVERAL = "more than one PodDisruptionBudget"
"""What the server says, as a fault of its own, of pods that nobody can ever evict."""


ANEW = frozenset({ReasonCode.PREEMPTED, ReasonCode.RESIZING})
"""Reasons for which a whole gang stops although nothing is wrong with it."""


class KeptError(Exception):
    """A disruption budget keeps the pod for now."""


async def evict(api: Api, pod: Meta, options: dict[str, Any], *, is_asked_only: bool = False) -> None:
    """Have the pod evicted, or only ask whether it may be.

    Raises:
        KeptError: a budget does not allow it now.
        RefusedError, TemporaryError: as `Api.call`.
    """
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": options | ({"dryRun": ["All"]} if is_asked_only else {}),
    }
    path = path_of("v1", "pods", namespace=pod.namespace, name=pod.name, sub="eviction")
    try:
        await api.call("POST", path, body)
    except RefusedError as error:
        if error.code == 429:
            raise KeptError(error.message) from error
        raise
    except OutcomeUnknownError as error:
        if SEVERAL in str(error):
            raise KeptError(str(error)) from error
        raise


def ends_for_others(job: Job, task: Task) -> bool:
    """True for a task that has to end for what others need or a policy wants: that alone is what budgets are about.

    What somebody asked for by hand is not, nor what ends by its own fault, or with its node.
    """
    if job.reason is not None and job.reason.code == ReasonCode.PREEMPTED:
        return True
    is_anew = job.state == JobState.STOPPING and job.reason is not None and job.reason.code in ANEW
    is_smaller = job.state in (JobState.RUNNING, JobState.RESIZING) and task.state == TaskState.STARTED and task.stop
    return (is_anew or is_smaller) and not _is_asked_for(job, task)


def _is_asked_for(job: Job, task: Task) -> bool:
    role = next((one for one in job.spec.roles if one.name == task.role), None)
    asked = job.asked.get(task.role)
    if role is None or asked is None:
        return False
    sizes = job.resize.after if job.resize is not None else job.sizes
    return sizes.get(task.role, 0) >= nearest(role, asked)
