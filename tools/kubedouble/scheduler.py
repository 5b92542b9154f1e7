"""The default scheduler, as far as it matters to others: pods that name it are bound where they fit, gated ones not."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from kubedouble.affinity import may_be_on
from kubedouble.pods import bind, with_condition
from kubedouble.server import Double
from kubedouble.store import Change, Object
from kubedouble.verbs import PODS

NODES = "/nodes"
NAME = "default-scheduler"
DELAY_S = 0.05
Choose = Callable[[list[str]], str]
"""From the names of the nodes where a pod fits, in their order, to the one that it gets."""


class DefaultScheduler:
    """Binds one pod after the other; what fits nowhere is told so, and tried again when anything changes."""

    def __init__(self, double: Double, choose: Choose = max) -> None:
        """It acts from now on; by itself it prefers the last node, as others may for any reason."""
        self.double = double
        self.choose = choose
        self.bound: dict[str, str] = {}
        """Node of each pod that it bound, by the pod's name."""
        self._is_due = True
        asyncio.get_running_loop().call_later(DELAY_S, self._schedule)
        double.store.listeners.append(self.hear)

    def hear(self, change: Change) -> None:
        """Something changed."""
        if change.storage in (PODS, NODES) and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_later(DELAY_S, self._schedule)

    def _schedule(self) -> None:
        self._is_due = False
        store = self.double.store
        for pod in store.all(PODS):
            spec, meta = pod["spec"], pod["metadata"]
            if spec["schedulerName"] != NAME or spec.get("nodeName") or spec.get("schedulingGates"):
                continue
            if "deletionTimestamp" not in meta and pod["status"].get("phase") == "Pending":
                self._place(pod, [node["metadata"]["name"] for node in store.all(NODES) if self._fits(pod, node)])

    def _place(self, pod: Object, names: list[str]) -> None:
        meta, kind = pod["metadata"], self.double.kinds.find("", "v1", "pods")
        assert kind is not None
        if names:
            name = self.bound[meta["name"]] = self.choose(sorted(names))
            target = {"metadata": {"name": meta["name"]}, "target": {"name": name}}
            bind(self.double.verbs, kind, meta["namespace"], meta["name"], target)
            return
        why = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0 nodes are available"}
        conditions = pod["status"].get("conditions", [])
        if why not in conditions:
            after = {**pod, "status": {**pod["status"], "conditions": with_condition(conditions, why)}}
            self.double.store.put(PODS, after, pod)

    def _fits(self, pod: Object, node: Object) -> bool:
        spec = node["spec"]
        if spec.get("unschedulable") or not may_be_on(pod, node) or not _tolerates(pod, spec.get("taints") or ()):
            return False
        taken: Counter[str] = Counter()
        for other in self.double.store.all(PODS):
            is_there = other["spec"].get("nodeName") == node["metadata"]["name"]
            if is_there and other["status"].get("phase") not in ("Succeeded", "Failed"):
                taken += _devices(other)
        room = node["status"]["allocatable"]
        return all(taken[name] + count <= int(room.get(name, 0)) for name, count in _devices(pod).items())


def _tolerates(pod: Object, taints: Any) -> bool:
    """True when a toleration names the key of each taint, which is all that is told apart here."""
    keys = {one.get("key", "") for one in pod["spec"].get("tolerations") or ()}
    return all(one["key"] in keys or "" in keys for one in taints)


def _devices(pod: Object) -> Counter[str]:
    """Extended resources that a pod asks for."""
    found: Counter[str] = Counter()
    for one in pod["spec"]["containers"]:
        limits: dict[str, Any] = (one.get("resources") or {}).get("limits") or {}
        found.update({name: int(value) for name, value in limits.items() if "/" in name})
    return found
