"""Fields of job and policy files about cells and repair are read as they are meant, and refused with their path."""

import pytest

from gangline_core.cluster import PinnedCell
from gangline_wire.jobfile import parse_job
from gangline_wire.policyfile import PolicyFileError, parse_policy
from gangline_wire.policyfile_show import show_policy
from gangline_wire.problem import FieldErrorsError

JOB = {"name": "a", "command": ["true"], "gpus": 1}


def test_a_job_names_its_pinned_cell_and_says_how_it_may_be_preempted_and_repaired():
    spec = parse_job({**JOB, "pinned_cell": "robots", "lazy_preemption": True, "repair": "10m"})
    assert (spec.pinned_cell, spec.lazy_preemption, spec.repair_s) == ("robots", True, 600)


def test_a_role_that_the_job_can_do_without_has_none_as_its_least_size():
    core = {"name": "core", "tasks": 2, "command": ["true"]}
    helper = {"name": "helper", "tasks": 4, "min": 0, "sizes": [4], "command": ["true"]}
    spec = parse_job({"name": "a", "roles": [core, helper]})
    assert [(role.count, role.min_count, role.max_count, role.sizes) for role in spec.roles] == [
        (2, 2, 2, ()),
        (4, 0, 4, (4,)),
    ]


def test_a_job_without_any_task_is_refused():
    with pytest.raises(FieldErrorsError) as caught:
        parse_job({**JOB, "min": 0, "max": 4})
    assert [error.path for error in caught.value.errors] == ["min"]


POOL = {
    "default": {"cells": {"a": {"node@H100": 1}}, "pinned": {"robots": {"group": "a", "level": "node", "cell": "n1"}}}
}


def test_a_policy_file_pins_cells_and_shows_them_again():
    document = parse_policy({"pools": POOL})
    [pool] = document.pools
    assert pool.pinned == {"robots": PinnedCell(group="a", level="node", cell="n1")}
    assert pool.cells == {"a": {"node@H100": 1}}
    shown = show_policy(document)["pools"]["default"]
    assert (shown["pinned"], shown["cells"]) == (POOL["default"]["pinned"], POOL["default"]["cells"])


def test_a_pinned_cell_without_its_group_is_refused_with_its_path():
    with pytest.raises(PolicyFileError) as caught:
        parse_policy({"pools": {"default": {"pinned": {"robots": {"level": "node", "cell": "n1", "colour": "red"}}}}})
    assert [error.path for error in caught.value.errors] == ["pools.default.pinned.robots.colour"]
    with pytest.raises(PolicyFileError) as caught:
        parse_policy({"pools": {"default": {"pinned": {"robots": {"level": "node", "cell": "n1"}}}}})
    assert [error.path for error in caught.value.errors] == ["pools.default.pinned.robots.group"]


def test_a_job_says_that_nobody_has_to_make_way_for_it():
    assert parse_job(JOB).preempts
    assert not parse_job({**JOB, "preempts": False}).preempts
