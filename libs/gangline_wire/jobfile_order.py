"""How the terms of a job file are read that say after what and when: predecessors, moments, arrays."""

import re
from datetime import datetime
from itertools import pairwise

from msgspec.structs import replace

from gangline_core.door.array_record import array_size
from gangline_core.spec import MOMENT_MS_MAX, ArraySpec, Dependency, DependencyKind
from gangline_wire.fields import each, flag, listed, mapping, read_fields, text, visible_text, whole
from gangline_wire.jobfile_beside import Named
from gangline_wire.limits import most
from gangline_wire.problem import FieldError, FieldErrorsError, WrongValueError
from gangline_wire.quantity import kind_name, shown

JOB_ID_MOST = (1 << 53) - 1
"""Larger ids could not be read by a JavaScript client."""
MS_MOST = MOMENT_MS_MAX
INDEX_MOST = 10_000_000

KINDS = {
    "after": DependencyKind.OK,
    "afterok": DependencyKind.OK,
    "afterany": DependencyKind.ANY,
    "afternotok": DependencyKind.NOT_OK,
}
"""Words before a job's number, as users of Slurm write them."""

_read_name = visible_text("name_chars")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d([Tt ]([01]\d|2[0-3]):\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:\d\d)?)?", re.ASCII)
"""Of all that ISO 8601 allows, what RFC 3339 does; how much else Python reads differs between its versions."""
_NUMBER = re.compile(r"([0-9]{1,16})(?:_([0-9]{1,8}))?", re.ASCII)
_RANGE = re.compile(r"([0-9]{1,8})(?:-([0-9]{1,8})(?::([0-9]{1,8}))?)?", re.ASCII)
_ARRAY_HOW = 'write indexes such as "0-99", "1,3,7", "0-98:2", with "%10" for at most 10 at once'


def read_after(value: object) -> tuple[Dependency | Named, ...]:
    """Jobs that must have ended: numbers, "42_7", "afterany:42", names, or {job, outcome}; one may stand alone.

    Raises:
        WrongValueError, FieldErrorsError: no such list.
    """
    items: list[object] = [value] if isinstance(value, int | str | dict) else listed(value, "after")
    return each(items, _dependency)


def read_moment(value: object) -> int:
    """Milliseconds since the epoch, from a number or from text of RFC 3339 with its offset.

    Raises:
        WrongValueError: no such moment, or a text without offset.
    """
    if type(value) is int:
        ms = value
    else:
        moment = value if isinstance(value, datetime) else _written(text(value))
        if moment.tzinfo is None:
            raise WrongValueError('needs its offset from UTC, such as "Z" or "+02:00"')
        ms = max(0, int(moment.timestamp() * 1000))
    if not 0 <= ms <= MS_MOST:
        raise WrongValueError("must be milliseconds since 1970, before the year 10000")
    return ms


def _written(text: str) -> datetime:
    try:
        if _MOMENT.fullmatch(text):
            return datetime.fromisoformat(text.upper())
    except ValueError:
        pass
    raise WrongValueError('must be a time such as "2026-07-01T02:00:00+02:00" or "2026-07-01T00:00:00Z"')


def read_array(value: object) -> ArraySpec:
    """The indexes of an array and its cap, as "0-99%10" or {indexes: "0-99", at_most: 10}.

    Raises:
        WrongValueError, FieldErrorsError: no such indexes, or too many.
    """
    if isinstance(value, dict):
        errors: list[FieldError] = []
        kept = read_fields(mapping(value), ARRAY_FIELDS, errors)
        if "indexes" not in kept and not errors:
            errors.append(FieldError(path="indexes", message=f"is missing; {_ARRAY_HOW}"))
        if errors:
            raise FieldErrorsError(errors)
        read: ArraySpec = kept["indexes"]
        return replace(read, at_most=kept.get("at_most", 0))
    indexes, percent, cap = text(value).partition("%")
    array = _read_indexes(indexes)
    if not percent:
        return array
    if not (cap.isascii() and cap.isdecimal() and 0 < int(cap[:9]) <= most("array_elements")):
        raise WrongValueError(f'"%{shown(cap)}" is no cap; {_ARRAY_HOW}')
    return replace(array, at_most=int(cap))


def _read_indexes(value: object) -> ArraySpec:
    ranges = []
    for part in text(value).split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise WrongValueError(f'"{shown(part)}" is no range of indexes; {_ARRAY_HOW}')
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if last < first or step < 1 or last > INDEX_MOST:
            raise WrongValueError(f'"{shown(part)}" must go up, to at most {INDEX_MOST}, in steps of at least 1')
        ranges.append((first, last - (last - first) % step, step))
        if len(ranges) > most("array_ranges"):
            raise WrongValueError(f"has more than {most('array_ranges')} ranges (array_ranges)")
    if any(after[0] <= before[1] for before, after in pairwise(ranges)):
        raise WrongValueError("must name its indexes in ascending order, each once")
    array = ArraySpec(ranges=tuple(ranges))
    if array_size(array) > most("array_elements"):
        raise WrongValueError(
            f"has {array_size(array)} elements; at most {most('array_elements')} are allowed (array_elements)"
        )
    return array


def _dependency(value: object) -> Dependency | Named:
    if isinstance(value, str):
        return _of_text(value)
    if not isinstance(value, dict):
        return Dependency(job=_job_id(value))
    errors: list[FieldError] = []
    kept = read_fields(value, DEPENDENCY_FIELDS, errors)
    if "job" not in kept and not errors:
        errors.append(FieldError(path="job", message="is missing"))
    if errors:
        raise FieldErrorsError(errors)
    other: Dependency | Named = kept.pop("job")
    return replace(other, **kept)


def _of_text(value: str) -> Dependency | Named:
    """ "42", "42_7", "afterany:42", "prep" or "afterany:prep"."""
    word, colon, other = text(value).partition(":")
    if colon and word in KINDS:
        return replace(_other(other), kind=KINDS[word])
    if colon and _NUMBER.fullmatch(other):
        raise WrongValueError(f'"{shown(word)}" is none of {", ".join(KINDS)}')
    return _other(value)


def _other(value: object) -> Dependency | Named:
    """A job's number, that of an element of an array, or a job's name."""
    match = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return Named(_read_name(value)) if isinstance(value, str) else Dependency(job=_job_id(value))
    return Dependency(job=_job_id(int(match[1])), index=-1 if match[2] is None else int(match[2]))


def _job_id(value: object) -> int:
    if type(value) is not int or not 1 <= value <= JOB_ID_MOST:
        found = value if type(value) is int else kind_name(value)
        raise WrongValueError(f"must be a job's number, from 1 on, not {str(found)[:24]}")
    return value


def _outcome(value: object) -> DependencyKind:
    try:
        return DependencyKind(text(value))
    except ValueError:
        raise WrongValueError(f"must be one of {', '.join(DependencyKind)}") from None


ARRAY_FIELDS = {"indexes": ("indexes", _read_indexes), "at_most": ("at_most", whole("array_elements", least=1))}
DEPENDENCY_FIELDS = {
    "job": ("job", _other),
    "outcome": ("kind", _outcome),
    "any_outcome": ("any_outcome", flag),
}
