"""How a job file (YAML or JSON, already loaded) becomes a JobSpec: every field checked, every unit read.

A file has either `roles`, or the fields of its single role at the top. Unknown fields are refused with the nearest
known one, `null` is refused everywhere (leave the field out), and numbers in text are refused except where the
grammars of `gangline_wire.quantity` and `gangline_wire.durations` say otherwise.
"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from gangline_core.spec import JobSpec, Role, ServiceClass
from gangline_wire.fields import each, is_full, join, listed, note, read_fields
from gangline_wire.jobfile_beside import Beside, linked
from gangline_wire.jobfile_place import in_slices
from gangline_wire.jobfile_role import ROLE_FIELDS, build_roles, read_role
from gangline_wire.jobfile_terms import TERM_FIELDS, WORKDIR
from gangline_wire.limits import most
from gangline_wire.problem import FieldError, FieldErrorsError, WrongValueError
from gangline_wire.quantity import kind_name

SINGLE_ROLE = "worker"
"""Name of the role whose fields stand at the top of the file."""

_TASKS_MOST = most("tasks")
_JOB_CHARS_MOST = most("job_chars")


class JobFileError(FieldErrorsError):
    """A job file that cannot be accepted; `errors` lists each wrong field with its path."""


def parse_job(document: object, others: Beside | None = None) -> JobSpec:
    """The job the document describes. Group and user are empty when the file does not say them.

    `others` are the jobs of the same call, of which those before it may be followed by their names.

    Declared secrets stand in the roles' environments until `gangline_wire.seal.seal` takes them out; `secrets` of
    the answer holds their names.

    Raises:
        JobFileError: at least one field is unknown, missing or wrong.
    """
    if not isinstance(document, dict):
        raise JobFileError([FieldError(path="", message=f"a job must be a mapping, not {kind_name(document)}")])
    errors: list[FieldError] = []
    kept = _with_roles(document, errors) if "roles" in document else _with_one_role(document, errors)
    if WORKDIR in kept:
        _start_in(kept, errors)
    if "after" in kept:
        _link(kept, others or Beside(), errors)
    if not errors:
        secrets: dict[str, str | None] = kept.pop("secrets", {})
        if secrets:
            kept["secrets"] = tuple(secrets)
            kept["roles"] = _with_secrets(kept["roles"], secrets, errors)
        _check_whole(kept["roles"], errors)
        _check_beside(kept, errors)
        kept["roles"] = in_slices(kept.get("topology"), kept["roles"], errors)
    if errors:
        raise JobFileError(errors)
    return JobSpec(name=kept.pop("name", ""), group=kept.pop("group", ""), user=kept.pop("user", ""), **kept)


def read_roles(value: object) -> tuple[Role, ...]:
    """The entries of `roles`.

    Raises:
        WrongValueError, FieldErrorsError: some are wrong.
    """
    roles = tuple(role for some in each(listed(value, "roles"), read_role) for role in some)
    if not roles:
        raise WrongValueError("must have at least one role")
    names = [role.name for role in roles]
    twice = [index for index, name in enumerate(names) if name in names[:index]]
    if twice:
        raise FieldErrorsError([FieldError(path=f"[{k}].name", message=f'"{names[k]}" is taken') for k in twice])
    return roles


JOB_FIELDS = {**TERM_FIELDS, "roles": ("roles", read_roles)}
"""Fields at the top of a file that has `roles`."""
SINGLE_FIELDS = {**JOB_FIELDS, **ROLE_FIELDS}
"""Fields at the top of a file whose single role stands there too, which is every field there is."""
_ROLE_KEPT = frozenset(name for name, _ in ROLE_FIELDS.values())


def _with_roles(document: Mapping[object, object], errors: list[FieldError]) -> dict[str, Any]:
    known: dict[object, object] = {}
    for key, value in document.items():
        if is_full(errors):
            break
        if key in ROLE_FIELDS:
            note(errors, FieldError(path=str(key), message="belongs into the entries of roles when there are roles"))
        else:
            known[key] = value
    return read_fields(known, JOB_FIELDS, errors)


def _with_one_role(document: Mapping[object, object], errors: list[FieldError]) -> dict[str, Any]:
    kept = read_fields(document, SINGLE_FIELDS, errors)
    role = {name: kept.pop(name) for name in _ROLE_KEPT if name in kept}
    kept["roles"] = build_roles(SINGLE_ROLE, role, errors)
    return kept


def _with_secrets(
    roles: tuple[Role, ...], secrets: Mapping[str, str | None], errors: list[FieldError]
) -> tuple[Role, ...]:
    """The declared values in every role's environment; a name without a value must have one there already."""
    values = {name: value for name, value in secrets.items() if value is not None}
    for name in secrets.keys() - values.keys():
        if not any(name in role.environment for role in roles):
            note(errors, FieldError(path=f"secrets.{name}", message="has no value, neither here nor in an env"))
    return tuple(replace(role, environment={**values, **role.environment}) for role in roles)


def _start_in(kept: dict[str, Any], errors: list[FieldError]) -> None:
    """The folder is kept among the attributes, where agents look for it."""
    folder, attributes = kept.pop(WORKDIR), kept.get("attributes", {})
    if attributes.get(WORKDIR, folder) != folder:
        note(errors, FieldError(path=WORKDIR, message="is another folder than that in attributes"))
    kept["attributes"] = {**attributes, WORKDIR: folder}


def _link(kept: dict[str, Any], others: Beside, errors: list[FieldError]) -> None:
    """Names of jobs to follow become their places in the call."""
    try:
        kept["after"] = linked(kept["after"], others)
    except FieldErrorsError as found:
        for wrong in found.errors:
            note(errors, FieldError(path=join("after", wrong.path), message=wrong.message))


def _check_beside(kept: Mapping[str, Any], errors: list[FieldError]) -> None:
    """Who takes no GPU time of its own is nobody's equal: it is sent away first."""
    is_beside = any(role.resources.beside for role in kept["roles"])
    if is_beside and kept.get("service_class") != ServiceClass.OPPORTUNISTIC:
        note(errors, FieldError(path="beside", message="needs service_class: opportunistic"))


def _check_whole(roles: tuple[Role, ...], errors: list[FieldError]) -> None:
    """Limits that only the whole job can break."""
    if all(role.min_count == 0 for role in roles):
        note(errors, FieldError(path="min", message="is 0 for every role; a job needs at least one task"))
    tasks = sum(role.max_count for role in roles)
    if tasks > _TASKS_MOST:
        field = "roles" if len(roles) > 1 else "tasks"
        note(errors, FieldError(path=field, message=f"come to {tasks} tasks; at most {_TASKS_MOST} are allowed"))
    commands = sum(sum(map(len, role.command)) for role in roles)
    environments = sum(len(key) + len(value) for role in roles for key, value in role.environment.items())
    if commands + environments > _JOB_CHARS_MOST:
        counted = f"{commands + environments} characters"
        message = f"commands and environments have {counted}; at most {_JOB_CHARS_MOST} are allowed (job_chars)"
        field = "roles" if len(roles) > 1 else ("command" if commands > environments else "env")
        note(errors, FieldError(path=field, message=message))
