"""Create, update, patch and delete as the real server does them: versions, generations, finalizers, status apart."""

import copy
import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec

from kubedouble import guards, patches, plugins, policies, rules, schemas, sizes, structure
from kubedouble.errors import STALE, ApiError, already_exists, bad_request, conflict, invalid, not_found
from kubedouble.kinds import Kind, Kinds
from kubedouble.store import Change, Object, Store

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = ("application/apply-patch+yaml", "application/apply-patch+cbor")
PODS = "/pods"
CRDS = "apiextensions.k8s.io/customresourcedefinitions"


class Verbs:
    """What can be done to objects; `now` gives seconds since 1970."""

    def __init__(self, store: Store, kinds: Kinds, now: Callable[[], float]) -> None:
        """Every cluster has its first namespaces."""
        self.store = store
        self.kinds = kinds
        self.now = now
        self.schemas: dict[str, schemas.Schema] = {}
        """Schema of each custom kind, by storage and version."""
        self.wants_accounts = False
        """Refuse pods whose service account is not there; nobody makes accounts here, as a controller would."""
        self.user = ""
        """Who asks for what is being done."""
        self.sizes = sizes.Sizes()
        self.scales: dict[str, tuple[str, str]] = {}
        """Where objects of each custom kind say how many are wanted and how many there are."""
        self.owners: dict[str, dict[str, patches.Fields]] = {}
        """Fields of each applied object by who applied them, by uid."""
        self._uids = itertools.count(1)
        store.listeners.append(self._collect_garbage)
        store.listeners += [partial(guards.finish, self), self.sizes.hear]
        for name in ("default", "kube-system"):
            self.create(self._kind("", "v1", "namespaces"), "", {"metadata": {"name": name}})

    def _kind(self, group: str, version: str, plural: str) -> Kind:
        found = self.kinds.find(group, version, plural)
        assert found is not None
        return found

    def stamp(self, seconds: float = 0) -> str:
        """Now, or so many seconds later, as objects carry times."""
        moment = datetime.fromtimestamp(int(self.now() + seconds), tz=UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")

    def find(self, kind: Kind, namespace: str, name: str) -> Object:
        """The stored object.

        Raises:
            ApiError: 404.
        """
        item = self.store.get(kind.storage, namespace, name)
        if item is None:
            raise not_found(kind.resource, name)
        return item

    # --- create -------------------------------------------------------------------------------------------

    def create(self, kind: Kind, namespace: str, body: Object, *, strict: bool = False, dry: bool = False) -> Object:
        """Store a new object.

        Raises:
            ApiError: its name is taken, its namespace missing, or it breaks a rule.
        """
        meta = dict(body.get("metadata") or {})
        if meta.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        if namespace and meta.setdefault("namespace", namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = f"{meta['generateName']}{next(self._uids):05x}"
        if namespace and self.store.get("/namespaces", "", namespace) is None:
            raise not_found("namespaces", namespace)
        uid = f"00000000-0000-4000-8000-{next(self._uids):012x}"
        meta |= {"uid": uid, "creationTimestamp": self.stamp()}
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "generation"):
            meta.pop(field, None)
        if kind.counts_generations:
            meta["generation"] = 1
        item = {**body, "apiVersion": kind.api_version, "kind": kind.name, "metadata": meta}
        if kind.has_status and not (kind.name in ("Node", "PodDisruptionBudget") and not kind.custom):
            item.pop("status", None)
        item = self._fit(kind, rules.complete(kind, item), strict=strict, before=None)
        if self.store.get(kind.storage, namespace, meta["name"]) is not None:
            raise already_exists(kind.resource, meta["name"])
        if kind.storage == CRDS:
            item = self._define(item)
        item = plugins.changed(self.store, kind, item, user=self.user)
        policies.admit(self.store, kind, item, None, user=self.user)
        guards.admit(self.store, kind, item)
        if self.wants_accounts and kind.storage == PODS:
            self._check_account(item)
        self.sizes.check(item)
        return item if dry else self.store.put(kind.storage, item, None)

    def _check_account(self, pod: Object) -> None:
        name, namespace = pod["spec"].get("serviceAccountName", "default"), pod["metadata"]["namespace"]
        if self.store.get("/serviceaccounts", namespace, name) is None:
            why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
            raise ApiError(403, "Forbidden", f'pods "{pod["metadata"]["name"]}" is forbidden: {why}')

    def _fit(self, kind: Kind, item: Object, *, strict: bool, before: Object | None) -> Object:
        """The object as its schema wants it."""
        rules.check(kind, item)
        sizes.check_data(kind, item)
        schema = self.schemas.get(f"{kind.storage}/{kind.version}")
        if schema is None:
            return item
        dropped: list[str] = []
        known = {"apiVersion": {}, "kind": {}, "metadata": {"x-kubernetes-preserve-unknown-fields": True}}
        whole = {**schema, "properties": {**schema.get("properties", {}), **known}}
        item = schemas.prune(item, whole, dropped=dropped)
        if dropped and strict:
            unknown = ", ".join(f'unknown field "{field}"' for field in dropped)
            raise bad_request(
                f"{kind.name} in version {kind.version} cannot be handled: strict decoding error: {unknown}"
            )
        found = list(schemas.faults(item, whole, before=before))
        if found:
            raise invalid(f"{kind.name}.{kind.group}", item["metadata"].get("name", ""), found)
        return item

    def _define(self, crd: Object) -> Object:
        """Serve the kind that a definition describes; gives the definition with its status."""
        structure.check(crd)
        spec, names = crd["spec"], crd["spec"]["names"]
        for version in spec["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            kind = Kind(
                spec["group"],
                version["name"],
                names["plural"],
                names["kind"],
                namespaced=spec["scope"] == "Namespaced",
                short=tuple(names.get("shortNames", ())),
                has_status="status" in version.get("subresources", {}),
                subresources=("scale",) if "scale" in version.get("subresources", {}) else (),
                counts_generations=True,
                custom=True,
            )
            self.schemas[f"{kind.storage}/{kind.version}"] = schema
            if paths := version.get("subresources", {}).get("scale"):
                places = (paths["specReplicasPath"], paths["statusReplicasPath"])
                self.scales[f"{kind.storage}/{kind.version}"] = places
            self.kinds.add(kind)
        conditions = [{"type": word, "status": "True", "reason": word} for word in ("NamesAccepted", "Established")]
        return {**crd, "status": {"acceptedNames": names, "conditions": conditions, "storedVersions": []}}

    # --- update and patch ---------------------------------------------------------------------------------

    def update(
        self, kind: Kind, namespace: str, body: Object, *, status: bool = False, strict: bool = False, dry: bool = False
    ) -> Object:
        """Replace an object, or its status only.

        Raises:
            ApiError: 409 when the version or uid is not the stored one; 422 when a rule is broken.
        """
        meta = body.get("metadata") or {}
        before = self.find(kind, namespace, meta.get("name", ""))
        if not meta.get("resourceVersion") and kind.custom:
            fault = "metadata.resourceVersion: Invalid value: 0x0: must be specified for an update"
            raise invalid(f"{kind.name}.{kind.group}", meta.get("name", ""), [fault])
        return self.write(kind, before, body, status=status, strict=strict, dry=dry)

    def patch(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        form: str,
        data: Any,
        status: bool = False,
        strict: bool = False,
        manager: str = "unknown",
        force: bool = False,
        dry: bool = False,
    ) -> Object:
        """Change an object by one of the four kinds of patch.

        Raises:
            ApiError: as `update`; 415 for a form this kind does not take.
        """
        before = self.store.get(kind.storage, namespace, name)
        if form in APPLY:
            return self._apply(
                kind, namespace, name, data, before, manager=manager, force=force, strict=strict, dry=dry, status=status
            )
        if before is None:
            raise not_found(kind.resource, name)
        if form == JSON_PATCH:
            after = patches.json_patch(before, data)
        elif form == MERGE_PATCH:
            after = patches.merge(before, data)
        elif form == STRATEGIC and not kind.custom:
            after = patches.strategic(before, data)
        else:
            raise ApiError(415, "UnsupportedMediaType", f"the body of the request was in an unknown format: {form}")
        self._same(kind, before, after)
        return self.write(kind, before, after, status=status, strict=strict, dry=dry)

    def _same(self, kind: Kind, before: Object, after: Object) -> None:
        """A patch that is meant for another object of that name changes what cannot change; a replacement conflicts."""
        uid = (after.get("metadata") or {}).get("uid", before["metadata"]["uid"])
        if uid != before["metadata"]["uid"]:
            fault = f'metadata.uid: Invalid value: "{uid}": field is immutable'
            raise invalid(kind.name, before["metadata"]["name"], [fault])

    def _apply(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        data: Object,
        before: Object | None,
        *,
        manager: str,
        force: bool,
        strict: bool,
        dry: bool,
        status: bool,
    ) -> Object:
        applied = {**data, "metadata": {**(data.get("metadata") or {}), "name": name}}
        if before is None:
            made = self.create(kind, namespace, applied, strict=strict, dry=dry)
            self.owners[made["metadata"]["uid"]] = {manager: patches.owned(applied)}
            return made
        owners = copy.deepcopy(self.owners.get(before["metadata"]["uid"], {}))
        after = patches.apply(before, applied, owners, manager=manager, force=force, resource=kind.resource)
        written = self.write(kind, before, after, status=status, strict=strict, dry=dry)
        if not dry:
            self.owners[before["metadata"]["uid"]] = owners
        return written

    def write(
        self,
        kind: Kind,
        before: Object,
        after: Object,
        *,
        status: bool = False,
        strict: bool = False,
        dry: bool = False,
    ) -> Object:
        """Store a changed object: the main part without touching status, or the status without touching the rest."""
        name, meta = before["metadata"]["name"], dict(after.get("metadata") or {})
        if meta.get("resourceVersion", before["metadata"]["resourceVersion"]) != before["metadata"]["resourceVersion"]:
            raise conflict(kind.resource, name, STALE)
        if meta.get("uid", before["metadata"]["uid"]) != before["metadata"]["uid"]:
            why = f"Precondition failed: UID in precondition: {meta['uid']}"
            raise conflict(kind.resource, name, why)
        for field in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
            meta.pop(field, None)
            if field in before["metadata"]:
                meta[field] = before["metadata"][field]
        meta |= {"resourceVersion": before["metadata"]["resourceVersion"], "name": name}
        if kind.namespaced:
            meta["namespace"] = before["metadata"]["namespace"]
        item = {**after, "metadata": meta, "kind": kind.name, "apiVersion": kind.api_version}
        item = self._separated(kind, before, item, status=status)
        item = self._fit(kind, item, strict=strict, before=before)
        if kind.counts_generations and _content(item) != _content(before):
            item["metadata"] = {**item["metadata"], "generation": before["metadata"].get("generation", 1) + 1}
        if kind.storage == CRDS and not status:
            item = self._define(item)
        if not status:
            policies.admit(self.store, kind, item, before, user=self.user)
        if item == before or dry:
            return item
        self.sizes.check(item)
        stored = self.store.put(kind.storage, item, before)
        return self._finish_delete(kind, stored)

    def _separated(self, kind: Kind, before: Object, item: Object, *, status: bool) -> Object:
        if status:
            # Of a pod, metadata goes along with status; of a custom object it does not.
            meta = before["metadata"] if kind.custom else item["metadata"]
            rules.check_status_change(kind, before, item)
            return {**before, "metadata": meta, "status": item.get("status")}
        if kind.has_status:
            item = {key: value for key, value in item.items() if key != "status"}
            if "status" in before:
                item["status"] = before["status"]
        rules.check_change(kind, before, item)
        return item

    # --- delete -------------------------------------------------------------------------------------------

    def delete(self, kind: Kind, namespace: str, name: str, options: Object | None = None) -> Object:
        """Delete an object: at once, after its grace, or when its finalizers are gone.

        Raises:
            ApiError: 404; 409 when a precondition does not hold.
        """
        options = options or {}
        item = self.find(kind, namespace, name)
        wanted = options.get("preconditions") or {}
        for field in ("uid", "resourceVersion"):
            if wanted.get(field) not in (None, item["metadata"][field]):
                why = f"Precondition failed: {field} in precondition: {wanted[field]}"
                raise conflict(kind.resource, name, why)
        if options.get("propagationPolicy") == "Orphan":
            self._orphan(item)
        grace = self._grace(kind, item, options.get("gracePeriodSeconds"))
        meta = dict(item["metadata"])
        if kind.storage == guards.NAMESPACES:
            return item if "deletionTimestamp" in meta else guards.terminate(self, item)
        if not grace and not meta.get("finalizers"):
            return self._remove(kind, item)
        earlier = meta.get("deletionGracePeriodSeconds")
        if "deletionTimestamp" in meta and (earlier is None or earlier <= grace):
            return item
        meta |= {"deletionTimestamp": self.stamp(grace), "deletionGracePeriodSeconds": grace}
        return self.store.put(kind.storage, {**item, "metadata": meta}, item)

    def _grace(self, kind: Kind, item: Object, asked: int | None) -> int:
        """Seconds until the object may go; only pods that run somewhere have any."""
        if kind.storage != PODS or not item["spec"].get("nodeName"):
            return 0
        if item.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            return 0
        return int(item["spec"].get("terminationGracePeriodSeconds", 30) if asked is None else asked)

    def _finish_delete(self, kind: Kind, item: Object) -> Object:
        """An object that waited for its last finalizer goes when that is gone."""
        meta = item["metadata"]
        is_free = "deletionTimestamp" in meta and not meta.get("finalizers")
        if is_free and self._grace(kind, item, meta.get("deletionGracePeriodSeconds")) == 0:
            return self._remove(kind, item)
        return item

    def _remove(self, kind: Kind, item: Object) -> Object:
        if kind.storage == CRDS:
            self.kinds.drop(item["spec"]["group"], item["spec"]["names"]["plural"])
        self.owners.pop(item["metadata"]["uid"], None)
        return self.store.remove(kind.storage, item)

    def kubelet_removes(self, item: Object) -> None:
        """The kubelet has seen the pod's end: it goes, unless a finalizer keeps it."""
        pods = self._kind("", "v1", "pods")
        current = self.store.get(PODS, item["metadata"]["namespace"], item["metadata"]["name"])
        if current is None or current["metadata"]["uid"] != item["metadata"]["uid"]:
            return
        meta = {**current["metadata"], "deletionGracePeriodSeconds": 0}
        if meta.get("finalizers"):
            self.store.put(PODS, {**current, "metadata": meta}, current)
        else:
            self._remove(pods, current)

    def _orphan(self, owner: Object) -> None:
        uid = owner["metadata"]["uid"]
        for kind, item in self._dependents(uid):
            kept = [ref for ref in item["metadata"]["ownerReferences"] if ref["uid"] != uid]
            self.store.put(kind.storage, {**item, "metadata": {**item["metadata"], "ownerReferences": kept}}, item)

    def _collect_garbage(self, change: Change) -> None:
        """What belonged to nobody else goes with its owner."""
        if change.verb != "DELETED":
            return
        uid = change.after["metadata"]["uid"]
        for kind, item in self._dependents(uid):
            if all(ref["uid"] == uid for ref in item["metadata"]["ownerReferences"]):
                self.delete(kind, item["metadata"].get("namespace", ""), item["metadata"]["name"])

    def _dependents(self, uid: str) -> list[tuple[Kind, Object]]:
        served = {kind.storage: kind for kind in self.kinds}
        return [
            (served[storage], item)
            for storage, items in list(self.store.objects.items())
            for item in list(items.values())
            if any(ref["uid"] == uid for ref in item["metadata"].get("ownerReferences") or ())
        ]


def _content(item: Object) -> bytes:
    """What a generation counts the changes of."""
    kept = {key: value for key, value in item.items() if key not in ("metadata", "status")}
    return msgspec.json.encode(kept, order="deterministic")
