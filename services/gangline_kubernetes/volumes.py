"""Volume claims of pods of others: those that are not bound yet would wait for a scheduler that chooses a volume, and
those that are bound keep their pod to the nodes that reach the volume."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from gangline_kit.clock import Clock
from gangline_kit.errors import TemporaryError
from gangline_kubernetes.affinities import REQUIRED, Affinities, Term, terms_of
from gangline_kubernetes.api import Api, RefusedError, path_of
from gangline_kubernetes.handing import Unfit
from gangline_kubernetes.objects import Pod
from gangline_kubernetes.places import misplaced, placed
from gangline_kubernetes.shallow import read

log = logging.getLogger(__name__)

BOUND = "Bound"
KNOWN_S = 30.0
"""A claim with its volume is not asked for again within this: neither changes while a pod waits."""
KNOWN_MAX = 10_000
ZONES = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
"""Labels of a volume that its nodes must have, too; several values stand with two underscores between them."""

Reach = list[list[Term]]
"""For each volume the alternatives by which a node reaches it."""


class VolumeClaim(msgspec.Struct, frozen=True):
    """A PersistentVolumeClaim as far as it matters here."""

    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class Volume(msgspec.Struct, frozen=True):
    """A PersistentVolume as far as it matters here."""

    metadata: dict[str, Any] = {}
    spec: dict[str, Any] = {}


def claims_of(pod: Pod) -> list[str]:
    """Names of the volume claims that a pod uses, those that are made for it among them."""
    found = []
    for volume in pod.spec.volumes or ():
        if claim := volume.get("persistentVolumeClaim"):
            found.append(str(claim.get("claimName", "")))
        elif volume.get("ephemeral") and pod.metadata.uid:
            found.append(f"{pod.metadata.name}-{volume.get('name', '')}")
    return found


def reached(volume: Volume) -> Reach:
    """By which labels and fields nodes reach a volume; nothing for one that every node does."""
    asked = (volume.spec.get("nodeAffinity") or {}).get("required") or {}
    found: Reach = [[dict(one) for one in asked.get("nodeSelectorTerms") or ()]] if asked else []
    labels: Mapping[str, str] = volume.metadata.get("labels") or {}
    zones = [{"key": key, "operator": "In", "values": labels[key].split("__")} for key in ZONES if labels.get(key)]
    return [*found, [{"matchExpressions": zones}]] if zones else found


def within(pod: Pod, reach: Reach) -> Pod:
    """The pod with a required node affinity that allows only nodes which reach its volumes, too."""
    if not reach:
        return pod
    terms = terms_of(pod)
    for one in reach:
        terms = one if terms is None else [_both(mine, its) for mine in terms for its in one]
    node = {**((pod.spec.affinity or {}).get("nodeAffinity") or {}), REQUIRED: {"nodeSelectorTerms": terms}}
    return replace(pod, spec=replace(pod.spec, affinity={**(pod.spec.affinity or {}), "nodeAffinity": node}))


def _both(mine: Term, its: Term) -> Term:
    """What fits both alternatives; one that says nothing fits no node, and so does this."""
    if not any(mine.values()) or not any(its.values()):
        return {}
    fields = ("matchExpressions", "matchFields")
    found = {field: [*(mine.get(field) or ()), *(its.get(field) or ())] for field in fields}
    return {field: said for field, said in found.items() if said}


class Volumes:
    """Asks the server which claims have their volume, and where those are."""

    def __init__(self, api: Api, clock: Clock, ours: str) -> None:
        """Ask through this API; `ours` is the name of our scheduler."""
        self._ours = ours
        self._api = api
        self._clock = clock
        self._claim = msgspec.json.Decoder(VolumeClaim)
        self._volume = msgspec.json.Decoder(Volume)
        self._known: dict[tuple[str, str], tuple[float, Reach]] = {}
        self._of_pod: dict[str, Reach] = {}
        """What is known of the volumes of each waiting pod, by its uid."""

    async def settled(self, pods: Sequence[Pod], affinities: Affinities) -> list[Pod] | Unfit:
        """Pods of one gang as they can be placed, or why they cannot.

        Raises:
            RefusedError, TemporaryError: as `Api.call`.
        """
        if (why := misplaced(pods)) is not None:
            return why
        found = []
        for pod in pods:
            reach = await self.reach(pod)
            if isinstance(reach, Unfit):
                return reach
            self._of_pod[pod.metadata.uid] = reach
            found.append(within(pod, reach))
        whys = (placed(pod.metadata.uid, [pod], affinities) for pod in found)
        return next((why for why in whys if why is not None), found)

    async def again(self, pods: Sequence[Pod], affinities: Affinities) -> None:
        """Learn anew where the volumes of pods are whose jobs wait, as whoever led before us knew."""
        for pod in pods:
            try:
                await self.settled([pod], affinities)
            except (RefusedError, TemporaryError) as error:
                log.warning("volumes of pod %s: %s", pod.metadata.name, error)

    def known(self, pod: Pod) -> Pod:
        """The pod with what is known of its volumes."""
        return within(pod, self._of_pod.get(pod.metadata.uid, []))

    def forget(self, uid: str) -> None:
        """The pod waits no more."""
        self._of_pod.pop(uid, None)

    async def reach(self, pod: Pod) -> Reach | Unfit:
        """How nodes reach the pod's volumes, or which of its claims has none; nothing where we may not read them.

        Raises:
            RefusedError, TemporaryError: as `Api.call`.
        """
        found: Reach = []
        for name in claims_of(pod):
            one = await self._of_claim(pod.metadata.namespace, name)
            if not isinstance(one, Unfit):
                found.extend(one)
            elif pod.spec.scheduler_name == self._ours:
                return one
        # Who binds a pod chooses its volumes: those that are not bound yet are the other scheduler's business.
        return found

    async def _of_claim(self, namespace: str, name: str) -> Reach | Unfit:
        now_s, key = self._clock.monotonic_s(), (namespace, name)
        if key in self._known and now_s - self._known[key][0] < KNOWN_S:
            return self._known[key][1]
        path = path_of("v1", "persistentvolumeclaims", namespace=namespace, name=name)
        try:
            claim = read(self._claim, await self._api.call("GET", path))
            phase = claim.status.get("phase", "Pending")
            volume = str(claim.spec.get("volumeName") or "") if phase == BOUND else ""
            path = path_of("v1", "persistentvolumes", name=volume)
            found = reached(read(self._volume, await self._api.call("GET", path))) if volume else []
        except RefusedError as error:
            if error.code == 403:
                return []
            if not error.is_gone:
                raise
            phase, found = "not there", []
        if phase != BOUND:
            return Unfit(
                f"volume claim {name} is {phase}; no volume is chosen here: use a storage class with"
                " volumeBindingMode Immediate, or have the claim bound before",
                is_for_now=True,
            )
        self._known.pop(key, None)
        self._known[key] = (now_s, found)
        while len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]
        return found

    async def of_parts(self, parts: Iterable[Sequence[Pod]]) -> list[Reach] | Unfit:
        """The same for the parts of an owner, whose pods are all alike.

        Raises:
            RefusedError, TemporaryError: as `Api.call`.
        """
        found = []
        for one, *_ in parts:
            reach = await self.reach(one)
            if isinstance(reach, Unfit):
                return reach
            found.append(reach)
        return found
