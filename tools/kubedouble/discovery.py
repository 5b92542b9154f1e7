"""What clients ask before anything else: which groups, which kinds, and how their objects look."""

from typing import Any

from kubedouble.kinds import Kind, Kinds
from kubedouble.schemas import Schema
from kubedouble.store import Object

VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
PARTS: dict[str, Object] = {
    "scale": {"kind": "Scale", "group": "autoscaling", "version": "v1"},
    "eviction": {"kind": "Eviction", "group": "policy", "version": "v1", "verbs": ["create"]},
    "binding": {"kind": "Binding", "verbs": ["create"]},
}
"""Parts of objects that are written as another kind."""
VERSION = {"major": "1", "minor": "36", "gitVersion": "v1.36.2", "platform": "linux/amd64"}


def answer(kinds: Kinds, schemas: dict[str, Schema], path: str) -> Object | None:
    """The discovery document at a path, or None."""
    parts = [part for part in path.split("/") if part]
    match parts:
        case ["version"]:
            return VERSION
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(kinds, one) for one in groups(kinds)]}
        case ["api", "v1"]:
            return _resources(kinds, "", "v1")
        case ["apis", group] if group in groups(kinds):
            return _group(kinds, group)
        case ["apis", group, version] if group in groups(kinds):
            return _resources(kinds, group, version)
        case ["openapi", "v3"]:
            return {"paths": {place: {"serverRelativeURL": f"/openapi/v3/{place}"} for place in _places(kinds)}}
        case ["openapi", "v3", *rest]:
            return _document(kinds, schemas, rest)
        case ["openapi", "v2"]:
            return {"swagger": "2.0", "info": {"title": "double", "version": "v1"}, "paths": {}, "definitions": {}}
        case _:
            return None


def groups(kinds: Kinds) -> list[str]:
    """Named groups in order."""
    return sorted({kind.group for kind in kinds if kind.group})


def _group(kinds: Kinds, group: str) -> Object:
    versions = list(dict.fromkeys(kind.version for kind in kinds if kind.group == group))
    found = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"kind": "APIGroup", "apiVersion": "v1", "name": group, "versions": found, "preferredVersion": found[0]}


def _resources(kinds: Kinds, group: str, version: str) -> Object:
    found: list[Object] = []
    for kind in kinds:
        if (kind.group, kind.version) != (group, version):
            continue
        one: Object = {
            "name": kind.plural,
            "singularName": kind.name.lower(),
            "namespaced": kind.namespaced,
            "kind": kind.name,
            "verbs": VERBS,
            "shortNames": list(kind.short),
        }
        found.append(one)
        parts = (*(("status",) if kind.has_status else ()), *kind.subresources)
        plain = {key: value for key, value in one.items() if key != "shortNames"}
        for part in parts:
            more = {"verbs": ["get", "patch", "update"], **PARTS.get(part, {})}
            found.append({**plain, "name": f"{kind.plural}/{part}", **more})
    place = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": place, "resources": found}


def _places(kinds: Kinds) -> list[str]:
    return list(dict.fromkeys(_place(kind) for kind in kinds))


def _place(kind: Kind) -> str:
    return f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"


def _document(kinds: Kinds, schemas: dict[str, Schema], rest: list[str]) -> Object | None:
    """OpenAPI 3 of one group and version: enough for `kubectl explain` and for field validation to be known."""
    place = "/".join(rest)
    served = [kind for kind in kinds if _place(kind) == place]
    if not served:
        return None
    components: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for kind in served:
        name = f"{'.'.join(reversed((kind.group or 'core').split('.')))}.{kind.version}.{kind.name}"
        schema = schemas.get(f"{kind.storage}/{kind.version}", {"type": "object"})
        gvk = {"group": kind.group, "version": kind.version, "kind": kind.name}
        known = {
            "apiVersion": {"type": "string", "description": "The version of this kind."},
            "kind": {"type": "string", "description": "The kind of the object."},
            "metadata": {"type": "object", "description": "Name, labels, annotations and the like."},
        }
        components[name] = {
            **schema,
            "properties": {**known, **schema.get("properties", {})},
            "x-kubernetes-group-version-kind": [gvk],
        }
        base = f"/{place}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"/{place}/{kind.plural}"
        content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
        words = [{"name": word, "in": "query"} for word in ("fieldValidation", "dryRun", "fieldManager")]
        action = {
            "parameters": words,
            "responses": {"200": {"description": "OK", "content": content}},
            "x-kubernetes-group-version-kind": gvk,
        }
        paths[base] = {
            "get": {**action, "x-kubernetes-action": "list"},
            "post": {**action, "x-kubernetes-action": "post"},
        }
        paths[f"{base}/{{name}}"] = {
            "get": {**action, "x-kubernetes-action": "get"},
            "patch": {**action, "x-kubernetes-action": "patch"},
        }
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.2"},
        "paths": paths,
        "components": {"schemas": components},
    }
