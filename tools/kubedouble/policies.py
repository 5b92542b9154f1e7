"""Validating admission policies: rules in CEL that administrators set for what may be created and changed."""

from collections.abc import Iterator
from typing import Any

from kubedouble import cel
from kubedouble.errors import ApiError
from kubedouble.kinds import Kind
from kubedouble.store import Object, Store

POLICIES = "admissionregistration.k8s.io/validatingadmissionpolicies"
BINDINGS = "admissionregistration.k8s.io/validatingadmissionpolicybindings"
CODES = {"Unauthorized": 401, "Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413}


def admit(store: Store, kind: Kind, item: Object, before: Object | None, *, user: str, sub: str = "") -> None:
    """Let an object in, or not.

    Raises:
        ApiError: a policy that is bound denies it.
    """
    for bound in store.all(BINDINGS):
        policy = store.get(POLICIES, "", bound["spec"]["policyName"])
        if policy is None or "Deny" not in bound["spec"].get("validationActions", ()):
            continue
        operation = "CREATE" if before is None else "UPDATE"
        if not is_meant(policy, bound, store, kind=kind, item=item, operation=operation, sub=sub):
            continue
        data = data_of(item, before, user=user, operation=operation, sub=sub)
        for message, reason in _denials(policy["spec"], data):
            name = item["metadata"].get("name", "")
            told = (
                f"ValidatingAdmissionPolicy '{policy['metadata']['name']}' with binding '{bound['metadata']['name']}'"
            )
            full = f'{kind.resource} "{name}" is forbidden: {told} denied request: {message}'
            raise ApiError(CODES.get(reason, 422), reason, full)


def faults(policy: Object) -> Iterator[str]:
    """Expressions of a policy that cannot be read."""
    spec = policy["spec"]
    parts = [("matchConditions", one) for one in spec.get("matchConditions", ())]
    parts += [("variables", one) for one in spec.get("variables", ())]
    parts += [("validations", one) for one in spec.get("validations", ())]
    for where, one in parts:
        try:
            cel.compiled(one["expression"])
        except cel.CelError as error:
            yield f"spec.{where}.expression: Invalid value: compilation failed: {error}"


def is_meant(
    policy: Object, bound: Object, store: Store, *, kind: Kind, item: Object, operation: str, sub: str = ""
) -> bool:
    """True when the policy is about such an object, where it is."""
    resource = f"{kind.plural}/{sub}" if sub else kind.plural
    rules = policy["spec"]["matchConstraints"].get("resourceRules", ())
    fits = any(
        kind.group in rule["apiGroups"] and operation in rule["operations"] and resource in rule["resources"]
        for rule in rules
    )
    selector = (bound["spec"].get("matchResources") or {}).get("namespaceSelector") or {}
    place = store.get("/namespaces", "", item["metadata"].get("namespace", "")) or {"metadata": {}}
    labels = place["metadata"].get("labels") or {}
    return fits and all(_expression_holds(one, labels) for one in selector.get("matchExpressions", ()))


def _expression_holds(one: Object, labels: dict[str, str]) -> bool:
    has = labels.get(one["key"]) in one.get("values", ())
    return has if one["operator"] == "In" else not has


def data_of(item: Object, before: Object | None, *, user: str, operation: str, sub: str = "") -> dict[str, Any]:
    """What expressions may speak of."""
    request = {"operation": operation, "userInfo": {"username": user}, "namespace": item["metadata"].get("namespace")}
    request |= {"subResource": sub} if sub else {}
    return {"object": item, "oldObject": before, "request": request}


def _denials(spec: Object, data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Message and reason of each validation that does not hold; what cannot be answered counts as such."""
    try:
        if not all(cel.holds(one["expression"], **data) for one in spec.get("matchConditions", ())):
            return
        variables: dict[str, Any] = {}
        for one in spec.get("variables", ()):
            variables[one["name"]] = cel.value(one["expression"], **data, variables=variables)
        for one in spec.get("validations", ()):
            if not cel.holds(one["expression"], **data, variables=variables):
                yield one.get("message", f"failed expression: {one['expression']}"), one.get("reason", "Invalid")
    except cel.CelError as error:
        if spec.get("failurePolicy", "Fail") == "Fail":
            yield f"expression could not be evaluated: {error}", "Invalid"
