"""Gangs as the cluster itself names them: PodGroups and Workloads of scheduling.k8s.io. Pure."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gangline_kubernetes.adoption import ALONE, REQUIRED, Gang, said
from gangline_kubernetes.objects import OwnerObject, Pod


class Policy(Struct, frozen=True):
    """How the pods of one group belong together."""

    size: int
    """Pods that start together or not at all; 0 when each is on its own."""
    level: str = ""
    """Node label of the domain that they must share; empty for any."""


class Membership(Struct, frozen=True):
    """Where a pod's policy stands, and which of the gangs of that policy it is in."""

    policy: str
    gang: str


def membership_of(pod: Pod) -> Membership | None:
    """The group that a pod's spec names."""
    spec = pod.spec
    if spec.scheduling_group is not None and spec.scheduling_group.pod_group_name:
        name = spec.scheduling_group.pod_group_name
        return Membership(policy=name, gang=name)
    if spec.workload_ref is not None and spec.workload_ref.name:
        one = spec.workload_ref
        policy = f"{one.name}/{one.pod_group}"
        return Membership(policy=policy, gang=f"{policy}/{one.pod_group_replica_key}")
    return None


def policies_of(found: OwnerObject) -> dict[str, Policy]:
    """The policies that a PodGroup or a Workload holds, by name; none for PodGroups of other schedulers."""
    name, spec = found.metadata.name, found.spec
    if "schedulingPolicy" in spec:
        return {name: _policy(spec.get("schedulingPolicy"), spec.get("schedulingConstraints"))}
    groups = spec.get("podGroups")
    if not isinstance(groups, list):
        return {}
    parts = [one for one in groups if isinstance(one, dict)]
    return {f"{name}/{one.get('name', '')}": _policy(one.get("policy"), None) for one in parts}


def _policy(said_so: Any, constraints: Any) -> Policy:
    gang = said_so.get("gang") if isinstance(said_so, dict) else None
    size = gang.get("minCount") if isinstance(gang, dict) else 0
    topology = constraints.get("topology") if isinstance(constraints, dict) else None
    first = topology[0] if isinstance(topology, list) and topology else None
    level = first.get("key") if isinstance(first, dict) else ""
    return Policy(size=size if isinstance(size, int) else 1, level=level if isinstance(level, str) else "")


def gang_by(pod: Pod, member: Membership, policy: Policy) -> Gang:
    """The pod's gang by its group's policy."""
    if policy.size < 1:
        return Gang(pod.metadata.namespace, f"{ALONE}{pod.metadata.uid}", 1)
    return Gang(pod.metadata.namespace, member.gang, policy.size)


def placed_by(pod: Pod, policy: Policy) -> Pod:
    """The pod with the domain that its group has to share, unless it says one itself."""
    if not policy.level or said(pod, REQUIRED):
        return pod
    notes = {**pod.metadata.annotations, REQUIRED[0]: policy.level}
    return replace(pod, metadata=replace(pod.metadata, annotations=notes))
