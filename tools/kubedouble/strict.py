"""Rules of the real server that only show when somebody is careless: owners, finalizers, parts of pods, claims."""

from collections.abc import Iterator
from typing import Any

from kubedouble import policies
from kubedouble.guards import amount
from kubedouble.kinds import Kind

Object = dict[str, Any]

DIRECTIVES = ("nodeSelector", "tolerations", "schedulingGates")
"""Of a Job's pod template, what may change while it is suspended and has not started; node affinity and marks, too."""


def faults(kind: Kind, item: Object) -> Iterator[str]:
    """What is wrong with an object by itself."""
    yield from _meta(item["metadata"])
    if kind.name == "Pod":
        yield from _pod(item.get("spec") or {})
    if kind.name == "Event" and not kind.group:
        yield from _event(item)
    if kind.name == "ResourceClaim":
        yield from _claim(item)
    if kind.name == "ValidatingAdmissionPolicy":
        yield from policies.faults(item)


def _meta(meta: Object) -> Iterator[str]:
    owners = meta.get("ownerReferences") or ()
    for number, one in enumerate(owners):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not one.get(field):
                yield f"metadata.ownerReferences[{number}].{field}: Invalid value: must not be empty"
    if sum(bool(one.get("controller")) for one in owners) > 1:
        yield "metadata.ownerReferences: Invalid value: Only one reference can have Controller set to true"
    for name in meta.get("finalizers") or ():
        if "/" not in name and name not in ("orphan", "foregroundDeletion", "kubernetes"):
            yield f'metadata.finalizers: Invalid value: "{name}": name is neither standard nor qualified'


def _pod(spec: Object) -> Iterator[str]:
    if spec.get("activeDeadlineSeconds", 1) < 1:
        yield "spec.activeDeadlineSeconds: Invalid value: must be between 1 and 2147483647, inclusive"
    for number, one in enumerate(spec.get("tolerations") or ()):
        where = f"spec.tolerations[{number}]"
        if one.get("operator") == "Exists" and one.get("value"):
            yield f"{where}.operator: Invalid value: value must be empty when `operator` is 'Exists'"
        if not one.get("key") and one.get("operator") != "Exists":
            yield f"{where}.operator: Invalid value: operator must be Exists when `key` is empty"
        if one.get("tolerationSeconds") is not None and one.get("effect") != "NoExecute":
            yield f"{where}.effect: Invalid value: effect must be 'NoExecute' when `tolerationSeconds` is set"
    claims = [one.get("name") for one in spec.get("resourceClaims") or ()]
    volumes = [one.get("name") for one in spec.get("volumes") or ()]
    names = [one.get("name") for one in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))]
    if len(set(names)) < len(names):
        yield "spec.containers: Duplicate value"
    for number, one in enumerate(spec.get("containers") or ()):
        yield from _container(one, f"spec.containers[{number}]", claims, volumes)


def _container(container: Object, where: str, claims: list[Any], volumes: list[Any]) -> Iterator[str]:
    resources = container.get("resources") or {}
    asked, most = resources.get("requests") or {}, resources.get("limits") or {}
    for name in {*asked, *most}:
        is_plain = name in ("cpu", "memory", "ephemeral-storage") or name.startswith("hugepages-")
        if not is_plain and "/" not in name:
            yield f'{where}.resources: Invalid value: "{name}": must be a standard resource type or fully qualified'
        if "/" in name and amount(asked.get(name, most.get(name))) % 1:
            yield f"{where}.resources: Invalid value: must be an integer"
        if "/" in name and name in asked and str(asked[name]) != str(most.get(name)):
            yield f"{where}.resources.requests: Invalid value: must be equal to {name} limit"
    for one in resources.get("claims") or ():
        if one.get("name") not in claims:
            yield f'{where}.resources.claims: Not found: "{one.get("name")}"'
    for one in container.get("volumeMounts") or ():
        if one.get("name") not in volumes:
            yield f'{where}.volumeMounts: Not found: "{one.get("name")}"'
    for one in container.get("env") or ():
        if not one.get("name") or "=" in one["name"]:
            yield f"{where}.env: Invalid value: a name must not be empty or hold ="
        if "value" in one and "valueFrom" in one and one["value"]:
            yield f"{where}.env.valueFrom: Invalid value: may not be specified when `value` is not empty"


def _event(item: Object) -> Iterator[str]:
    about, namespace = item.get("involvedObject") or {}, item["metadata"].get("namespace", "")
    if about.get("namespace", "") != namespace and (about.get("namespace") or namespace != "default"):
        yield "involvedObject.namespace: Invalid value: does not match event.namespace"
    if item.get("eventTime"):
        if "." not in str(item["eventTime"]):
            yield "eventTime: Invalid value: must be in micro time"
        for field in ("reportingComponent", "reportingInstance", "action", "reason"):
            if not item.get(field):
                yield f"{field}: Required value"


def _claim(item: Object) -> Iterator[str]:
    requests = [one.get("name") for one in ((item.get("spec") or {}).get("devices") or {}).get("requests") or ()]
    status = item.get("status") or {}
    allocation = status.get("allocation")
    if status.get("reservedFor") and not allocation:
        yield "status.reservedFor: Forbidden: may not be specified when `allocated` is not set"
    for number, one in enumerate(status.get("reservedFor") or ()):
        for field in ("resource", "name", "uid"):
            if not one.get(field):
                yield f"status.reservedFor[{number}].{field}: Required value"
    for number, one in enumerate(((allocation or {}).get("devices") or {}).get("results") or ()):
        where = f"status.allocation.devices.results[{number}]"
        if one.get("request") not in requests:
            yield f"{where}.request: Invalid value: must be the name of a request in the claim"
        for field in ("driver", "pool", "device"):
            if not one.get(field):
                yield f"{where}.{field}: Required value"


def change_faults(kind: Kind, before: Object, after: Object) -> Iterator[str]:
    """What may not become of an object that is stored."""
    old, new = before["metadata"], after["metadata"]
    if old.get("deletionTimestamp") and set(new.get("finalizers") or ()) - set(old.get("finalizers") or ()):
        yield "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted"
    if kind.name == "ResourceClaim" and before.get("spec") != after.get("spec"):
        yield "spec: Invalid value: field is immutable"
    if kind.storage == "batch/jobs":
        yield from _job(before, after)
    if kind.storage == "jobset.x-k8s.io/jobsets":
        yield from _job_set(before, after)


def _job(before: Object, after: Object) -> Iterator[str]:
    old, new = before["spec"], after["spec"]
    for field in ("selector", "completionMode"):
        if old.get(field) != new.get(field):
            yield f"spec.{field}: Invalid value: field is immutable"
    if old.get("completions") != new.get("completions"):
        if old.get("completionMode") != "Indexed":
            yield "spec.completions: Invalid value: field is immutable"
        elif new.get("completions") != new.get("parallelism"):
            yield "spec.completions: Invalid value: can only be modified in tandem with spec.parallelism"
    may = bool(old.get("suspend")) and not (before.get("status") or {}).get("startTime")
    if _fixed(old.get("template") or {}, may=may) != _fixed(new.get("template") or {}, may=may):
        yield "spec.template: Invalid value: field is immutable"


def _job_set(before: Object, after: Object) -> Iterator[str]:
    """The webhook of JobSet: while suspended, marks, selector, tolerations and gates of pods; else no job at all."""
    old, new = (one["spec"].get("replicatedJobs") or [] for one in (before, after))
    may = bool(before["spec"].get("suspend"))
    if [_fixed_part(one, may=may) for one in old] != [_fixed_part(one, may=may) for one in new]:
        yield "spec.replicatedJobs: Invalid value: field is immutable"


def _fixed_part(part: Object, *, may: bool) -> Object:
    """The part of a replicated job that may not change."""
    inner = part.get("template") or {}
    job = inner.get("spec") or {}
    pods = job.get("template") or {}
    if not may:
        return part
    spec = {key: value for key, value in (pods.get("spec") or {}).items() if key not in DIRECTIVES}
    meta = {k: v for k, v in (pods.get("metadata") or {}).items() if k not in ("labels", "annotations")}
    return {**part, "template": {**inner, "spec": {**job, "template": {"spec": spec, "metadata": meta}}}}


def _fixed(template: Object, *, may: bool) -> Object:
    """The part of a template that may not change."""
    if not may:
        return template
    spec = {key: value for key, value in (template.get("spec") or {}).items() if key not in DIRECTIVES}
    affinity = {key: value for key, value in (spec.pop("affinity", None) or {}).items() if key != "nodeAffinity"}
    meta = {k: v for k, v in (template.get("metadata") or {}).items() if k not in ("labels", "annotations")}
    return {"spec": {**spec, "affinity": affinity}, "metadata": meta}


def binding_faults(name: str, body: Object) -> Iterator[str]:
    """What is wrong with a binding by itself."""
    target = body.get("target") or {}
    if (body.get("metadata") or {}).get("name") != name:
        yield "name in URL does not match name in Binding object"
    if target.get("kind") not in (None, "", "Node"):
        yield f'target.kind: Unsupported value: "{target["kind"]}": supported values: "Node", "<empty>"'
    if not target.get("name"):
        yield "target.name: Required value"
