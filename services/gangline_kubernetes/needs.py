"""What a pod needs on its node, as the API server and kubelets count it. Pure."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from gangline_kubernetes.objects import Container, Pod
from gangline_kubernetes.quantities import mebibytes, milli, whole

Needs = Counter[str]
"""Amounts by resource: cpu in thousandths, memory in MiB, whole numbers of everything else with a slash in its name."""


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
    return together + _amounts(pod.spec.overhead)


def _asked(container: Container) -> Needs:
    return _amounts({**container.resources.limits, **container.resources.requests})


def _amounts(asked: Mapping[str, Any]) -> Needs:
    found: Needs = Counter()
    for name, value in asked.items():
        if name == "cpu":
            found[name] = milli(value, up=True)
        elif name == "memory":
            found[name] = mebibytes(value, up=True)
        elif "/" in name:
            found[name] = whole(value, up=True)
    return found
