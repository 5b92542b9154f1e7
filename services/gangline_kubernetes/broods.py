"""Which pods stand under which object, in whatever order both are heard of: kept always, so that nothing is forgotten.

An object of one namespace owns nothing in another one, whatever a pod there says of its owners.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from gangline_kit.errors import TemporaryError
from gangline_kubernetes.objects import Meta, OwnerObject, Pod
from gangline_kubernetes.owner_kinds import COUNTED, KINDS, KUBEFLOW, MPI, REPLICA_INDEX, OwnerKind

KIND_NAMES = frozenset(kind.name for kind in (*KINDS, *COUNTED))


class NoPodError(TemporaryError):
    """The owner made no pod that fits its place: its job goes back to the queue, and the node is not to blame."""


class Broods:
    """Objects that make pods, and the pods under them."""

    def __init__(self) -> None:
        """None is known."""
        self.objects: dict[str, tuple[OwnerKind, OwnerObject]] = {}
        """By uid."""
        self._below: dict[str, dict[str, None]] = {}
        """Uids of the objects right below each."""
        self._pods: dict[str, dict[str, Pod]] = {}
        """Pods that are not over, by the uid of what is right above them and their own."""
        self._ended: dict[str, dict[str, str]] = {}
        """Part and number of pods that have done their work, likewise: their controller makes no others for them."""

    def hear(self, kind: OwnerKind, before: OwnerObject | None, after: OwnerObject | None) -> None:
        """An object came, changed or went."""
        for one in filter(None, (before,)):
            for above in one.metadata.owner_references:
                self._below.get(above.uid, {}).pop(one.metadata.uid, None)
            self.objects.pop(one.metadata.uid, None)
        if after is not None:
            self.objects[after.metadata.uid] = (kind, self._known(kind, after))
            for above in after.metadata.owner_references:
                if above.controller:
                    self._below.setdefault(above.uid, {})[after.metadata.uid] = None

    def hear_pod(self, before: Pod | None, after: Pod | None) -> None:
        """A pod came, changed or went."""
        for one in filter(None, (before, after)):
            if (above := _above(one.metadata)) is not None:
                here = self._pods.get(above, {})
                here.pop(one.metadata.uid, None)
                if not here:
                    self._pods.pop(above, None)
        self._hear_end(before, after)
        if after is not None and not after.is_over and (above := _above(after.metadata)) is not None:
            self._pods.setdefault(above, {})[after.metadata.uid] = after

    def _hear_end(self, before: Pod | None, after: Pod | None) -> None:
        """Pods of Kubeflow's kinds say by labels which part and number they are."""
        one = after or before
        above = _above(one.metadata) if one is not None else None
        if one is None or above is None:
            return
        is_done = after is not None and after.status.phase == "Succeeded" and not after.metadata.deletion_timestamp
        ended, uid = self._ended.setdefault(above, {}), one.metadata.uid
        was_done = ended.pop(uid, None) is not None
        if is_done and (number := one.metadata.labels.get(REPLICA_INDEX)):
            ended[uid] = number
            for label in (KUBEFLOW, MPI):
                if label in one.metadata.labels:
                    ended[uid] = f"{one.metadata.labels[label].lower()}/{number}"
        if not ended:
            del self._ended[above]
        if above in self.objects and (was_done or uid in ended):
            kind, found = self.objects[above]
            self.objects[above] = (kind, self._known(kind, found))

    def _known(self, kind: OwnerKind, found: OwnerObject) -> OwnerObject:
        ended = tuple(sorted(self._ended.get(found.metadata.uid, {}).values()))
        return found if found.ended_pods == ended else replace(found, ended_pods=ended)

    def pods_of(self, root: str) -> Iterator[Pod]:
        """The living pods under an object, at any depth."""
        known = self.objects.get(root)
        namespace = known[1].metadata.namespace if known is not None else ""
        todo, seen = [root], {root}
        while todo:
            uid = todo.pop()
            yield from [one for one in self._pods.get(uid, {}).values() if one.metadata.namespace == namespace]
            fresh = [one for one in self._below.get(uid, ()) if one not in seen]
            seen.update(fresh)
            todo.extend(fresh)

    def root_of(self, meta: Meta) -> str:
        """Uid of the outermost owner that is known; empty without one."""
        found = ""
        while True:
            here = (one for one in meta.owner_references if one.controller and self._is_above(one.uid, meta))
            above = next(here, None)
            if above is None or above.uid == found:
                return found
            found, meta = above.uid, self.objects[above.uid][1].metadata

    def _is_above(self, uid: str, meta: Meta) -> bool:
        return uid in self.objects and self.objects[uid][1].metadata.namespace == meta.namespace

    def is_unclear(self, meta: Meta) -> bool:
        """True while an owner that should be known is not, as watches of different kinds are not in step."""
        return bool(self.missing(meta))

    def missing(self, meta: Meta) -> str:
        """Kind of the owner that should be known and is not; empty when all are."""
        above = next((one for one in meta.owner_references if one.controller and one.kind in KIND_NAMES), None)
        if above is None:
            return ""
        return self.missing(self.objects[above.uid][1].metadata) if above.uid in self.objects else above.kind


def _above(meta: Meta) -> str | None:
    """Uid of the object right above a pod, if that is of a kind that we follow."""
    return next((one.uid for one in meta.owner_references if one.controller and one.kind in KIND_NAMES), None)
