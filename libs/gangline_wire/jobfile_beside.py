"""Which jobs a job file means that names others of the same call instead of their numbers, which they get only then."""

import re
from collections.abc import Sequence
from functools import partial

from msgspec import Struct, field

from gangline_core.door.array_record import position_of
from gangline_core.spec import Dependency, DependencyKind, JobSpec
from gangline_wire.fields import each
from gangline_wire.problem import WrongValueError
from gangline_wire.quantity import shown

_ELEMENT = re.compile(r"(.+)_([0-9]{1,8})", re.ASCII | re.DOTALL)


class Named(Struct, frozen=True):
    """Another job that must have ended first, by its name."""

    name: str
    any_outcome: bool = False
    kind: DependencyKind = DependencyKind.OK


class Beside(Struct):
    """What was asked for together with a job: all names, and the jobs that stand before it."""

    names: dict[str, list[int]] = field(default_factory=dict)
    """Places of the jobs of a name."""
    before: list[JobSpec | None] = field(default_factory=list)
    """Jobs read so far; None for one that cannot be read."""


def beside(documents: Sequence[object]) -> Beside:
    """The names of the jobs of one call; nothing of them is read yet."""
    found = Beside()
    for place, document in enumerate(documents):
        name = document.get("name") if isinstance(document, dict) else None
        if isinstance(name, str) and name:
            found.names.setdefault(name, []).append(place)
    return found


def linked(after: Sequence[Dependency | Named], others: Beside) -> tuple[Dependency, ...]:
    """The jobs to follow, those with a name by their place in the call.

    Raises:
        FieldErrorsError: some names say nothing, or not which job.
    """
    return each(list(after), partial(_placed, others))


def _placed(others: Beside, one: object) -> Dependency:
    if not isinstance(one, Named):
        assert isinstance(one, Dependency), "a number or a name"
        return one
    element = None if one.name in others.names else _ELEMENT.fullmatch(one.name)
    if element is None or element[1] not in others.names:
        entry, index = _entry(one.name, others), -1
    else:
        entry, index = _entry(element[1], others), int(element[2])
        _check_element(others.before[entry], one.name, index)
    return Dependency(job=0, any_outcome=one.any_outcome, kind=one.kind, index=index, entry=entry)


def _entry(name: str, others: Beside) -> int:
    places = others.names.get(name, [])
    earlier = [place for place in places if place < len(others.before)]
    if len(earlier) == 1:
        return earlier[0]
    if earlier:
        raise WrongValueError(f'"{shown(name)}" is the name of {len(earlier)} jobs before it')
    if len(others.before) in places:
        raise WrongValueError(f'"{shown(name)}" is the job itself')
    if places:
        raise WrongValueError(f'"{shown(name)}" comes later in this call; put it before this job')
    raise WrongValueError(f'"{shown(name)}" is no job\'s number, nor the name of a job before it in this call')


def _check_element(other: JobSpec | None, name: str, index: int) -> None:
    if other is None:
        return  # what is wrong with that one is told there
    if other.array is None or position_of(other.array, index) is None:
        raise WrongValueError(f'"{shown(name)}" is no element of an array before it')
