"""Owners whose parts start one after the other: each part is a gang, and all at once they can never be. Pure."""

from collections.abc import Sequence

from gangline_kubernetes.adoption import ALONE, Gang
from gangline_kubernetes.config import Config
from gangline_kubernetes.objects import OwnerObject, Pod
from gangline_kubernetes.owner_kinds import OwnerKind, Part, part_of


def is_staged(kind: OwnerKind, found: OwnerObject) -> bool:
    """True when some of its pods are made only when others run, are ready or have ended."""
    spec = found.spec
    if kind.name == "MPIJob":
        return spec.get("launcherCreationPolicy") == "WaitForWorkersReady"
    jobs = spec.get("replicatedJobs")
    if kind.name != "JobSet" or not isinstance(jobs, list) or len(jobs) < 2:
        return False
    policy = spec.get("startupPolicy")
    is_ordered = isinstance(policy, dict) and policy.get("startupPolicyOrder") == "InOrder"
    return is_ordered or any(isinstance(one, dict) and one.get("dependsOn") for one in jobs)


def stage_of(kind: OwnerKind, found: OwnerObject, parts: Sequence[Part], pod: Pod) -> Gang:
    """The gang of a pod of such an owner: the pods of its part."""
    meta, part = pod.metadata, parts[part_of(kind, list(parts), pod)]
    if part.count < 2:
        return Gang(meta.namespace, f"{ALONE}{meta.uid}", 1)
    above = found.metadata
    return Gang(meta.namespace, f"{kind.name}/{above.name}/{above.uid}/{part.name}", part.count)


def unstaged(kind: OwnerKind, found: OwnerObject, config: Config) -> str:
    """Why a suspended owner cannot be one job; empty when it can.

    An MPIJob's launcher comes seconds after its workers run, so it can be.
    """
    if kind.name == "MPIJob" or not is_staged(kind, found):
        return ""
    return (
        "its parts start one after the other (dependsOn or startupPolicy InOrder), and one job starts all of its pods"
        " together: let it go without a queue's name of its own, and name the queue and"
        f" schedulerName {config.scheduler_name} in its pod templates; each part is a gang then"
    )
