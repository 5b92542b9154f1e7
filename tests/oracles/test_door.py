"""What other systems refuse at their doors, and who has quota: the user errors of HiveD, the tables of elastic quotas.

Sources: microsoft/hivedscheduler 66f26ac, `pkg/algorithm/hived_algorithm_test.go` (cases 10 to 15) and its API's user
errors; kubernetes-sigs/scheduler-plugins, `pkg/capacityscheduling` (pre-filter table, integration tests t1, t3, t4, t6,
issues #683 and #211). A virtual cluster is a group, an elastic quota a group with guarantee (min) and limit (max).
"""

from typing import Any

import pytest
from tests.cases.drive import Drive
from tests.make import World, group, node, role, spec

from gangline_core.admission import Draft, judge_submit
from gangline_core.job import JobState
from gangline_core.quota import Ledger
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


# --- elastic quotas: the pre-filter -------------------------------------------------------------------------


def memory(mib: int) -> dict[str, int]:
    return {"memory_mib": mib}


@pytest.mark.parametrize(("asked", "fits"), [(500, True), (1700, True), (1701, False), (1800, False)])
def test_use_and_request_stay_below_the_maximum(asked: int, fits: bool) -> None:
    world = World(node(memory_mib=10_000), groups=[group("ns1", guaranteed=memory(1000), limit=memory(2000))])
    world.submit_running(spec(gpus=0, memory_mib=300, group="ns1"), "n1")
    job = world.job(world.submit(gpus=0, memory_mib=asked, group="ns1"))
    assert (Ledger(world.state).fault(job, memory(asked)) is None) == fits


def test_a_group_without_quota_is_bounded_by_nothing() -> None:
    world = World(node(memory_mib=10_000), groups=[group("free")])
    job = world.job(world.submit(gpus=0, memory_mib=9000, group="free"))
    assert Ledger(world.state).fault(job, memory(9000)) is None


# --- elastic quotas: who runs in the end --------------------------------------------------------------------

LOW, MID, HIGH = 1, 2, 3


def nodes() -> list[Any]:
    return [node("n1", gpus=0, cpus=64, memory_mib=100), node("n2", gpus=0, cpus=64, memory_mib=100)]


def quota(path: str) -> Any:
    return group(path, guaranteed=memory(100), limit=memory(200))


def pod(drive: Drive, at: float, path: str, priority: int, mib: int = 50) -> Any:
    return drive.ask(at, gpus=0, cpus=0, memory_mib=mib, group=path, priority=priority)


def running(drive: Drive, *asks: Any) -> list[bool]:
    return drive.until(100).is_running(*asks)


def test_t1_what_was_borrowed_comes_back() -> None:
    drive = Drive(*nodes(), groups=[quota("ns1"), quota("ns2")])
    p1, p2, p3 = (pod(drive, 0, "ns1", level) for level in (MID, MID, LOW))
    p4, p5, p6 = (pod(drive, 1, "ns2", level) for level in (MID, MID, LOW))
    assert running(drive, p1, p2, p3, p4, p5, p6) == [True, True, False, True, True, False]


def test_t3_without_quotas_priority_decides() -> None:
    drive = Drive(*nodes(), groups=[group("ns1"), group("ns2")])
    p1, p2 = pod(drive, 0, "ns1", HIGH), pod(drive, 0, "ns1", LOW)
    p3, p4 = pod(drive, 0, "ns2", HIGH), pod(drive, 0, "ns2", LOW)
    p5, p6 = pod(drive, 1, "ns1", MID), pod(drive, 1, "ns2", MID)
    assert running(drive, p1, p2, p3, p4, p5, p6) == [True, False, True, False, True, True]


def test_t4_what_is_bigger_than_a_node_is_refused_and_nobody_goes_for_it() -> None:
    drive = Drive(*nodes(), groups=[quota("ns1"), quota("ns2")])
    there = [pod(drive, 0, "ns1", MID), pod(drive, 0, "ns1", MID), pod(drive, 0, "ns1", LOW), pod(drive, 0, "ns2", MID)]
    large = [pod(drive, 1, "ns1", HIGH, 150), pod(drive, 1, "ns2", HIGH, 150)]
    assert running(drive, *there) == [True] * 4
    assert {ask.refused.code for ask in large} == {ReasonCode.NEVER_FITS_NODE}


def test_t6_nobody_goes_for_a_job_that_would_need_room_of_two_nodes() -> None:
    world = World(*nodes(), groups=[quota("ns1"), quota("ns2")])
    there = [
        world.submit_running(spec(gpus=0, cpus=0, memory_mib=50, group=path, priority=level), where)
        for path, level in (("ns1", LOW), ("ns2", MID))
        for where in ("n1", "n2")
    ]
    more = [world.submit(gpus=0, cpus=0, memory_mib=100, group=path, priority=HIGH) for path in ("ns1", "ns2")]
    world.settle()
    assert {world.job(job).state for job in there} == {JobState.RUNNING}
    assert {world.job(job).state for job in more} == {JobState.WAITING}


def test_683_one_borrowed_pod_makes_room_for_the_owner() -> None:
    groups = [
        group("a", guaranteed={"gpu_milli": 4000}, limit={"gpu_milli": 5000}),
        group("b", guaranteed={"gpu_milli": 1000}, limit={"gpu_milli": 5000}),
    ]
    drive = Drive(node(gpus=5), groups=groups)
    drive.asks_of(5, 0, gpus=1, group="a")
    owner = drive.ask(1, gpus=1, group="b")
    drive.until(10)
    assert (drive.is_running(owner), drive.used("a"), len(drive.evicted)) == ([True], 4, 1)


def test_211_what_was_borrowed_by_who_owns_nothing_comes_back() -> None:
    groups = [
        group("a", limit={"gpu_milli": 4000}),
        group("b", guaranteed={"gpu_milli": 2000}, limit={"gpu_milli": 4000}),
    ]
    drive = Drive(node(gpus=4), groups=groups)
    drive.asks_of(4, 0, gpus=1, group="a")
    owner = drive.ask(1, gpus=2, group="b")
    drive.until(10)
    assert (drive.is_running(owner), drive.used("a")) == ([True], 2)


def test_a_gang_that_declared_fewer_members_never_gets_more() -> None:
    # HiveD cases 11 and 12: more pods than the group declared; here members are the job's own and cannot be added to.
    world = World(node())
    job = world.submit(roles=(role(tasks=2, gpus=1),))
    world.settle()
    assert (len(world.tasks(job)), world.job(job).state) == (2, JobState.RUNNING)
