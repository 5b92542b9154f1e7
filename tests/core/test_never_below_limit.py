"""A job that can only ever break a limit by GPU model or GPU memory is refused at the door, whatever it names."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.make import World, group, node, role, spec

from gangline_core.cluster import Pool
from gangline_core.door.admission import judge_submit
from gangline_core.door.draft import Draft
from gangline_core.facts import PoolSet
from gangline_core.groups import User
from gangline_core.reasons import ReasonCode, sentence

H100 = {"model": "H100", "gpu_memory_mib": 81_920}
T4 = {"model": "T4", "gpu_memory_mib": 16_384}


def refused(world: World, **fields: Any) -> str:
    """Why the job of group lab is refused; empty when it is let in."""
    judgement = judge_submit(
        world.state, Draft(), specs=[spec(group="lab", **fields)], submit_id="s", by="ada", trace="", at=world.at
    )
    if not judgement.refusals:
        return ""
    ((_, reason, field),) = judgement.refusals
    assert reason.code == ReasonCode.NEVER_FITS_LIMIT
    assert field.startswith("roles")
    return sentence(reason)


def lab(*nodes: Any, limit: dict[str, int] | None = None, **fields: Any) -> World:
    return World(*nodes, groups=[group("lab", limit=limit or {}, **fields)])


def test_whole_gpus_count_with_the_memory_of_the_smallest_card_they_can_be():
    world = lab(node("n1", **H100), node("n2", **H100), node("n3", **H100), limit={"gpu_memory_mib": 1 << 20})
    assert refused(world, gpus=8, tasks=3) == (
        "The job needs 1966080 MiB of GPU memory; the limit of group lab is 1048576."
    )
    assert not refused(world, gpus=6, tasks=2)
    world = lab(node("n1", **H100), node("n2", **T4), node("n3", **T4), limit={"gpu_memory_mib": 1 << 18})
    assert not refused(world, gpus=8, tasks=2), "on T4 it is 256 GiB"
    assert "655360 MiB" in refused(world, gpus=8, gpu_models=("H100",))


def test_a_bound_of_memory_and_shares_count_as_they_are_asked_for():
    world = lab(node("n1", **H100), limit={"gpu_memory_mib": 100_000})
    bounded = role(gpus=8)
    bounded = replace(bounded, resources=replace(bounded.resources, gpu_memory_most_mib=10_240))
    assert not refused(world, roles=[bounded])
    assert "160000 MiB" in refused(world, tasks=4, gpus=0, gpu_memory_mib=40_000)


def test_a_job_that_names_no_model_is_held_to_the_limits_of_those_there_are():
    world = lab(node("n1", **H100), node("n2", **H100), limit={"gpu_milli:H100": 4000})
    assert refused(world, gpus=8) == "The job needs 8 H100 GPUs; the limit of group lab is 4."
    assert refused(world, gpus=1, tasks=5) == "The job needs 5 H100 GPUs; the limit of group lab is 4."
    assert not refused(world, gpus=4)
    mixed = lab(node("n1", **H100), node("n2", **T4), limit={"gpu_milli:H100": 4000})
    assert not refused(mixed, gpus=8), "T4 have no limit"
    both = lab(node("n1", **H100), node("n2", **T4), limit={"gpu_milli:H100": 4000, "gpu_milli:t4": 2000})
    assert refused(both, gpus=5) == "The job needs 5 H100 or T4 GPUs; the limit of group lab is 4."
    assert not refused(both, gpus=1, tasks=6)
    assert refused(both, gpus=1, tasks=7) == "The job needs 7 H100 or T4 GPUs; the limit of group lab is 6."


def test_the_limits_of_a_user_and_of_one_job_hold_the_same_way():
    world = lab(node("n1", **H100), job_limit={"gpu_memory_mib": 400_000})
    assert refused(world, gpus=1, tasks=2, minimum=2, maximum=8) == (
        "The job needs 655360 MiB of GPU memory; the limit of group lab for one job is 400000."
    )
    assert not refused(world, gpus=1, tasks=2, minimum=2, maximum=4)
    world = World(
        node("n1", **H100),
        groups=[group("lab")],
        users=[User(name="ada", group="lab", limit={"gpu_milli:h100": 2000})],
    )
    assert "limit of user ada is 2" in refused(world, gpus=3, user="ada")


def test_nothing_is_refused_that_machines_may_come_for():
    assert not refused(lab(limit={"gpu_milli:h100": 1000}), gpus=8), "no machine yet"
    world = lab(node("n1", **H100), limit={"gpu_milli:h100": 1000})
    assert not refused(world, gpus=0, tasks=9)
    assert refused(world, gpus=8)
    pool = world.state.kept.pools["default"].pool
    world.tell("admission", PoolSet(pool=Pool(name=pool.name, grows=True, version=2), by="ada"))
    assert not refused(world, gpus=8)


@pytest.mark.parametrize("gpus", [1, 2, 4, 5, 8])
def test_what_is_let_in_starts_in_an_empty_cluster(gpus: int):
    limit = {"gpu_milli:H100": 4000, "gpu_milli:t4": 2000, "gpu_memory_mib": 4 * 81_920}
    world = lab(node("n1", **H100), node("n2", **T4), limit=limit)
    if refused(world, gpus=gpus):
        assert gpus > 4
        return
    job = world.submit(group="lab", gpus=gpus)
    world.round()
    assert world.tasks(job), "it starts at once"
