"""What a cluster's own controller does about claims: makes those of templates, and gives back those of ended pods."""

from kubedouble.server import Double
from kubedouble.store import Change, Object
from kubedouble.verbs import PODS

CLAIMS = "resource.k8s.io/resourceclaims"
TEMPLATES = "resource.k8s.io/resourceclaimtemplates"
PROTECTED = "resource.kubernetes.io/delete-protection"


class ClaimController:
    """Acts at once on every change of a pod."""

    def __init__(self, double: Double) -> None:
        """It acts from now on."""
        self.double = double
        self.store = double.store
        self.store.listeners.append(self.hear)

    def hear(self, change: Change) -> None:
        """A pod changed."""
        if change.storage != PODS:
            return
        pod = change.after
        if change.verb == "DELETED" or pod["status"].get("phase") in ("Succeeded", "Failed"):
            self._give_back(pod)
        else:
            self._make(pod)

    def _make(self, pod: Object) -> None:
        """A claim for every template that the pod names, and the pod's status says which."""
        meta, made = pod["metadata"], list(pod["status"].get("resourceClaimStatuses") or ())
        known = {one["name"] for one in made}
        kind = next(one for one in self.double.kinds if one.storage == CLAIMS)
        for one in pod["spec"].get("resourceClaims") or ():
            template = self.store.get(TEMPLATES, meta["namespace"], one.get("resourceClaimTemplateName") or "")
            if template is None or one["name"] in known:
                continue
            owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}
            body = {
                "metadata": {
                    "generateName": f"{meta['name']}-{one['name']}-",
                    "annotations": {"resource.kubernetes.io/pod-claim-name": one["name"]},
                    "ownerReferences": [owner],
                },
                "spec": template["spec"]["spec"],
            }
            claim = self.double.verbs.create(kind, meta["namespace"], body)
            made.append({"name": one["name"], "resourceClaimName": claim["metadata"]["name"]})
        if len(made) > len(known):
            now = self.store.get(PODS, meta["namespace"], meta["name"])
            assert now is not None
            self.store.put(PODS, {**now, "status": {**now["status"], "resourceClaimStatuses": made}}, now)

    def _give_back(self, pod: Object) -> None:
        """Claims that only this pod used are no longer allocated."""
        uid = pod["metadata"]["uid"]
        for claim in self.store.all(CLAIMS, pod["metadata"]["namespace"]):
            status, meta = claim.get("status") or {}, claim["metadata"]
            used = status.get("reservedFor") or []
            rest = [one for one in used if one["uid"] != uid]
            if len(rest) == len(used):
                continue
            status = {**status, "reservedFor": rest}
            if not rest and PROTECTED in (meta.get("finalizers") or ()):
                status = {}
                meta = {**meta, "finalizers": [one for one in meta["finalizers"] if one != PROTECTED]}
            self.store.put(CLAIMS, {**claim, "metadata": meta, "status": status}, claim)
