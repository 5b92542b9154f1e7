"""How the terms of a job file are read: who and where, how long, when, how important, marks and secrets."""

from math import isfinite

from gangline_core.spec import ServiceClass
from gangline_wire.durations import read_seconds, show_seconds
from gangline_wire.fields import (
    Reader,
    each,
    entries,
    flag,
    listed,
    text,
    visible_text,
    whole,
)
from gangline_wire.jobfile_elastic import read_elastic, read_pausing
from gangline_wire.jobfile_order import read_after, read_array, read_moment
from gangline_wire.jobfile_place import read_exclude_nodes, read_labels, read_tolerations, read_topology
from gangline_wire.jobfile_role import read_env_key, read_env_value, read_token
from gangline_wire.limits import most
from gangline_wire.names import group_path, user_name, visible
from gangline_wire.problem import WrongValueError
from gangline_wire.quantity import kind_name, shown

SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCONT")
"""Signals a job may be asked to stop with."""

WORKDIR = "workdir"
"""The attribute in which the folder is kept that programs start in."""
FOREVER = "forever"
"""Protected time that never ends."""
INT64_MOST = (1 << 63) - 1

_PRIORITY_MOST = most("priority")
_ATTRIBUTE_CHARS = most("attribute_chars")
_LABEL_CHARS = most("label_chars")
_TOKEN_CHARS = most("token_chars")
_GROUP_CHARS = most("group_chars")


def duration(limit: str, *, least: int = 0) -> Reader:
    """A reader of durations from `least` to the named limit, in seconds."""
    top = most(limit)

    def read(value: object) -> int:
        seconds = read_seconds(value)
        if seconds > top:
            raise WrongValueError(f"is longer than {show_seconds(top)}, the most that is allowed ({limit})")
        if seconds < least:
            raise WrongValueError("must not be 0; leave the field out instead")
        return seconds

    return read


def read_protected(value: object) -> int:
    """Protected time in seconds, -1 for "forever".

    Raises:
        WrongValueError: neither the word nor a duration in the range.
    """
    return -1 if value == FOREVER else duration("duration_s")(value)


def read_priority(value: object) -> int:
    """Priority, also below zero.

    Raises:
        WrongValueError: no whole number in the range.
    """
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int:
        raise WrongValueError(f"must be a whole number, not {kind_name(value)}")
    if not -_PRIORITY_MOST <= value <= _PRIORITY_MOST:
        raise WrongValueError(f"must be from {-_PRIORITY_MOST} to {_PRIORITY_MOST}")
    return value


def read_service_class(value: object) -> ServiceClass:
    """One of the service classes.

    Raises:
        WrongValueError: none of them.
    """
    try:
        return ServiceClass(text(value))
    except ValueError:
        names = ", ".join(ServiceClass)
        raise WrongValueError(f"must be one of {names}") from None


def read_group(value: object) -> str:
    """Path of a group.

    Raises:
        WrongValueError: no such path.
    """
    return group_path(text(value), _GROUP_CHARS)


def read_user(value: object) -> str:
    """Name of a user.

    Raises:
        WrongValueError: no such name.
    """
    return user_name(text(value), _TOKEN_CHARS)


def read_attributes(value: object) -> dict[str, str | int | float | bool]:
    """What a formula may use: text, numbers, true or false.

    Raises:
        WrongValueError, FieldErrorsError: no such mapping.
    """
    return entries(value, "attributes", read_env_key, _attribute)


def read_workdir(value: object) -> str:
    """The folder that programs start in.

    Raises:
        WrongValueError: no whole path.
    """
    folder = visible(text(value), _ATTRIBUTE_CHARS)
    if not folder.startswith("/"):
        raise WrongValueError(f'"{shown(folder)}" is no whole path, such as "/data/resnet"')
    return folder


def read_stop_signal(value: object) -> str:
    """A signal a job may be asked to stop with.

    Raises:
        WrongValueError: another one.
    """
    name = text(value)
    if name not in SIGNALS:
        raise WrongValueError(f"must be one of {', '.join(SIGNALS)}")
    return name


def read_secrets(value: object) -> dict[str, str | None]:
    """Declared secrets: a mapping of environment names to values, or a list of names whose values stand in `env`.

    Raises:
        WrongValueError, FieldErrorsError: neither.
    """
    if isinstance(value, list | tuple):
        return dict.fromkeys(each(listed(value, "secrets"), _secret_name))
    return dict(entries(value, "secrets", read_env_key, read_env_value))


def _secret_name(value: object) -> str:
    """A name in the list of secrets; what stands there by mistake is likely a value, which is not repeated."""
    try:
        return read_env_key(value)
    except WrongValueError:
        raise WrongValueError("must be the name of an environment variable; its value stands in env") from None


def _attribute(value: object) -> str | int | float | bool:
    if type(value) is bool:
        return value
    if type(value) is int:
        if not -INT64_MOST <= value <= INT64_MOST:
            raise WrongValueError("is beyond 64 bits")
        return value
    if type(value) is float:
        if not isfinite(value):
            raise WrongValueError("must be a finite number")
        return value
    if type(value) is str:
        return visible(text(value), _ATTRIBUTE_CHARS)
    raise WrongValueError(f"must be text, a number, true or false, not {kind_name(value)}")


TERM_FIELDS: dict[str, tuple[str, Reader]] = {
    "name": ("name", visible_text("name_chars")),
    "group": ("group", read_group),
    "user": ("user", read_user),
    "pool": ("pool", read_token),
    "level": ("level", read_token),
    "priority": ("priority", read_priority),
    "service_class": ("service_class", read_service_class),
    "labels": ("labels", read_labels),
    "attributes": ("attributes", read_attributes),
    "workdir": (WORKDIR, read_workdir),
    "topology": ("topology", read_topology),
    "node_selector": ("node_selector", read_labels),
    "exclude_nodes": ("exclude_nodes", read_exclude_nodes),
    "same_model": ("same_model", flag),
    "pinned_cell": ("pinned_cell", read_token),
    "lazy_preemption": ("lazy_preemption", flag),
    "repair": ("repair_s", duration("duration_s", least=1)),
    "start_limit": ("start_limit_s", duration("duration_s", least=1)),
    "tolerations": ("tolerations", read_tolerations),
    "time_limit": ("time_limit_s", duration("duration_s", least=1)),
    "estimate": ("estimate_s", duration("duration_s", least=1)),
    "protected": ("protected_s", read_protected),
    "protected_below": ("protected_below", read_priority),
    "grace": ("grace_s", duration("grace_s")),
    "stop_signal": ("stop_signal", read_stop_signal),
    "retries": ("retries", whole("retries")),
    "retry_from": ("retry_from", whole("exit_code")),
    "preemptible": ("preemptible", flag),
    "preempts": ("preempts", flag),
    "checkpoints": ("checkpoints", flag),
    "after": ("after", read_after),
    "not_before": ("not_before_ms", read_moment),
    "hold": ("hold", flag),
    "deadline": ("deadline_ms", read_moment),
    "singleton": ("singleton", flag),
    "array": ("array", read_array),
    "secrets": ("secrets", read_secrets),
    "elastic": ("elastic", read_elastic),
    "pause": ("pausing", read_pausing),
}
"""Field of a job file -> (field of JobSpec, reader)."""
