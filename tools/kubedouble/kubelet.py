"""A kubelet for every node: bound pods run, end, fail or hang; nodes come, fall silent and go."""

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from kubedouble.affinity import NODE_AFFINITY, may_be_on
from kubedouble.pods import with_condition
from kubedouble.server import Double
from kubedouble.store import Change, Object
from kubedouble.verbs import PODS

NODES = "/nodes"
STOP_CODE = 143
KILL_CODE = 137


class Life(Struct, frozen=True):
    """How a pod behaves."""

    start_s: float = 0.0
    """Between bound and running."""
    run_s: float | None = None
    """Between running and its end; None runs until it is stopped."""
    exit_code: int = 0
    stop_s: float = 0.0
    """How long it takes to end when it is asked to; more than its grace means it is killed."""
    ready_s: float = 0.0
    """Between running and ready."""
    refused: str = ""
    """The kubelet does not take it, for this reason."""


def life_of(pod: Object) -> Life:
    """The behaviour that a pod's annotations `double/<field>` describe."""
    notes = pod["metadata"].get("annotations") or {}

    def number(name: str, otherwise: float | None) -> float | None:
        return float(notes[f"double/{name}"]) if f"double/{name}" in notes else otherwise

    return Life(
        start_s=number("start_s", 0.0) or 0.0,
        run_s=number("run_s", None),
        exit_code=int(number("exit_code", 0) or 0),
        stop_s=number("stop_s", 0.0) or 0.0,
        ready_s=number("ready_s", 0.0) or 0.0,
        refused=notes.get("double/refused", ""),
    )


class Kubelets:
    """All kubelets of the cluster; a silent node's pods stay as they are."""

    def __init__(self, double: Double, life: Callable[[Object], Life] = life_of) -> None:
        """They act from now on."""
        self.double = double
        self.store = double.store
        self.life = life
        self.silent: set[str] = set()
        self._timers: dict[str, list[asyncio.TimerHandle]] = {}
        self._stopping: set[str] = set()
        self.store.listeners.append(self.hear)

    # --- nodes --------------------------------------------------------------------------------------------

    def add_node(self, name: str, *, gpus: int = 8, model: str = "NVIDIA-H100", **fields: Any) -> Object:
        """A node joins, Ready, with so many GPUs; one that comes back under its name speaks again."""
        self.silent.discard(name)
        labels = {
            "kubernetes.io/hostname": name,
            "nvidia.com/gpu.product": model,
            "nvidia.com/gpu.memory": "81559",
            "nvidia.com/gpu.count": str(gpus),
            **fields.get("labels", {}),
        }
        room = {"cpu": "96", "memory": "1024Gi", "pods": "250", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
        node = {
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": fields.get("taints", [])},
            "status": {
                "capacity": room,
                "allocatable": {**room, **fields.get("allocatable", {})},
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
                "addresses": [{"type": "InternalIP", "address": fields.get("address", "10.0.0.1")}],
            },
        }
        kind = self.double.kinds.find("", "v1", "nodes")
        assert kind is not None
        return self.double.verbs.create(kind, "", node)

    def set_ready(self, name: str, status: str) -> None:
        """The node controller's word about a node: True, False or Unknown."""
        self._change(NODES, "", name, lambda node: _with_ready(node, status))

    def change_node(self, name: str, change: Callable[[Object], Object]) -> None:
        """Somebody changes a node."""
        self._change(NODES, "", name, change)

    def lose(self, name: str) -> None:
        """A node falls silent; its pods are seen no more."""
        self.silent.add(name)
        self.set_ready(name, "Unknown")

    def remove(self, name: str) -> None:
        """A node's object is deleted; then pod garbage collection fails its pods and deletes them by force."""
        self.silent.add(name)
        kind, pods = self.double.kinds.find("", "v1", "nodes"), self.double.kinds.find("", "v1", "pods")
        assert kind is not None
        assert pods is not None
        self.double.verbs.delete(kind, "", name)
        for pod in self.store.all(PODS):
            if pod["spec"].get("nodeName") == name:
                meta = pod["metadata"]
                if pod["status"].get("phase") not in ("Succeeded", "Failed"):
                    why = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}
                    self._status(
                        pod, phase="Failed", conditions=with_condition(pod["status"].get("conditions", []), why)
                    )
                self.double.verbs.delete(pods, meta["namespace"], meta["name"], {"gracePeriodSeconds": 0})

    def _change(self, storage: str, namespace: str, name: str, change: Callable[[Object], Object]) -> None:
        item = self.store.get(storage, namespace, name)
        if item is not None and (after := change(item)) != item:
            self.store.put(storage, after, item)

    # --- pods ---------------------------------------------------------------------------------------------

    def hear(self, change: Change) -> None:
        """A pod changed; whoever wants no kubelets takes this off the listeners."""
        if change.storage != PODS:
            return
        pod = change.after
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
        if change.verb == "DELETED":
            self._forget(uid)
        elif node and node not in self.silent and self.store.get(NODES, "", node) is not None:
            if uid not in self._timers:
                self._begin(pod)
            if "deletionTimestamp" in pod["metadata"] and uid not in self._stopping:
                self._stopping.add(uid)
                self._stop(pod)

    def _forget(self, uid: str) -> None:
        for timer in self._timers.pop(uid, ()):
            timer.cancel()
        self._stopping.discard(uid)

    def _later(self, pod: Object, seconds: float, act: Callable[[Object], None]) -> None:
        meta = pod["metadata"]

        def run() -> None:
            now = self.store.get(PODS, meta["namespace"], meta["name"])
            is_mine = now is not None and now["metadata"]["uid"] == meta["uid"]
            if now is not None and is_mine and now["spec"]["nodeName"] not in self.silent:
                act(now)

        timer = asyncio.get_running_loop().call_later(seconds, run)
        self._timers.setdefault(meta["uid"], []).append(timer)

    def _begin(self, pod: Object) -> None:
        life = self.life(pod)
        self._timers[pod["metadata"]["uid"]] = []
        node = self.store.get(NODES, "", pod["spec"]["nodeName"])
        refused = life.refused or ("" if node is None or may_be_on(pod, node) else NODE_AFFINITY)
        if refused:
            self._later(pod, 0, lambda now: self._fail(now, refused))
            return
        self._later(pod, life.start_s, self._run)
        if life.run_s is not None:
            self._later(pod, life.start_s + life.run_s, lambda now: self.finish(now, life.exit_code))

    def _run(self, pod: Object) -> None:
        if pod["status"].get("phase") != "Pending" or "deletionTimestamp" in pod["metadata"]:
            return
        state = {"running": {"startedAt": self.double.verbs.stamp()}}
        ready_s = self.life(pod).ready_s
        conditions = self._conditions(pod, ready=not ready_s)
        self._status(
            pod,
            phase="Running",
            podIP="10.1.0.1",
            podIPs=[{"ip": "10.1.0.1"}],
            startTime=self.double.verbs.stamp(),
            conditions=conditions,
            containerStatuses=self._containers(pod, state),
        )
        if ready_s:
            self._later(pod, ready_s, self._become_ready)

    def _become_ready(self, pod: Object) -> None:
        if pod["status"].get("phase") == "Running":
            self._status(pod, conditions=self._conditions(pod, ready=True))

    def _conditions(self, pod: Object, *, ready: bool) -> list[Object]:
        """What the kubelet says of a pod's progress."""
        found: list[Object] = pod["status"].get("conditions", [])
        for word, holds in (("Initialized", True), ("ContainersReady", ready), ("Ready", ready)):
            since = self.double.verbs.stamp()
            found = with_condition(found, {"type": word, "status": str(holds), "lastTransitionTime": since})
        return found

    def finish(self, pod: Object, code: int) -> None:
        """The pod's containers end with this code."""
        if pod["status"].get("phase") in ("Succeeded", "Failed"):
            return
        state = {"terminated": {"exitCode": code, "finishedAt": self.double.verbs.stamp()}}
        phase = "Failed" if code else "Succeeded"
        conditions = self._conditions(pod, ready=False)
        self._status(pod, phase=phase, conditions=conditions, containerStatuses=self._containers(pod, state))

    def finish_named(self, namespace: str, name: str, code: int = 0) -> None:
        """The same by name."""
        pod = self.store.get(PODS, namespace, name)
        assert pod is not None, f"there is no pod {namespace}/{name}"
        self.finish(pod, code)

    def _fail(self, pod: Object, reason: str) -> None:
        self._status(pod, phase="Failed", reason=reason, message=f"Pod was rejected: {reason}")

    def _stop(self, pod: Object) -> None:
        """Asked to end: after its own time, or killed when its grace is over; then it goes."""
        grace = float(pod["metadata"].get("deletionGracePeriodSeconds", 0))
        life = self.life(pod)

        def ends(now: Object) -> None:
            self.finish(now, KILL_CODE if life.stop_s > grace else STOP_CODE)
            self.double.verbs.kubelet_removes(now)

        self._later(pod, min(life.stop_s, grace), ends)

    def _containers(self, pod: Object, state: Object) -> list[Object]:
        return [
            {"name": one["name"], "image": one["image"], "ready": "running" in state, "restartCount": 0, "state": state}
            for one in pod["spec"]["containers"]
        ]

    def _status(self, pod: Object, **fields: Any) -> None:
        before = self.store.get(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"])
        if before is not None:
            self.store.put(PODS, {**before, "status": {**before["status"], **fields}}, before)


def _with_ready(node: Object, status: str) -> Object:
    ready = {"type": "Ready", "status": status, "reason": "NodeStatusUnknown" if status == "Unknown" else "Kubelet"}
    conditions = with_condition(node["status"].get("conditions", []), ready)
    taints = [one for one in node["spec"].get("taints") or () if not one["key"].startswith("node.kubernetes.io/")]
    if status != "True":
        word = "unreachable" if status == "Unknown" else "not-ready"
        taints.append({"key": f"node.kubernetes.io/{word}", "effect": "NoExecute"})
    return {
        **node,
        "spec": {**node["spec"], "taints": taints},
        "status": {**node["status"], "conditions": conditions},
    }
