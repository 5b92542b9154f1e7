"""What a share or a slice of a GPU counts with is known with its card; before that the least that it can be counts."""

from typing import Any

import pytest
from tests.core.test_guaranteed_gpu_memory import evicted
from tests.make import T0, World, gpu_amount, group, node, role, spec

from gangline_core.cluster import Gpu
from gangline_core.door.admission import judge_submit
from gangline_core.door.draft import Draft
from gangline_core.job import JobState
from gangline_core.reasons import ReasonCode
from gangline_core.room.mig import compute_milli
from gangline_core.spec import JobSpec, Resources, Role

CARD = 81_920
SLICE = "3g.40gb"


def slices(tasks: int = 1) -> list[Role]:
    need = Resources(gpu_milli=compute_milli(SLICE), mig=SLICE, cpu_milli=1000, memory_mib=1024)
    return [Role("worker", tasks, tasks, tasks, need, ("true",))]


def refused(world: World, asked: JobSpec) -> ReasonCode | None:
    judged = judge_submit(world.state, Draft(), specs=[asked], submit_id="s", by=asked.user, trace="", at=T0)
    return judged.refusals[0][1].code if judged.refusals else None


def test_a_share_by_compute_is_taken_back_as_far_as_its_part_of_a_cards_memory_is_guaranteed():
    assert evicted({"gpu_memory_mib": CARD // 2 - 1}, gpus=0.5)[0] == []
    went, told = evicted({"gpu_memory_mib": CARD // 2}, gpus=0.5)
    assert went == [(1, "reclaim")]
    assert "within its group's guarantee" in told


def test_a_share_by_memory_is_taken_back_as_far_as_its_part_of_a_card_is_guaranteed():
    """A thousandth of a GPU is free of the guarantee, and the job will have half of one."""
    asked: dict[str, Any] = {"gpus": 0, "gpu_memory_mib": CARD // 2}
    too_little, told = evicted(gpu_amount(0.499), **asked)
    assert too_little == []
    assert "what goes beyond a guarantee is only lent" in told
    assert evicted(gpu_amount(0.5), **asked)[0] == [(1, "reclaim")]


def test_a_share_by_memory_is_taken_back_on_a_model_as_far_as_its_part_of_a_card_is_guaranteed():
    asked: dict[str, Any] = {"gpus": 0, "gpu_memory_mib": CARD // 2}
    assert evicted(gpu_amount(0.499, "H100"), **asked)[0] == []
    assert evicted(gpu_amount(0.5, "H100"), **asked)[0] == [(1, "reclaim")]
    assert evicted(gpu_amount(0.5, "H100"), **asked, gpu_models=["H100"])[0] == [(1, "reclaim")]


@pytest.mark.parametrize("promised", [8, 3])
@pytest.mark.parametrize(
    "asked", [{"gpus": 4}, {"tasks": 8, "gpus": 0.5}, {"tasks": 8, "gpus": 0, "gpu_memory_mib": CARD // 2}]
)
def test_whoever_a_dated_job_may_push_away_for_its_guarantee_of_gpu_memory_passes(asked: dict[str, Any], promised: int):
    world = World(
        node("n1", gpus=4, model="H100", gpu_memory_mib=CARD),
        groups=[group("owner", guaranteed={"gpu_memory_mib": promised * CARD}), group("guest")],
    )
    world.submit_running(spec(group="guest", gpus=2, preemptible=False), "n1")
    dated, other = world.submit(spec(group="owner", **asked)), world.submit(spec(group="guest", gpus=1))
    world.settle()
    assert [one.job for one in world.state.kept.pools["default"].reservations] == [dated]
    assert (world.job(other).state == JobState.RUNNING) == (promised == 8)


@pytest.mark.parametrize(
    ("limit", "asked"),
    [
        ({"gpu_memory_mib": CARD}, {"gpus": 0.5, "tasks": 3}),
        (gpu_amount(1), {"gpus": 0, "gpu_memory_mib": CARD // 2, "tasks": 3}),
        (gpu_amount(1, "H100"), {"gpus": 0, "gpu_memory_mib": CARD // 2, "tasks": 3}),
        (gpu_amount(1), {"roles": [role("a", gpus=0.5), role("b", tasks=2, gpus=0, gpu_memory_mib=CARD // 2)]}),
    ],
)
def test_shares_that_are_above_a_limit_on_every_card_are_refused_at_the_door(
    limit: dict[str, int], asked: dict[str, Any]
):
    world = World(node("n1", model="H100", gpu_memory_mib=CARD), groups=[group("lab", limit=limit)])
    assert refused(world, spec("job", group="lab", **asked)) == ReasonCode.NEVER_FITS_LIMIT
    fewer = {**asked, "tasks": 2} if "tasks" in asked else {"roles": asked["roles"][:1]}
    assert refused(world, spec("job", group="lab", **fewer)) is None


def test_slices_that_are_above_a_limit_of_memory_on_every_card_are_refused_at_the_door():
    machine = node("n1", model="H100", gpu_memory_mib=CARD)
    cut = machine.__class__(
        id=machine.id,
        agent=machine.agent,
        cpu_milli=machine.cpu_milli,
        memory_mib=machine.memory_mib,
        gpus=tuple(Gpu(index=k, model="H100", memory_mib=CARD, mig="h100-80gb") for k in range(8)),
    )
    world = World(cut, groups=[group("lab", limit={"gpu_memory_mib": CARD})])
    assert refused(world, spec("job", group="lab", roles=slices(3))) == ReasonCode.NEVER_FITS_LIMIT
    assert refused(world, spec("job", group="lab", roles=slices(2))) is None
