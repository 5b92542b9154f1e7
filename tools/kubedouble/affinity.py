"""Whether a pod may be on a node by its node selector and its required node affinity, as kubelets check once more."""

from typing import Any

from kubedouble.store import Object

NODE_AFFINITY = "NodeAffinity"
"""Why a kubelet refuses a pod that may not be on its node."""


def may_be_on(pod: Object, node: Object) -> bool:
    """True when the node's labels and name are what the pod asks for."""
    spec, labels = pod["spec"], node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(_term(term, labels, fields) for term in required["nodeSelectorTerms"])


def _term(term: Object, labels: Object, fields: Object) -> bool:
    asked = [(one, labels) for one in term.get("matchExpressions") or ()]
    asked += [(one, fields) for one in term.get("matchFields") or ()]
    return bool(asked) and all(_requirement(one, have) for one, have in asked)


def _requirement(one: Object, have: Object) -> bool:
    key, values = one["key"], one.get("values") or []
    value: Any = have.get(key)
    if one["operator"] in ("Gt", "Lt"):
        try:
            return int(value) > int(values[0]) if one["operator"] == "Gt" else int(value) < int(values[0])
        except (TypeError, ValueError):
            return False
    answers = {"In": value in values, "NotIn": value not in values, "Exists": key in have}
    return answers.get(one["operator"], key not in have)
