"""What may be changed of a job that was admitted already: only these fields, each left alone when it is None."""

from typing import Any

from msgspec import Struct
from msgspec.structs import fields as struct_fields
from msgspec.structs import replace

from gangline_core.spec import JobSpec


class JobEdit(Struct, frozen=True, omit_defaults=True, gc=False):
    """New values for some terms of a job; None leaves a term as it is."""

    pool: str | None = None
    level: str | None = None
    priority: int | None = None
    time_limit_s: int | None = None
    estimate_s: int | None = None
    not_before_ms: int | None = None
    deadline_ms: int | None = None
    retries: int | None = None
    preemptible: bool | None = None
    labels: dict[str, str] | None = None
    at_most: int | None = None
    """For arrays: elements that may be unfinished at once; 0 lifts the cap."""
    stays: int | None = None
    checkpoints: bool | None = None


EDITABLE = tuple(field.name for field in struct_fields(JobEdit))
"""Names of all terms that an edit may change."""
WAITING_ONLY = frozenset({"pool", "not_before_ms", "checkpoints"})
"""Terms that mean nothing to a job that has started; and whoever took room as one that makes way, makes way."""


def given(edit: JobEdit) -> dict[str, Any]:
    """The terms that the edit says something about."""
    return {name: value for name in EDITABLE if (value := getattr(edit, name)) is not None}


def terms_of(spec: JobSpec) -> JobEdit:
    """All terms of a job that an edit may change, as they stand."""
    terms = {name: getattr(spec, name) for name in EDITABLE if name != "at_most"}
    return JobEdit(**terms, at_most=None if spec.array is None else spec.array.at_most)


def edited(spec: JobSpec, edit: JobEdit) -> JobSpec:
    """The job as asked for, with the edit's terms in place."""
    terms = given(edit)
    at_most = terms.pop("at_most", None)
    if at_most is not None and spec.array is not None:
        terms["array"] = replace(spec.array, at_most=at_most)
    return replace(spec, **terms)


def merged(before: JobEdit, after: JobEdit) -> JobEdit:
    """Both edits as one, the later one's word counting."""
    return replace(before, **given(after))


def changed(spec: JobSpec, edit: JobEdit) -> dict[str, tuple[Any, Any]]:
    """What the edit would change: term -> (before, after); empty when everything is so already."""
    after = edited(spec, edit)
    pairs = {name: (getattr(spec, name), getattr(after, name)) for name in EDITABLE if name != "at_most"}
    if spec.array is not None and after.array is not None:
        pairs["at_most"] = (spec.array.at_most, after.array.at_most)
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
