"""Objects of others whose number of pods may change while they run: between which bounds, and who changed it. Pure."""

from collections.abc import Sequence
from typing import Any

from gangline_core.spec import Elastic, ResizeKind
from gangline_kubernetes.adoption import said
from gangline_kubernetes.names import is_number
from gangline_kubernetes.objects import OwnerObject, Pod
from gangline_kubernetes.owner_kinds import OwnerKind, Part, Path, changed
from gangline_kubernetes.quantities import whole

LEAST = ("gangline.dev/min-size",)
MOST = ("gangline.dev/max-size",)
NOTICE_S = ("gangline.dev/notice-seconds",)
ELASTIC = ("kueue.x-k8s.io/elastic-job",)
"""Says that the bounds of a Ray worker group are meant for us."""
NOTE_SIZES = "gangline.dev/sizes"
"""Annotation: the numbers of pods that we gave the object last, part by part; another number is somebody's wish."""

Bounds = tuple[int, int]


def bounds_of(kind: OwnerKind, found: OwnerObject, parts: Sequence[Part]) -> list[Bounds]:
    """Least and largest size of each part; both its count for parts that stay as they are."""
    return [_bounds(kind, found, part, parts) for part in parts]


def _bounds(kind: OwnerKind, found: OwnerObject, part: Part, parts: Sequence[Part]) -> Bounds:
    fixed = (part.count, part.count)
    if not part.sizes:
        return fixed
    meta = Pod(metadata=found.metadata)
    is_only = sum(bool(one.sizes) for one in parts) == 1
    least, most = (said(meta, LEAST), said(meta, MOST)) if is_only else ("", "")
    if kind.name == "PyTorchJob" and not most:
        policy = found.spec.get("elasticPolicy") or {}
        least, most = policy.get("minReplicas", ""), policy.get("maxReplicas", "")
    elif kind.name == "RayCluster" and not most and said(meta, ELASTIC) == "true":
        group = _at({"spec": found.spec}, part.sizes[0][:-1])
        least, most = group.get("minReplicas", ""), group.get("maxReplicas", "")
    if not str(most):
        return fixed
    low = max(1, whole(least) if str(least) else part.count)
    high = whole(most)
    return (low, high) if low <= part.count <= high else fixed


def elastic_of(kind: OwnerKind, found: OwnerObject) -> Elastic:
    """How a change of size goes."""
    notice_s = whole(said(Pod(metadata=found.metadata), NOTICE_S) or 0)
    how = ResizeKind.TORCHRUN if kind.name == "PyTorchJob" else ResizeKind.TASKS
    return Elastic(kind=how, notice_s=max(0, notice_s))


def resized(
    kind: OwnerKind, found: OwnerObject, parts: Sequence[Part], sizes: dict[int, int], leaving: Sequence[str] = ()
) -> dict[str, Any]:
    """A merge patch that gives these parts these numbers of pods; `leaving` names pods that go."""
    edits: list[tuple[Path, Any]] = [(path, size) for number, size in sizes.items() for path in parts[number].sizes]
    if kind.name == "RayCluster" and leaving:
        going = {"workersToDelete": list(leaving)}
        edits.extend(((*parts[number].sizes[0][:-1], "scaleStrategy"), going) for number in sizes)
    return {**changed(found, edits), "metadata": note(parts, sizes)}


def note(parts: Sequence[Part], sizes: dict[int, int]) -> dict[str, Any]:
    """What says that these numbers are ours."""
    text = ",".join(str(sizes.get(number, part.count)) for number, part in enumerate(parts))
    return {"annotations": {NOTE_SIZES: text}}


def wishes(found: OwnerObject, parts: Sequence[Part], bounds: Sequence[Bounds], admitted: Sequence[int]) -> list[int]:
    """For each part the number that somebody else gave it since we did, or 0."""
    said_so = found.metadata.annotations.get(NOTE_SIZES, "").split(",")
    ours = [int(text) for text in said_so] if len(said_so) == len(parts) and all(map(is_number, said_so)) else None
    known = ours or list(admitted)
    return [
        part.count if least < most and k < len(known) and part.count != known[k] else 0
        for k, (part, (least, most)) in enumerate(zip(parts, bounds, strict=True))
    ]


def _at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value
