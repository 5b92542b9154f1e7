"""Admission that changes what is asked for, before it is judged: plugins of the server, and mutating policies."""

import re

from kubedouble import cel, guards, patches, policies
from kubedouble.errors import ApiError
from kubedouble.kinds import Kind
from kubedouble.store import Object, Store

CLASSES = "scheduling.k8s.io/priorityclasses"
POLICIES = "admissionregistration.k8s.io/mutatingadmissionpolicies"
BINDINGS = "admissionregistration.k8s.io/mutatingadmissionpolicybindings"
PREEMPTS = "PreemptLowerPriority"
"""What pods whose class says nothing do."""
SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def changed(store: Store, kind: Kind, item: Object, *, user: str) -> Object:
    """A new object as the plugins would have it.

    Raises:
        ApiError: one of them does not let it in.
    """
    for bound in store.all(BINDINGS):
        policy = store.get(POLICIES, "", bound["spec"]["policyName"])
        if policy is not None and policies.is_meant(policy, bound, store, kind=kind, item=item, operation="CREATE"):
            item = _mutated(store, policy["spec"], item, user)
    return guards.ranged(store, _ranked(store, item)) if kind.storage == "/pods" else item


def _mutated(store: Store, spec: Object, item: Object, user: str) -> Object:
    """The object as one policy would have it; one that cannot be answered changes nothing, or lets nothing in."""
    try:
        # Match conditions are asked without the namespace, as the real server does it.
        data = policies.data_of(item, None, user=user, operation="CREATE")
        if not all(cel.holds(one["expression"], **data) for one in spec.get("matchConditions", ())):
            return item
        data["namespaceObject"] = store.get("/namespaces", "", item["metadata"].get("namespace", ""))
        variables: Object = {}
        for one in spec.get("variables", ()):
            variables[one["name"]] = cel.value(one["expression"], **data, variables=variables)
        for one in spec["mutations"]:
            text = plain(one["jsonPatch"]["expression"])
            found = cel.value(text, **{**data, "object": item}, variables=variables)
            item = patches.json_patch(item, found)
    except cel.CelError as error:
        if spec.get("failurePolicy", "Fail") == "Fail":
            raise ApiError(422, "Invalid", f"expression could not be evaluated: {error}") from error
    return item


def plain(expression: str) -> str:
    """The expression with the server's type of a patch as a map, which is all that it holds."""
    fields = r"JSONPatch\{op: (\"\w+\"), path: (\"[^\"]*\"), value: "
    return re.sub(fields, r'{"op": \1, "path": \2, "value": ', expression)


def _ranked(store: Store, pod: Object) -> Object:
    """The pod with the number that its class stands for; nobody may write another one."""
    spec, name = pod["spec"], pod["spec"].get("priorityClassName", "")
    found = next((one for one in store.all(CLASSES) if one["metadata"]["name"] == name), None)
    if not name:
        found = next((one for one in store.all(CLASSES) if one.get("globalDefault")), None)
    value = found["value"] if found is not None else SYSTEM.get(name, 0)
    if name and found is None and name not in SYSTEM:
        raise _forbidden(pod, f"no PriorityClass with name {name} was found")
    if spec.get("priority") not in (None, value):
        raise _forbidden(pod, "the integer value of priority must not be provided in pod spec")
    policy = (found or {}).get("preemptionPolicy", PREEMPTS)
    if spec.get("preemptionPolicy") not in (None, policy):
        raise _forbidden(pod, f"the string value of PreemptionPolicy must not be provided in pod spec: it is {policy}")
    return {**pod, "spec": {**spec, "priority": value, "preemptionPolicy": policy}}


def _forbidden(pod: Object, why: str) -> ApiError:
    return ApiError(403, "Forbidden", f'pods "{pod["metadata"]["name"]}" is forbidden: {why}')
