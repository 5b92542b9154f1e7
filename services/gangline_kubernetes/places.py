"""What pods of others say of their nodes that we cannot heed, and what would help. Pure."""

from collections.abc import Callable, Sequence
from typing import Any

from gangline_kubernetes.adoption import topology_words
from gangline_kubernetes.affinities import AFFINITIES_MAX, REQUIRED, Affinities
from gangline_kubernetes.handing import Unfit
from gangline_kubernetes.objects import Pod

REASON = "PlaceNotGiven"
POOL = "gangline.dev/pool"

WORDS: tuple[tuple[str, Callable[[Pod], Any]], ...] = (
    ("topology annotations", lambda pod: topology_words(pod)),
    (f"label {POOL}", lambda pod: pod.metadata.labels.get(POOL, "")),
)
"""What all pods of a gang have to say alike, as a job says it once."""


def misplaced(pods: Sequence[Pod]) -> Unfit | None:
    """Why pods of one gang cannot be placed as they ask; None when they can."""
    for pod in pods:
        if why := unheeded(pod):
            return Unfit(f"pod {pod.metadata.name}: {why}")
    first = pods[0]
    for what, word in WORDS if len(pods) > 1 else ():
        mine = word(first)
        other = next((pod for pod in pods[1:] if word(pod) != mine), None)
        if other is not None:
            names = f"{first.metadata.name} and {other.metadata.name}"
            names = f"pods {names}" if first.metadata.name != other.metadata.name else f"parts of {first.metadata.name}"
            return Unfit(
                f"{names} differ in {what}: say the same in all pods of a gang, or make them gangs of their own"
            )
    return None


def unheeded(pod: Pod) -> str:
    """What the pod asks of its node that is not heeded here; empty when everything is."""
    affinity = pod.spec.affinity or {}
    for field, help_ in (
        ("podAffinity", "for pods that stand together say gangline.dev/topology-required"),
        ("podAntiAffinity", "for pods that stand apart ask for what they need of a node"),
    ):
        if (affinity.get(field) or {}).get(REQUIRED):
            return f"required {field} is not heeded: {help_}, or say it as preferredDuringScheduling"
    if any(one.get("whenUnsatisfiable") == "DoNotSchedule" for one in pod.spec.topology_spread_constraints or ()):
        return "topologySpreadConstraints with DoNotSchedule are not heeded: say whenUnsatisfiable: ScheduleAnyway"
    return ""


def pointed(affinity: dict[str, Any] | None, node: str) -> dict[str, Any]:
    """The affinity with this node as the only one, beside what it asks for already.

    Of a pod that is still gated the server lets requirements be added to terms, at their ends, and nothing else.
    """
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
    kept = affinity or {}
    wanted = kept.get("nodeAffinity") or {}
    required = wanted.get(REQUIRED) or {}
    # A term that asks for nothing is no node's.
    terms = [
        {**term, "matchFields": [*(term.get("matchFields") or ()), here]} if any(term.values()) else term
        for term in required.get("nodeSelectorTerms") or ()
    ]
    return {**kept, "nodeAffinity": {**wanted, REQUIRED: {"nodeSelectorTerms": terms or [{"matchFields": [here]}]}}}


def placed(uid: str, pods: Sequence[Pod], affinities: Affinities) -> Unfit | None:
    """Why these pods of one gang cannot be placed as they ask; one that says nothing only has to wait for nodes."""
    if (why := misplaced(pods)) is not None:
        return why
    if not affinities.hold(uid, pods):
        return Unfit(
            f"jobs wait with {AFFINITIES_MAX} different node affinities and host ports already: use a nodeSelector"
        )
    return None if affinities.is_known(uid) else Unfit("", is_for_now=True)
