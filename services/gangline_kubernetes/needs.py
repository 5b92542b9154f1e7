"""What a pod needs on its node, as the API server and kubelets count it. Pure."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from gangline_kubernetes.objects import Container, Pod
from gangline_kubernetes.quantities import mebibytes, milli, whole

Needs = Counter[str]
"""Amounts by resource: cpu in thousandths; memory, storage and huge pages in MiB; whole numbers of everything else."""
PORT = "hostport/"
"""Begins the name of a port of its node that a pod takes: a device of which every node has one."""


def needs_of(pod: Pod) -> Needs:
    """All containers together, or the largest that has to end before they start, and what the pod itself costs.

    Containers that start before the others and stay (sidecars) count with them and with those that start after.
    """
    beside: Needs = Counter()
    before: Needs = Counter()
    for one in pod.spec.init_containers:
        if one.restart_policy == "Always":
            beside += _asked(one)
            before |= beside
        else:
            before |= beside + _asked(one)
    together = sum((_asked(one) for one in pod.spec.containers), beside)
    together |= before
    # What is said for the whole pod holds instead of what its containers say.
    for name, amount in _amounts({**pod.spec.resources.limits, **pod.spec.resources.requests}).items():
        together[name] = amount
    return together + _amounts(pod.spec.overhead) + Counter(ports_of(pod))


def ports_of(pod: Pod) -> dict[str, int]:
    """Ports of its node that a pod takes, each once; at which of the node's addresses does not matter here."""
    containers = (*pod.spec.containers, *(one for one in pod.spec.init_containers if one.restart_policy == "Always"))
    ports = (port for one in containers for port in one.ports if port.host_port)
    return {f"{PORT}{port.protocol}/{port.host_port}": 1 for port in ports}


def in_mebibytes(name: str) -> bool:
    """True for resources that are amounts of memory or storage, and not numbers of devices."""
    return name in ("memory", "ephemeral-storage") or name.startswith("hugepages-")


def _asked(container: Container) -> Needs:
    return _amounts({**container.resources.limits, **container.resources.requests})


def _amounts(asked: Mapping[str, Any]) -> Needs:
    found: Needs = Counter()
    for name, value in asked.items():
        if name == "cpu":
            found[name] = milli(value, up=True)
        elif in_mebibytes(name):
            found[name] = mebibytes(value, up=True)
        elif "/" in name:
            found[name] = whole(value, up=True)
    return found
