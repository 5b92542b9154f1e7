"""Custom resource definitions made from the wire's own types, so that a Job object and a job file are one schema."""

import sys
from typing import Any

import msgspec

from gangline_core.cluster import Policy, Pool
from gangline_core.groups import Group
from gangline_kubernetes.explaining import name_in_words, notes_of
from gangline_kubernetes.names import GROUP, VERSION
from gangline_wire.jobfile_schema import JOB_FILE

Schema = dict[str, Any]

FIXED = ("name", "group", "user", "pool", "image", "min", "max", "service_class")
"""Plain fields of an admitted Job that a rule keeps as they are; the others are compared by the service."""
KEPT = (
    "type",
    "description",
    "enum",
    "pattern",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "maxProperties",
    "required",
    "default",
)
"""Words of JSON Schema that a structural schema has, too."""

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
TIME: Schema = {"type": "string", "format": "date-time"}

CONDITIONS: Schema = {
    "type": "array",
    "description": "What holds now, each with its reason and since when.",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
    "items": {
        "type": "object",
        "required": ["type", "status"],
        "properties": {
            "type": TEXT,
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "reason": TEXT,
            "message": TEXT,
            "observedGeneration": WHOLE,
            "lastTransitionTime": TIME,
        },
    },
}

JOB_STATUS: Schema = {
    "type": "object",
    "description": "What became of the job; written by Gangline only.",
    "properties": {
        "job": {"type": "integer", "description": "Number of the job, as `gangline show` takes it."},
        "phase": {"type": "string", "description": "Waiting, Placed, Running, Succeeded and the like."},
        "reason": {"type": "string", "description": "Why it stands where it stands, in one word."},
        "message": {"type": "string", "description": "The same as a sentence with its numbers."},
        "observedGeneration": {"type": "integer", "description": "Generation of the spec this status is about."},
        "hold": {"type": "boolean", "description": "What the spec said of holding when it was last looked at."},
        "attempt": {"type": "integer", "description": "How often it was placed."},
        "preemptions": {"type": "integer", "description": "How often it was preempted."},
        "resizes": {"type": "integer", "description": "How often its size was changed."},
        "gpus": {"type": "integer", "description": "GPUs it holds now."},
        "nodes": {"type": "array", "items": TEXT, "description": "Nodes it runs on."},
        "nodesLeftOut": {"type": "integer", "description": "Nodes that are not named, as there are very many."},
        "exitCode": {"type": "integer", "description": "Exit code of the task that failed, or 0."},
        "startTime": TIME,
        "completionTime": TIME,
        "tasks": {
            "type": "object",
            "description": "Its tasks, or the elements of an array: wanted, placed, running, ended.",
            "properties": {name: WHOLE for name in ("wanted", "placed", "running", "ended")},
        },
        "conditions": CONDITIONS,
    },
}

SETTING_STATUS: Schema = {
    "type": "object",
    "properties": {"observedGeneration": WHOLE, "message": TEXT, "conditions": CONDITIONS},
}


_REFUSED = "has(oldSelf.status) && has(oldSelf.status.phase) && oldSelf.status.phase == 'Refused'"
"""There is no job that cannot be another: such an object may be mended where it is."""
_TASKS_FIXED: Schema = {
    "rule": (
        f"({_REFUSED}) || has(self.spec.max) || (has(self.spec.tasks) ? self.spec.tasks : 1)"
        " == (has(oldSelf.spec.tasks) ? oldSelf.spec.tasks : 1)"
    ),
    "message": "tasks of a job without a max cannot be changed; make a new Job",
}


def _fixed(name: str) -> Schema:
    """The rule that keeps one field of an admitted job as it is, also from coming and going."""
    mine, its = f"self.spec.{name}", f"oldSelf.spec.{name}"
    same = f"has({mine}) == has({its}) && (!has({mine}) || {mine} == {its})"
    return {"rule": f"({_REFUSED}) || ({same})", "message": f"spec.{name} cannot be changed; make a new Job"}


def definitions() -> list[Schema]:
    """All definitions, Job first."""
    return [job_definition(), group_definition(), pool_definition(), policy_definition()]


def job_definition() -> Schema:
    """A job: its spec is the job file."""
    spec = structural(JOB_FILE)
    spec["properties"]["secrets"]["description"] += (
        " Here also keys of Secrets of the namespace: {NAME: {secretKeyRef: {name: ..., key: ...}}};"
        " other values lie open in this object."
    )
    spec["description"] = "One job: either `roles`, or the fields of its single role."
    spec["x-kubernetes-validations"] = [
        {"rule": "!(has(self.roles) && has(self.tasks))", "message": "tasks belongs into the entries of roles"},
    ]
    columns = [
        _column("Job", "integer", ".status.job"),
        _column("Phase", "string", ".status.phase"),
        _column("Reason", "string", ".status.reason"),
        _column("GPUs", "integer", ".status.gpus"),
        _column("Running", "integer", ".status.tasks.running"),
        _column("Message", "string", ".status.message", priority=1),
        _column("Age", "date", ".metadata.creationTimestamp"),
    ]
    names = [name for name in FIXED if "type" in spec["properties"].get(name, {})]
    found = _definition("Job", "jobs", spec, JOB_STATUS, columns, namespaced=True, short=["gj"])
    (version,) = found["spec"]["versions"]
    version["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] = [*map(_fixed, names), _TASKS_FIXED]
    version["subresources"]["scale"] = {
        "specReplicasPath": ".spec.tasks",
        "statusReplicasPath": ".status.tasks.placed",
    }
    return found


def group_definition() -> Schema:
    """A group with its limits, guarantees and weight; its path is a field, as names cannot hold slashes."""
    columns = [
        _column("Path", "string", ".spec.path"),
        _column("Weight", "integer", ".spec.weight"),
        _accepted(),
        _column("Age", "date", ".metadata.creationTimestamp"),
    ]
    spec = _of_struct(Group, without=("version",), required=("path",))
    return _definition("Group", "groups", spec, SETTING_STATUS, columns, namespaced=False, short=["gg"])


def pool_definition() -> Schema:
    """A pool of nodes with its queue levels and topology; its name is the object's."""
    columns = [_accepted(), _column("Age", "date", ".metadata.creationTimestamp")]
    spec = _of_struct(Pool, without=("name",))
    return _definition("Pool", "pools", spec, SETTING_STATUS, columns, namespaced=False, short=["gp"])


def policy_definition() -> Schema:
    """How a pool orders, places and preempts; its name is the pool's."""
    columns = [
        _column("Ordering", "string", ".spec.ordering"),
        _column("Placement", "string", ".spec.placement"),
        _accepted(),
        _column("Age", "date", ".metadata.creationTimestamp"),
    ]
    spec = _of_struct(Policy, without=("version",))
    return _definition("PolicyConfig", "policyconfigs", spec, SETTING_STATUS, columns, namespaced=False)


def structural(schema: Schema) -> Schema:
    """A JSON Schema as a structural one.

    What may be of several types is an integer or text where that says it, and else left to the service, which refuses
    in the status what it cannot read.
    """
    choices = schema.get("anyOf")
    if choices is not None or isinstance(schema.get("type"), list):
        kinds = {str(one.get("type", "constant")) for one in choices or ()}
        word = (
            "x-kubernetes-int-or-string" if kinds == {"integer", "string"} else "x-kubernetes-preserve-unknown-fields"
        )
        return {**_described(schema), word: True}
    found = {key: schema[key] for key in KEPT if key in schema and schema[key] != []}
    if "type" not in found:
        if "enum" not in found:
            return {**_described(schema), "x-kubernetes-preserve-unknown-fields": True}
        found["type"] = "string"
    if "properties" in schema:
        found["properties"] = {key: structural(inner) for key, inner in schema["properties"].items()}
    elif isinstance(schema.get("additionalProperties"), dict):
        found["additionalProperties"] = structural(schema["additionalProperties"])
    if "items" in schema:
        found["items"] = structural(schema["items"])
    return found


def _described(schema: Schema) -> Schema:
    return {"description": schema["description"]} if "description" in schema else {}


def _of_struct(kind: type, *, without: tuple[str, ...], required: tuple[str, ...] = ()) -> Schema:
    """The structural schema of a wire type, without fields that the object says otherwise."""
    (whole,), parts = msgspec.json.schema_components([kind])
    for name, part in parts.items():
        _explain(part, getattr(sys.modules[kind.__module__], name, None))
    schema = _resolved(parts[whole["$ref"].rpartition("/")[2]], parts)
    schema["properties"] = {key: inner for key, inner in schema["properties"].items() if key not in without}
    schema["required"] = list(required)
    made = structural(schema)
    for inner in made["properties"].values():
        # What is left out is for the service to fill in; a default here would be written into every object.
        inner.pop("default", None)
    return made


def _explain(part: Schema, kind: type | None) -> None:
    """Give the fields of one struct's schema the texts that its source has for them."""
    notes = notes_of(kind) if kind is not None else {}
    for field, inner in part.get("properties", {}).items():
        inner["description"] = notes.get(field) or name_in_words(field)


def _resolved(schema: Any, parts: Schema) -> Any:
    if isinstance(schema, list):
        return [_resolved(one, parts) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        found = _resolved(parts[schema["$ref"].rpartition("/")[2]], parts)
        return {**found, "description": schema["description"]} if "description" in schema else found
    return {key: _resolved(inner, parts) for key, inner in schema.items() if key not in ("title", "default")}


def _definition(
    kind: str,
    plural: str,
    spec: Schema,
    status: Schema,
    columns: list[Schema],
    *,
    namespaced: bool,
    short: list[str] | None = None,
) -> Schema:
    names: Schema = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    if short:
        names["shortNames"] = short
    whole = {
        "type": "object",
        "description": f"{kind} of Gangline.",
        "required": ["spec"],
        "properties": {
            "apiVersion": TEXT,
            "kind": TEXT,
            "metadata": {"type": "object"},
            "spec": {"description": f"What the {kind.lower()} shall be.", **spec},
            "status": status,
        },
    }
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": whole},
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}", "labels": {"app.kubernetes.io/part-of": "gangline"}},
        "spec": {
            "group": GROUP,
            "names": names,
            "scope": "Namespaced" if namespaced else "Cluster",
            "versions": [version],
        },
    }


def _column(name: str, kind: str, path: str, *, priority: int = 0) -> Schema:
    found: Schema = {"name": name, "type": kind, "jsonPath": path}
    return {**found, "priority": priority} if priority else found


def _accepted() -> Schema:
    return _column("Accepted", "string", '.status.conditions[?(@.type=="Accepted")].status')
