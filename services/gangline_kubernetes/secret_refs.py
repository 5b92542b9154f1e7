"""Variables of a Job object that are taken from Secrets of its namespace: the object only names them. Pure.

`secrets: {PW: {secretKeyRef: {name: db, key: password}}}` is the one thing that an object may say and a job file may
not: an object lies open to everybody who may read it, and a job file goes through the door, which seals its values.
"""

import re
from typing import Any

import msgspec
from msgspec import Struct

from gangline_wire.jobfile import JobFileError
from gangline_wire.problem import FieldError

LABEL_REFS = "gangline.dev/secret-refs"
"""Label of a job that came from an object: which of its variables are keys of which Secrets; nobody else can set it."""
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
SECRET = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
KEY = re.compile(r"[A-Za-z0-9._-]{1,253}", re.ASCII)


class Ref(Struct, frozen=True):
    """One key of one Secret."""

    name: str
    key: str


def split(document: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Ref]]:
    """The job file without variables that come from Secrets, and those.

    Raises:
        JobFileError: one of them names no Secret.
    """
    said = document.get("secrets")
    if not isinstance(said, dict):
        return document, {}
    refs = {name: _ref(name, value) for name, value in said.items() if isinstance(value, dict)}
    rest = {name: value for name, value in said.items() if name not in refs}
    bare = {key: value for key, value in document.items() if key != "secrets"}
    return ({**bare, "secrets": rest} if rest else bare), refs


def _ref(name: str, value: dict[str, Any]) -> Ref:
    one = value.get("secretKeyRef")
    one = one if isinstance(one, dict) and len(value) == 1 and one.keys() == {"name", "key"} else {}
    secret, key = str(one.get("name", "")), str(one.get("key", ""))
    if not NAME.fullmatch(name) or not SECRET.fullmatch(secret) or not KEY.fullmatch(key):
        message = "must be a value, or name a key of a Secret: {secretKeyRef: {name: ..., key: ...}}"
        raise JobFileError([FieldError(path=f"secrets.{name}", message=message)])
    return Ref(name=secret, key=key)


def text_of(refs: dict[str, Ref]) -> str:
    """The references as the job's label carries them; empty for none."""
    return msgspec.json.encode(refs, order="sorted").decode() if refs else ""


def variables(text: str) -> list[dict[str, Any]]:
    """The same as variables of a container."""
    refs = msgspec.json.decode(text, type=dict[str, Ref]) if text else {}
    return [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": one.name, "key": one.key}}} for name, one in refs.items()
    ]
