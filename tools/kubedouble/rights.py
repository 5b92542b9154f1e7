"""What a user may do, as roles and their bindings say it; refused before anything else is looked at."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from kubedouble.errors import ApiError
from kubedouble.store import Object

WRITES = {"POST": "create", "PUT": "update", "PATCH": "patch"}


class Rule(Struct, frozen=True):
    """One rule of one role, in one namespace or everywhere."""

    groups: frozenset[str]
    resources: frozenset[str]
    verbs: frozenset[str]
    namespace: str = ""


class Request(Struct, frozen=True):
    """What a request is about, as rules speak of it."""

    group: str
    resource: str
    verb: str
    namespace: str = ""


def request_of(method: str, path: str, *, is_watch: bool = False) -> Request | None:
    """What is asked; None for paths that everybody may ask, such as which kinds there are."""
    parts = [part for part in path.split("/") if part]
    if parts[:1] == ["api"] and len(parts) > 2:
        group, rest = "", parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, rest = parts[1], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource = "/".join((rest[0], *rest[2:]))
    is_one = len(rest) > 1
    reads = "get" if is_one else "watch" if is_watch else "list"
    ends = "delete" if is_one else "deletecollection"
    return Request(group, resource, WRITES.get(method) or (ends if method == "DELETE" else reads), namespace)


def rules_for(account: str, objects: Iterable[Object]) -> tuple[Rule, ...]:
    """All rules of a service account, "system:serviceaccount:<namespace>:<name>", of all its roles."""
    everything = list(objects)
    roles = {
        (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one.get("rules") or []
        for one in everything
        if one["kind"] in ("ClusterRole", "Role")
    }
    found: list[Rule] = []
    for one in everything:
        if one["kind"] in ("ClusterRoleBinding", "RoleBinding") and account in _subjects(one):
            place = one["metadata"].get("namespace", "") if one["kind"] == "RoleBinding" else ""
            reference = one["roleRef"]
            where = place if reference["kind"] == "Role" else ""
            found.extend(_rule(rule, place) for rule in roles[reference["kind"], where, reference["name"]])
    return tuple(found)


def _subjects(binding: Object) -> Iterator[str]:
    for one in binding.get("subjects") or ():
        if one["kind"] == "ServiceAccount":
            yield f"system:serviceaccount:{one['namespace']}:{one['name']}"


def _rule(rule: Object, namespace: str) -> Rule:
    return Rule(frozenset(rule["apiGroups"]), frozenset(rule["resources"]), frozenset(rule["verbs"]), namespace)


def check(rules: Iterable[Rule], user: str, request: Request) -> None:
    """Let the request pass, or not.

    Raises:
        ApiError: 403.
    """
    if any(_allows(rule, request) for rule in rules):
        return
    where = f'in the namespace "{request.namespace}"' if request.namespace else "at the cluster scope"
    what = f'cannot {request.verb} resource "{request.resource}" in API group "{request.group}" {where}'
    plural = f"{request.resource}.{request.group}" if request.group else request.resource
    raise ApiError(403, "Forbidden", f'{plural} is forbidden: User "{user}" {what}')


def _allows(rule: Rule, request: Request) -> bool:
    return (
        request.group in rule.groups
        and request.resource in rule.resources
        and request.verb in rule.verbs
        and rule.namespace in ("", request.namespace)
    )
