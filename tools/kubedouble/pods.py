"""What pods have beyond other objects: they are bound to a node, and evicted where a budget allows it."""

from typing import Any

from kubedouble import policies, selectors, strict
from kubedouble.errors import STALE, ApiError, conflict
from kubedouble.kinds import Kind
from kubedouble.store import Object
from kubedouble.verbs import PODS, Verbs

BUDGETS = "policy/poddisruptionbudgets"


def bind(verbs: Verbs, kind: Kind, namespace: str, name: str, body: Object) -> Object:
    """Give a pod its node, once; annotations and labels of the binding go to the pod.

    Raises:
        ApiError: 409 when it has one, is being deleted, is gated, or is another pod of that name.
    """
    if wrong := list(strict.binding_faults(name, body)):
        # Only the first is the request's fault; the server calls the others its own.
        code, word = (400, "BadRequest") if "URL" in wrong[0] else (500, "InternalError")
        raise ApiError(code, word, "; ".join(wrong))
    pod, meta = verbs.find(kind, namespace, name), body.get("metadata") or {}
    have = pod["metadata"]
    if meta.get("uid") not in (None, "", have["uid"]):
        raise conflict("pods", name, f"Precondition failed: UID in precondition: {meta['uid']}")
    if meta.get("resourceVersion") not in (None, "", have["resourceVersion"]):
        raise conflict("pods", name, STALE)
    if have.get("deletionTimestamp"):
        raise conflict("pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host")
    if pod["spec"].get("nodeName"):
        why = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
        raise conflict("pods/binding", name, why)
    if pod["spec"].get("schedulingGates"):
        raise conflict("pods/binding", name, f"pod {name} has non-empty .spec.schedulingGates")
    after = {
        **pod,
        "metadata": {**have, "annotations": {**(have.get("annotations") or {}), **(meta.get("annotations") or {})}},
        "spec": {**pod["spec"], "nodeName": body["target"]["name"]},
        "status": {
            **pod["status"],
            "conditions": with_condition(
                pod["status"].get("conditions", []),
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": verbs.stamp()},
            ),
        },
    }
    verbs.store.put(PODS, after, pod)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def evict(verbs: Verbs, kind: Kind, namespace: str, name: str, body: Object) -> Object:
    """Delete a pod with its grace, unless a disruption budget forbids it; what runs nothing may always go.

    Raises:
        ApiError: 429 when a budget forbids it; 500 when several are about the pod.
    """
    pod, options = verbs.find(kind, namespace, name), body.get("deleteOptions") or {}
    done = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    is_free = pod["status"].get("phase") != "Running" or "deletionTimestamp" in pod["metadata"]
    budgets = [] if is_free else [one for one in verbs.store.all(BUDGETS, namespace) if _is_about(one, pod)]
    if len(budgets) > 1:
        why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise ApiError(500, "InternalError", why)
    for budget in budgets:
        allowed = budget.get("status", {}).get("disruptionsAllowed", 0)
        if allowed <= 0:
            message = "Cannot evict pod as it would violate the pod's disruption budget."
            raise ApiError(429, "TooManyRequests", message, causes=[{"reason": "DisruptionBudget"}])
        if not options.get("dryRun"):
            status = {**budget.get("status", {}), "disruptionsAllowed": allowed - 1}
            verbs.store.put(BUDGETS, {**budget, "status": status}, budget)
    if options.get("dryRun"):
        return done
    disruption = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    conditions = with_condition(pod["status"].get("conditions", []), disruption)
    verbs.store.put(PODS, {**pod, "status": {**pod["status"], "conditions": conditions}}, pod)
    verbs.delete(kind, namespace, name, options)
    return done


def _is_about(budget: Object, pod: Object) -> bool:
    """An empty selector is about all pods of the namespace, and none about no pod."""
    selector = budget["spec"].get("selector")
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    return bool(selectors.labels(",".join(f"{key}={value}" for key, value in wanted.items()))(pod))


def debug(verbs: Verbs, kind: Kind, pod: Object, body: Object) -> Object:
    """Add containers to look into a running pod.

    Raises:
        ApiError: a policy forbids them.
    """
    more = (body.get("spec") or {}).get("ephemeralContainers") or []
    have = pod["spec"].get("ephemeralContainers") or []
    names = {one["name"] for one in have}
    after = {
        **pod,
        "spec": {**pod["spec"], "ephemeralContainers": [*have, *(one for one in more if one["name"] not in names)]},
    }
    policies.admit(verbs.store, kind, after, pod, user=verbs.user, sub="ephemeralcontainers")
    return verbs.store.put(PODS, after, pod)


def with_condition(conditions: list[Object], one: Object) -> list[Any]:
    """The conditions with this one in place of the one of its type."""
    return [*(have for have in conditions if have["type"] != one["type"]), one]
