"""Why a gang finds no place: the first cause that holds, with its numbers."""

from tests.core.test_placement import Place
from tests.make import World, node, role, spec

from gangline_core import facts as f
from gangline_core.closed_hints import AWAY_HINT, TOO_FEW_HINT
from gangline_core.ids import NodeId
from gangline_core.reasons import HINTS, ReasonCode, hint, sentence
from gangline_core.telling.explain import explain

# --- reasons --------------------------------------------------------------------------------------------------


def test_four_free_on_three_nodes_is_said_to_be_fragmented():
    place = Place(node("n1"), node("n2"), node("n3"))
    for gpus in (7, 6, 7):
        place.seat(gpus=gpus)
    reason = place.why(gpus=4)
    assert reason.code == ReasonCode.FRAGMENTED_GPUS
    assert sentence(reason) == "Needs 4 GPUs on one node; at its turn 4 were free, at most 2 on one node (n2)."


def test_too_few_gpus_are_counted():
    place = Place(node("n1"), node("n2", model="V100"))
    place.seat(gpus=6, gpu_models=["A100"])
    reason = place.why(gpus=4, gpu_models=["A100"])
    assert sentence(reason) == "Needs 4 GPUs; at its turn 2 of 8 suitable ones were free."


def test_the_missing_dimension_is_named():
    place = Place(node("n1", cpus=4, memory_mib=8192))
    assert place.why(gpus=1, cpus=8).numbers == {"needed": 8000, "free": 4000}
    assert place.why(gpus=1, cpus=8).code == ReasonCode.INSUFFICIENT_CPU
    assert place.why(gpus=1, memory_mib=10_000).code == ReasonCode.INSUFFICIENT_MEMORY
    assert place.why(gpus=0.5, gpu_memory_mib=50_000).code == ReasonCode.INSUFFICIENT_GPU_MEMORY


def test_every_refusal_has_a_reason_and_no_fitting_gang_is_refused():
    place = Place(node("n1", gpus=2), node("n2", gpus=2))
    place.seat(gpus=0.6)
    place.seat(gpus=1)
    assert place.why(gpus=0.7, tasks=4).code in (ReasonCode.INSUFFICIENT_GPUS, ReasonCode.FRAGMENTED_GPUS)
    assert place.why(spec(roles=[role("a", gpus=1, tasks=2), role("b", gpus=1)])).code == ReasonCode.INSUFFICIENT_GPUS


def test_who_waits_for_machines_that_are_away_is_not_sent_to_his_selector():
    world = World(node("n1"), node("n2", taints=["x"]))
    world.tell("telemetry", f.NodeLost(node=NodeId("n1"), silent_ms=30_000))
    tainted = world.submit(gpus=1)
    world.settle()
    assert "tolerations" in hint(world.job(tainted).reason, job=tainted)
    world = World(node("n1"), node("n2"))
    world.tell("telemetry", f.NodeLost(node=NodeId("n1"), silent_ms=30_000))
    world.tell("admission", f.DrainSet(node=NodeId("n2"), drained=True, by="root"))
    waits = world.submit(gpus=1)
    world.settle()
    assert hint(world.job(waits).reason, job=waits) == AWAY_HINT


def test_who_asks_for_more_than_what_takes_work_is_not_told_to_wait_for_the_ends_of_others():
    world = World(node("n1"), node("n2"), node("n3"))
    world.submit_running(spec(gpus=6), "n1")
    full, fits = world.submit(gpus=8, tasks=3), world.submit(gpus=8, tasks=2)
    world.settle()
    assert hint(world.job(full).reason, job=full) == HINTS[ReasonCode.INSUFFICIENT_GPUS]
    world.tell("admission", f.DrainSet(node=NodeId("n3"), drained=True, by="root"))
    world.settle()
    assert hint(world.job(full).reason, job=full) == TOO_FEW_HINT
    missing = "All 16 that take work would have to be free, and 8 more GPUs would have to take work besides."
    assert explain(world.state, full, world.at).shortfall.missing == missing
    for name in ("n1", "n2"):
        world.tell("admission", f.DrainSet(node=NodeId(name), drained=True, by="root"))
    world.settle()
    assert hint(world.job(fits).reason, job=fits) != HINTS[ReasonCode.INSUFFICIENT_GPUS]
