"""What pods of others say of their nodes that we cannot heed, and what would help. Pure."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from gangline_kubernetes.adoption import topology_words
from gangline_kubernetes.affinities import AFFINITIES_MAX, REQUIRED, Affinities, terms_of
from gangline_kubernetes.handing import Unfit
from gangline_kubernetes.objects import Pod

REASON = "PlaceNotGiven"
HOSTNAME = "kubernetes.io/hostname"
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


def unkept(pod: Pod) -> Pod:
    """The pod without what it says of hostnames, which we write ourselves for pods that others bind."""
    selector = {key: value for key, value in pod.spec.node_selector.items() if key != HOSTNAME}
    terms = terms_of(pod)
    affinity = pod.spec.affinity
    if terms is not None and affinity is not None:
        left = [_without_hostname(term) for term in terms]
        node = {**affinity["nodeAffinity"], REQUIRED: {"nodeSelectorTerms": left}}
        if any(not term for term in left):
            node.pop(REQUIRED)
        affinity = {**affinity, "nodeAffinity": node}
    return replace(pod, spec=replace(pod.spec, node_selector=selector, affinity=affinity))


def _without_hostname(term: dict[str, Any]) -> dict[str, Any]:
    rest = [one for one in term.get("matchExpressions") or () if one.get("key") != HOSTNAME]
    return {key: value for key, value in {**term, "matchExpressions": rest}.items() if value}


def placed(uid: str, pods: Sequence[Pod], affinities: Affinities) -> Unfit | None:
    """Why these pods of one gang cannot be placed as they ask; one that says nothing only has to wait for nodes."""
    if (why := misplaced(pods)) is not None:
        return why
    if not affinities.hold(uid, pods):
        return Unfit(
            f"jobs wait with {AFFINITIES_MAX} different node affinities and host ports already: use a nodeSelector"
        )
    return None if affinities.is_known(uid) else Unfit("", is_for_now=True)
