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
        said = next((spec.priority for spec in specs if spec.priority is not None), None)
        value = self._value(name, said)
        if value is None:
            return Unfit(f"there is no PriorityClass {name}")
        return [[replace(part[0], spec=replace(part[0].spec, priority=value))] * len(part) for part in parts]

    def _value(self, name: str, said: int | None) -> int | None:
        if not name and said is not None:
            return said
        if not name:
            usual = [one for one in self._classes.values() if one.global_default]
            # Of several defaults the server takes the smallest.
            return min((one.value for one in usual), default=0)
        found = self._classes.get(name)
        return found.value if found is not None else SYSTEM.get(name)
