"""What may change of a pod that nobody looks at yet: where it may be can be said more narrowly, and nothing else."""

from typing import Any

Object = dict[str, Any]


def without_place(spec: Object) -> Object:
    """The spec without what may change about it."""
    affinity = {key: value for key, value in (spec.get("affinity") or {}).items() if key != "nodeAffinity"}
    return {key: value for key, value in spec.items() if key not in ("nodeSelector", "affinity")} | {"-": affinity}


def narrowed(old: Object, new: Object) -> list[str]:
    """Faults of a change of node selector and node affinity, which may only ask for more."""
    faults = []
    if not (old.get("nodeSelector") or {}).items() <= (new.get("nodeSelector") or {}).items():
        faults.append("spec.nodeSelector: Invalid value: only additions are allowed (no mutations or deletions)")
    mine, its = _terms(old), _terms(new)
    where = "spec.affinity.nodeAffinity: Invalid value"
    if mine and len(mine) != len(its):
        faults.append(f"{where}: no additions/deletions to non-empty NodeSelectorTerms list are allowed")
    elif any(not _adds(*pair) for pair in zip(mine, its, strict=False)):
        faults.append(f"{where}: only additions are allowed (no mutations or deletions)")
    return faults


def _terms(spec: Object) -> list[Object]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms: list[Object] = required.get("nodeSelectorTerms") or []
    return terms


def _adds(old: Object, new: Object) -> bool:
    """True when the new term holds all of the old one, in its order, with more behind it; an empty one stays empty."""
    pairs = [(old.get(field) or [], new.get(field) or []) for field in ("matchExpressions", "matchFields")]
    is_same = all(after[: len(before)] == before for before, after in pairs)
    return is_same and (any(before for before, _ in pairs) or not any(after for _, after in pairs))
