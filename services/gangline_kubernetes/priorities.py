"""The priority of pods that are not made yet: their templates name a class, and only pods say its number."""

from collections.abc import Sequence

from msgspec.structs import replace

from gangline_kubernetes.handing import Unfit
from gangline_kubernetes.objects import Pod, PriorityClass

SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""Classes that every cluster has, also while it does not list them."""


class Priorities:
    """The cluster's priority classes."""

    def __init__(self) -> None:
        """None is known."""
        self._classes: dict[str, PriorityClass] = {}

    def hear(self, before: PriorityClass | None, after: PriorityClass | None) -> None:
        """A class came, changed or went."""
        if before is not None:
            self._classes.pop(before.metadata.name, None)
        if after is not None:
            self._classes[after.metadata.name] = after

    def ranked(self, parts: Sequence[Sequence[Pod]]) -> list[list[Pod]] | Unfit:
        """The pods, part by part, with the one priority of their job: that of the first part which names a class."""
        specs = [part[0].spec for part in parts]
        name = next((spec.priority_class_name for spec in specs if spec.priority_class_name), "")
        said = next((spec for spec in specs if spec.priority is not None), None)
        rank = (said.priority, said.preemption_policy) if not name and said is not None else self._rank(name)
        if rank is None:
            return Unfit(f"there is no PriorityClass {name}")
        value, policy = rank
        # A template may repeat the policy of its class, which is all that the server lets its pods say.
        policy = policy or next((spec.preemption_policy for spec in specs if spec.preemption_policy), "")
        return [[_with(part[0], value, policy)] * len(part) for part in parts]

    def _rank(self, name: str) -> tuple[int | None, str] | None:
        """What the class says, or the cluster's default one; None for a class that is not there."""
        if not name:
            usual = [one for one in self._classes.values() if one.global_default]
            # Of several defaults the server takes the smallest.
            found = min(usual, key=lambda one: (one.value, one.metadata.name), default=None)
            return (found.value, found.preemption_policy) if found is not None else (0, "")
        found = self._classes.get(name)
        if found is None:
            return (SYSTEM[name], "") if name in SYSTEM else None
        return found.value, found.preemption_policy


def _with(pod: Pod, value: int | None, policy: str) -> Pod:
    return replace(pod, spec=replace(pod.spec, priority=value, preemption_policy=policy))
