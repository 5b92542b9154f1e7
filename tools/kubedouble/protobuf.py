"""The few requests that kubectl and helm send as protocol buffers, read into what they would be as JSON."""

import base64
from collections.abc import Iterator
from typing import Any

from kubedouble.errors import ApiError

Object = dict[str, Any]
Fields = dict[int, tuple[str, Any]]
"""By number: the field's name in JSON, and its type: a word, or the fields of a message; in a list when repeated."""

MAGIC = b"k8s\x00"
OWNER: Fields = {
    1: ("kind", "text"),
    3: ("name", "text"),
    4: ("uid", "text"),
    5: ("apiVersion", "text"),
    6: ("controller", "flag"),
    7: ("blockOwnerDeletion", "flag"),
}
META: Fields = {
    1: ("name", "text"),
    2: ("generateName", "text"),
    3: ("namespace", "text"),
    5: ("uid", "text"),
    6: ("resourceVersion", "text"),
    11: ("labels", {"": "text"}),
    12: ("annotations", {"": "text"}),
    13: ("ownerReferences", [OWNER]),
    14: ("finalizers", ["text"]),
}
DELETE_OPTIONS: Fields = {
    1: ("gracePeriodSeconds", "number"),
    2: ("preconditions", {1: ("uid", "text"), 2: ("resourceVersion", "text")}),
    4: ("propagationPolicy", "text"),
    5: ("dryRun", ["text"]),
}
KINDS: dict[tuple[str, str], Fields] = {
    ("v1", "Secret"): {
        1: ("metadata", META),
        2: ("data", {"": "bytes"}),
        3: ("type", "text"),
        4: ("stringData", {"": "text"}),
        5: ("immutable", "flag"),
    },
    ("v1", "Namespace"): {1: ("metadata", META)},
    ("policy/v1", "Eviction"): {1: ("metadata", META), 2: ("deleteOptions", DELETE_OPTIONS)},
    ("v1", "DeleteOptions"): DELETE_OPTIONS,
    ("meta.k8s.io/v1", "DeleteOptions"): DELETE_OPTIONS,
}
"""Kinds that such clients send in this form."""


def read(body: bytes) -> Object:
    """The object.

    Raises:
        ApiError: it is of a kind that is not read here, or no such message.
    """
    if not body.startswith(MAGIC):
        raise _unread("the body has no prefix of protocol buffers")
    try:
        whole = dict(_parts(body[len(MAGIC) :]))
        names = {number: value.decode() for number, value in _parts(whole.get(1, b""))}
        version, kind = names.get(1, ""), names.get(2, "")
        fields = KINDS[version, kind]
        return {"apiVersion": version, "kind": kind, **_message(whole.get(2, b""), fields)}
    except KeyError as error:
        raise _unread(f"{error} in protocol buffers") from None
    except (IndexError, ValueError, AttributeError) as error:
        raise ApiError(400, "BadRequest", f"the object provided is unrecognized: {error}") from None


def _unread(why: str) -> ApiError:
    told = f"the body of the request was in an unknown format - accepted media types include: application/json ({why})"
    return ApiError(415, "UnsupportedMediaType", told)


def _message(data: bytes, fields: Fields) -> Object:
    found: Object = {}
    for number, value in _parts(data):
        if number not in fields:
            continue
        name, form = fields[number]
        if isinstance(form, list):
            found.setdefault(name, []).append(_value(value, form[0]))
        elif isinstance(form, dict) and "" in form:
            entry = dict(_parts(value))
            found.setdefault(name, {})[entry.get(1, b"").decode()] = _value(entry.get(2, b""), form[""])
        elif value != b"":
            # What is empty is written all the same, and says nothing.
            found[name] = _value(value, form)
    return found


def _value(value: Any, form: Any) -> Any:
    match form:
        case "text":
            return value.decode()
        case "bytes":
            return base64.b64encode(value).decode()
        case "flag":
            return bool(value)
        case "number":
            return value - (1 << 64) if value >> 63 else value
        case _:
            return _message(value, form)


def _parts(data: bytes) -> Iterator[tuple[int, Any]]:
    """Number and content of each field: bytes of those with a length, whole numbers of the others."""
    at = 0
    while at < len(data):
        key, at = _number(data, at)
        match key & 7:
            case 0:
                value, at = _number(data, at)
                yield key >> 3, value
            case 2:
                size, at = _number(data, at)
                yield key >> 3, data[at : at + size]
                at += size
            case 1 | 5 as width:
                at += 8 if width == 1 else 4
            case _:
                raise ValueError("no such wire type")


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if not byte & 128:
            return value, at
