"""How documents of settings are read: decoded strictly into their Struct, every wrong field with its path."""

import itertools
import re
from collections.abc import Iterator
from typing import TypeVar

import msgspec
from msgspec import Struct

from gangline_core.foresight.learnt import MODEL_CHARS_MAX
from gangline_gateway.call import Call
from gangline_gateway.problems import ProblemError, invalid, wrong_query
from gangline_wire.fields import join, str_key, unknown_field
from gangline_wire.limits import most
from gangline_wire.names import group_path, token, user_name, visible
from gangline_wire.problem import WrongValueError
from gangline_wire.quantity import kind_name, shown

T = TypeVar("T", bound=Struct)

ROOT_NAME = "~"
"""How the root of the group tree is written in addresses; its path is empty, which is understood as well."""
AMOUNT_MOST = 10**15
"""Largest number in any settings: far beyond any cluster, far below what arithmetic could overflow."""

_AT = re.compile(r" - at `\$\.?([^`]*)`$")
_KEY = re.compile(r"\[\.\.\.\]")
_MISSING = re.compile(r"Object missing required field `([^`]*)`")


def read_settings(document: object, kind: type[T]) -> T:
    """The settings the document holds; absent fields have their defaults.

    Raises:
        ProblemError: unknown fields, wrong types, or numbers out of range.
    """
    if not isinstance(document, dict):
        raise invalid("", f"must be a mapping, not {kind_name(document)}")
    for key in document:
        if key not in kind.__struct_fields__:
            raise invalid(str_key(key), unknown_field(key, kind.__struct_fields__))
    _check_values(document, "", itertools.count(1))
    try:
        return msgspec.convert(document, kind, strict=True)
    except msgspec.ValidationError as error:
        raise _wrong(str(error)) from None


def _wrong(message: str) -> ProblemError:
    """What a decoder's message says, about the field it is about."""
    found = _AT.search(message)
    path = _KEY.sub("", found.group(1)) if found else ""
    text = _AT.sub("", message)
    missing = _MISSING.fullmatch(text)
    return invalid(join(path, missing.group(1)), "is missing") if missing else invalid(path, text)


MODEL = "model"
"""The field of a policy that holds all of a learnt predictor."""


def _check_values(value: object, path: str, seen: Iterator[int]) -> None:
    """No negative (but for levels), huge or invisible values anywhere, and not too many of them.

    Raises:
        ProblemError: one of them.
    """
    if next(seen) > most("settings_values"):
        raise invalid(path, f"is too much: at most {most('settings_values')} names and values (settings_values)")
    if isinstance(value, bool):
        return
    if isinstance(value, int):
        least = -AMOUNT_MOST if path.startswith(("level", "priority", "user_priority")) else 0
        if not least <= value <= AMOUNT_MOST:
            raise invalid(path, f"must be from {least} to {AMOUNT_MOST}")
    if isinstance(value, float):
        raise invalid(path, "must be a whole number")
    if isinstance(value, str):
        try:
            visible(value, MODEL_CHARS_MAX if path == MODEL else most("attribute_chars"))
        except WrongValueError as error:
            raise invalid(path, str(error)) from None
    if isinstance(value, dict):
        for key, item in value.items():
            here = join(path, shown(str(key)))
            _check_values(key, here, seen)
            _check_values(item, here, seen)
    if isinstance(value, list):
        for index, item in enumerate(value):
            _check_values(item, join(path, f"[{index}]"), seen)


def group_of(call: Call) -> str:
    """The group path of the address.

    Raises:
        ProblemError: no path at all.
    """
    text = call.part("path")
    if text in ("", ROOT_NAME):
        return ""
    try:
        return group_path(text, most("group_chars"))
    except WrongValueError as error:
        raise ProblemError("not_found", f"No group can be called so: {error}") from None


def user_of(call: Call) -> str:
    """The user of the address.

    Raises:
        ProblemError: nobody can be called so.
    """
    try:
        return user_name(call.part("user"), most("token_chars"))
    except WrongValueError as error:
        raise ProblemError("not_found", f"Nobody can be called so: {error}") from None


def pool_of(call: Call) -> str:
    """The pool of the address.

    Raises:
        ProblemError: no pool can be called so.
    """
    try:
        return token(call.part("pool"), most("token_chars"))
    except WrongValueError as error:
        raise ProblemError("not_found", f"No pool can be called so: {error}") from None


def if_version(call: Call) -> int:
    """The version that must still hold, from If-Match; -1 when the caller does not care.

    `If-None-Match: *` asks that there be nothing of that name yet, which is version 0.

    Raises:
        ProblemError: the header is no ETag of ours.
    """
    header = call.request.headers.get("If-Match", "").strip()
    if not header and call.request.headers.get("If-None-Match", "").strip() == "*":
        return 0
    if header in ("", "*"):
        return -1
    text = header.strip('"')
    if header != f'"{text}"' or not (text.isascii() and text.isdecimal()) or len(text) > 15:
        raise ProblemError("malformed_request", 'If-Match must be the ETag of the last answer, such as "3".')
    return int(text)


def etag(version: int) -> dict[str, str]:
    """The header that tells a version."""
    return {"ETag": f'"{version}"'}


def why_of(call: Call) -> str:
    """The reason given for a change, from the query.

    Raises:
        ProblemError: too long or invisible.
    """
    try:
        return visible(call.text("why"), most("why_chars"))
    except WrongValueError as error:
        raise wrong_query("why", str(error)) from None
