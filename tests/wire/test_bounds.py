"""Every number of a spec has bounds, and the first one beyond them is named."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.make import role, spec

from gangline_wire.bounds import OF_JOB, OF_ROLE, Bounds, beyond


def changed(value: Any, path: str, number: Any) -> Any:
    """The struct with another value at the path."""
    name, _, rest = path.partition(".")
    return replace(value, **{name: changed(getattr(value, name), rest, number) if rest else number})


PATHS = {
    "grace": "grace_s",
    "begin": "not_before_ms",
    "deadline": "deadline_ms",
    "gpus": "resources.gpu_milli",
    "gpu_memory": "resources.gpu_memory_mib",
    "gpu_memory_most": "resources.gpu_memory_most_mib",
    "cpus": "resources.cpu_milli",
    "memory": "resources.memory_mib",
}


def numbers(bounds: Bounds, value: Any) -> list[tuple[str, int, int]]:
    """Field, least and most of those that are numbers and not lists."""
    count = len(bounds.numbers(value))
    return list(zip(bounds.fields[:count], bounds.least, bounds.most, strict=False))


@pytest.mark.parametrize(("field", "least", "most"), numbers(OF_JOB, spec()))
def test_a_number_of_a_job_is_refused_from_its_bounds_on(field: str, least: int, most: int) -> None:
    path = PATHS.get(field, field)
    assert beyond(changed(spec(), path, most)) is None
    assert beyond(changed(spec(), path, least)) is None
    for wrong in (least - 1, most + 1):
        assert beyond(changed(spec(), path, wrong)) == (field, f"is {wrong}; it must be from {least} to {most}")


@pytest.mark.parametrize(("field", "least", "most"), numbers(OF_ROLE, role()))
def test_a_number_of_a_role_is_refused_from_its_bounds_on(field: str, least: int, most: int) -> None:
    path = PATHS.get(field, field)
    job = spec()
    for wrong in (least - 1, most + 1):
        found = beyond(replace(job, roles=(changed(job.roles[0], path, wrong),)))
        assert found is not None
        # Too many tasks of one role are too many of the job.
        assert found[0] in (f"roles.{job.roles[0].name}.{field}", "tasks")
        assert str(wrong) in found[1]


def test_lists_are_bounded_by_their_length() -> None:
    fault = beyond(replace(spec(), exclude_nodes=tuple(map(str, range(257)))))
    assert fault == ("exclude_nodes", "is 257; it must be from 0 to 256")
    assert beyond(replace(spec(), roles=())) is not None
