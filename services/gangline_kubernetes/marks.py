"""Which pods are tasks of ours: what a pod says of itself counts only where the log says the same.

A mark is three annotations, and whoever may write a pod may write those. So one that Gangline made must be called as
the task's pod is called, and be where the job's pods are; one of somebody else must have the uid, or the owner, for
which its job was admitted. Everything else is a pod like any other, whatever it says.
"""

from hashlib import sha256

from gangline_core.ids import JobId
from gangline_core.job import Job
from gangline_kit.service import Site
from gangline_kubernetes.config import Config
from gangline_kubernetes.desk import by
from gangline_kubernetes.names import FINALIZER, HASH_CHARS, LABEL_JOB, MANAGER, Mark, is_number, mark_of, pod_name
from gangline_kubernetes.objects import Pod
from gangline_kubernetes.owners import Owners
from gangline_kubernetes.ownership import LABEL_NAMESPACE, LABEL_OWNER, LABEL_PODS, LABEL_UID


class Marks:
    """Knows what the log says of the job that a pod names."""

    def __init__(self, site: Site, config: Config, owners: Owners) -> None:
        """`owners` know to which object a pod belongs in the end."""
        self._site = site
        self._config = config
        self._owners = owners
        self._known: dict[str, Mark] = {}
        """Marks that counted before, by uid of their pod: what is above a pod may be gone before it is."""

    def of(self, pod: Pod) -> Mark | None:
        """The task that a pod is; None for a pod that is none, though it may say so."""
        mark, uid = mark_of(pod, self._config.cluster), pod.metadata.uid
        if (known := self._known.get(uid)) is not None:
            # A pod that was a task stays that task, whatever is taken off it or put on it later.
            return known
        if mark is None:
            return None
        number = mark.task.partition("-")[0]
        job = self._site.follower.state.job(JobId(int(number))) if is_number(number) else None
        if not (_was_made(pod, mark) if job is None else self._is_of(pod, mark, job)):
            return None
        self._known[uid] = mark
        return mark

    def hear(self, before: Pod | None, after: Pod | None) -> None:
        """A pod that is gone is no task any more."""
        if after is None and before is not None:
            self._known.pop(before.metadata.uid, None)

    def _is_of(self, pod: Pod, mark: Mark, job: Job) -> bool:
        labels, meta = job.spec.labels, pod.metadata
        is_from_here = job.submitted_by == by(self._config.cluster)
        if is_from_here and LABEL_PODS in labels:
            return self._is_member(meta.uid, mark, job)
        if is_from_here and LABEL_OWNER in labels:
            is_here = meta.namespace == labels.get(LABEL_NAMESPACE, "")
            return is_here and self._owners.belongs(meta, labels[LABEL_OWNER])
        home = labels.get(LABEL_NAMESPACE, "") if is_from_here else self._config.namespace
        above = next((one.uid for one in meta.owner_references if one.controller), "")
        # Without its finalizer a pod that is over was let go already; one that still runs is to be followed.
        return (
            (meta.namespace, meta.name) == (home, pod_name(job.spec.name, mark.task))
            and above in ("", labels.get(LABEL_UID, ""))
            and (FINALIZER in meta.finalizers or not pod.is_over)
        )

    def _is_member(self, uid: str, mark: Mark, job: Job) -> bool:
        uids = job.spec.labels[LABEL_PODS].split()
        task, first = self._site.follower.state.kept.tasks.get(mark.task), 0
        if task is None:
            return uid in uids
        for role in job.spec.roles:
            if role.name == task.role:
                break
            first += role.count
        return uids[first + task.index : first + task.index + 1] == [uid]


def _was_made(pod: Pod, mark: Mark) -> bool:
    """True for a pod that Gangline made for a job that the log has forgotten: it is to be taken away."""
    meta = pod.metadata
    return (
        FINALIZER in meta.finalizers
        and meta.labels.get("app.kubernetes.io/managed-by") == MANAGER
        and meta.labels.get(LABEL_JOB) == mark.task.partition("-")[0]
        and meta.name.endswith("-" + sha256(mark.task.encode()).hexdigest()[:HASH_CHARS])
    )
