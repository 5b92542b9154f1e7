"""What HiveD refuses at its door: user errors are told at once.

Source: microsoft/hivedscheduler 66f26ac, `pkg/algorithm/hived_algorithm_test.go` (cases 10 to 15) and its API's user
errors. A virtual cluster is a group. Elastic quotas are in `test_capacity_scheduling`.
"""

from typing import Any

import pytest
from tests.make import World, group, node, role, spec

from gangline_core.door.admission import judge_submit
from gangline_core.door.draft import Draft
from gangline_core.job import JobState
from gangline_core.reasons import ReasonCode
from gangline_wire.jobfile import JobFileError, parse_job


def refused(world: World, **fields: Any) -> ReasonCode | None:
    judged = judge_submit(world.state, Draft(), specs=[spec(**fields)], submit_id="x", by="ada", trace="", at=world.at)
    return judged.refusals[0][1].code if judged.refusals else None


# --- HiveD --------------------------------------------------------------------------------------------------


@pytest.fixture
def cells() -> World:
    """Two virtual clusters; the second has no V100."""
    return World(
        node("n1", gpus=8, model="V100"),
        node("n2", gpus=8, model="T4"),
        groups=[
            group("vc1", limit={"gpu_milli:V100": 8000}, priority_max=1000),
            group("vc2", limit={"gpu_milli:V100": 0, "gpu_milli": 8000}, priority_max=1000),
        ],
    )


@pytest.mark.parametrize(
    ("case", "fields", "code"),
    [
        (
            "10: a model its own cluster has none of",
            {"group": "vc2", "gpu_models": ["V100"]},
            ReasonCode.NEVER_FITS_LIMIT,
        ),
        ("13: an unknown virtual cluster", {"group": "vc9"}, ReasonCode.UNKNOWN_GROUP),
        ("14: an unknown pinned cell", {"group": "vc1", "pool": "pinned"}, ReasonCode.UNKNOWN_POOL),
        ("15: priority 1001", {"group": "vc1", "priority": 1001}, ReasonCode.PRIORITY_BOUND),
        ("a model the cluster has none of", {"group": "vc1", "gpu_models": ["K80"]}, ReasonCode.NEVER_FITS_MODEL),
        ("more than the cluster has", {"group": "vc1", "gpus": 16}, ReasonCode.NEVER_FITS_NODE),
        ("the highest priority", {"group": "vc1", "priority": 1000}, None),
    ],
)
def test_hived_user_errors_are_refused_at_once(
    cells: World, case: str, fields: dict[str, Any], code: ReasonCode | None
) -> None:
    assert refused(cells, **{"gpus": 1, **fields}) == code, case


@pytest.mark.parametrize(
    "document",
    [
        {"gpus": 0, "gpu_models": ["V100"]},
        {"gpus": -1},
        {"tasks": 0},
        {"tasks": 2, "sizes": [1, 8]},
        {"group": ""},
    ],
    ids=["no cell asked for", "a negative number", "an empty group", "a size that is not a member", "an empty VC"],
)
def test_hived_requests_that_make_no_sense_are_no_job_files(document: dict[str, Any]) -> None:
    with pytest.raises(JobFileError):
        parse_job({"command": ["true"], **document})


def test_a_gang_that_declared_fewer_members_never_gets_more() -> None:
    # HiveD cases 11 and 12: more pods than the group declared; here members are the job's own and cannot be added to.
    world = World(node())
    job = world.submit(roles=(role(tasks=2, gpus=1),))
    world.settle()
    assert (len(world.tasks(job)), world.job(job).state) == (2, JobState.RUNNING)
