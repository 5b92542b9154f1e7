"""Secrets leave the job at the door: what is written down holds placeholders, the values travel apart.

Sealed are the values of declared secrets, of environment variables whose name looks secret, and the parts of commands
and environments that look secret by their name or shape (`gangline_wire.secret_signs`). A value sealed once is
replaced wherever else it stands in the job's commands and environments, if it is long enough to be no accident.
Placeholders read "{{secret:<where it was found>}}", so a reader of the log sees where a secret was, never what.
"""

import re
from collections.abc import Mapping
from itertools import chain

from msgspec.structs import replace

from gangline_core.spec import JobSpec, Role
from gangline_wire.secret_signs import argument_secret, find_secrets, is_secret_name, may_hold_secrets, named_option

PLACEHOLDER = "{{secret:"
"""How a placeholder begins; users may not write one themselves."""
REPEATS_CHARS_LEAST = 6
"""A shorter value is not looked for elsewhere: "on" or "1" would match ordinary text."""

REPEATS_MAX = 64
"""So many values of one job are looked for elsewhere; environments come before arguments."""

_PLACEHOLDERS = re.compile(r"\{\{secret:([A-Za-z0-9_.\-]+)\}\}", re.ASCII)


class SecretMissingError(Exception):
    """A placeholder stands for a value that is not there (any more); the message names it."""


def seal(spec: JobSpec) -> tuple[JobSpec, dict[str, str]]:
    """The job with placeholders, and the values by name; `secrets` of the new job lists the names."""
    declared = frozenset(spec.secrets)
    values: dict[str, str] = {}
    roles = tuple(_seal_role(role, declared, values) for role in spec.roles)
    if not values:
        return (replace(spec, secrets=()) if spec.secrets else spec), values
    long = [(name, value) for name, value in values.items() if len(value) >= REPEATS_CHARS_LEAST]
    repeated = {value: name for name, value in long[:REPEATS_MAX]}
    if repeated:
        roles = tuple(_replace_repeats(role, repeated) for role in roles)
    return replace(spec, roles=roles, secrets=tuple(values)), values


def unseal(spec: JobSpec, values: Mapping[str, str]) -> JobSpec:
    """The job with its values back in commands and environments.

    Raises:
        SecretMissingError: a value is missing.
    """
    return replace(spec, roles=tuple(unseal_role(role, values) for role in spec.roles))


def unseal_role(role: Role, values: Mapping[str, str]) -> Role:
    """The role with its values back in its command and environment.

    Raises:
        SecretMissingError: a value is missing.
    """
    command = tuple(unseal_text(argument, values) for argument in role.command)
    environment = {key: unseal_text(value, values) for key, value in role.environment.items()}
    return replace(role, command=command, environment=environment)


def unseal_text(text: str, values: Mapping[str, str]) -> str:
    """The text with its values back.

    Raises:
        SecretMissingError: a value is missing.
    """
    if PLACEHOLDER not in text:
        return text
    try:
        return _PLACEHOLDERS.sub(lambda match: values[match.group(1)], text)
    except KeyError as error:
        raise SecretMissingError(f"the sealed value {error} is not there") from None


def placeholder(name: str) -> str:
    """What stands in the log for the value of this name."""
    return f"{PLACEHOLDER}{name}}}}}"


def _seal_role(role: Role, declared: frozenset[str], values: dict[str, str]) -> Role:
    if not declared and not may_hold_secrets("\0".join((*role.command, *chain(*role.environment.items())))):
        return role
    environment = role.environment
    if environment:
        environment = {
            key: _seal_variable(role.name, key, value, declared, values) for key, value in environment.items()
        }
    command = _seal_command(role, values)
    if command == role.command and environment == role.environment:
        return role
    return replace(role, command=command, environment=environment)


def _seal_variable(role: str, key: str, value: str, declared: frozenset[str], values: dict[str, str]) -> str:
    if not value:
        return value
    name = f"{role}.env.{key}"
    if key in declared or is_secret_name(key):
        values[name] = value
        return placeholder(name)
    return _seal_parts(value, name, values)


def _seal_command(role: Role, values: dict[str, str]) -> tuple[str, ...]:
    command = []
    secret_follows = False
    for index, argument in enumerate(role.command):
        name = f"{role.name}.arg.{index}"
        at = argument_secret(role.command, index)
        if secret_follows and argument and not argument.startswith("-"):
            values[name] = argument
            command.append(placeholder(name))
        elif at is not None:
            values[name] = argument[at:]
            command.append(argument[:at] + placeholder(name))
        else:
            command.append(_seal_parts(argument, name, values))
        secret_follows = named_option(argument)
    return tuple(command)


def _seal_parts(text: str, name: str, values: dict[str, str]) -> str:
    """The text with the parts that look secret replaced, each under the name and its number."""
    spans = find_secrets(text)
    for number, (start, end) in reversed(list(enumerate(spans))):
        part = f"{name}.{number}"
        values[part] = text[start:end]
        text = text[:start] + placeholder(part) + text[end:]
    return text


def _replace_repeats(role: Role, repeated: Mapping[str, str]) -> Role:
    command = tuple(_replace_in(argument, repeated) for argument in role.command)
    environment = {key: _replace_in(value, repeated) for key, value in role.environment.items()}
    if command == role.command and environment == role.environment:
        return role
    return replace(role, command=command, environment=environment)


def _replace_in(text: str, repeated: Mapping[str, str]) -> str:
    # Longest first, so that a value which contains another is replaced whole; placeholders are never cut.
    for value in sorted(repeated, key=len, reverse=True):
        if value in text:
            pieces = _PLACEHOLDERS.split(text)
            pieces[::2] = [piece.replace(value, placeholder(repeated[value])) for piece in pieces[::2]]
            pieces[1::2] = [placeholder(piece) for piece in pieces[1::2]]
            text = "".join(pieces)
    return text
