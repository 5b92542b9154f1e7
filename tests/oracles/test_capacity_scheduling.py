"""Elastic quotas of Kubernetes's capacity scheduling: who has quota, who is asked to go, who runs in the end."""

import pytest
from tests.make import World, group, node, spec
from tests.oracles.played import Played, name_of, table

from gangline_core import facts as f
from gangline_core.job import JobState
from gangline_core.limits.quota import Ledger
from gangline_core.spec import ServiceClass

TABLE = table("capacity_scheduling")


def memory(mib: int | None) -> dict[str, int]:
    return {} if mib is None else {"memory_mib": mib}


@pytest.mark.parametrize("case", TABLE["prefilter"], ids=name_of)
def test_who_has_quota(case):
    groups = [
        group("all", limit=memory(case.get("all"))),
        group("all/mine", guaranteed=memory(case.get("guaranteed")), limit=memory(case.get("limit"))),
        group("all/other", guaranteed=memory(case.get("guaranteed")), limit=memory(case.get("limit"))),
    ]
    world = World(node(memory_mib=20_000), groups=groups)
    for path, used in (("all/mine", case["used"]), ("all/other", case.get("beside", 0))):
        if used:
            world.submit_running(spec(gpus=0, memory_mib=used, group=path), "n1")
    job = world.job(world.submit(gpus=0, memory_mib=case["asked"], group="all/mine"))
    assert (Ledger(world.state).fault(job, memory(case["asked"])) is None) == case["fits"]


@pytest.mark.parametrize("case", TABLE["eligibility"], ids=name_of)
def test_who_may_have_somebody_evicted_now(case):
    promised = case["guaranteed"]
    groups = [group(path, guaranteed=memory(promised.get(path))) for path in ("asks", "other")]
    world = World(node("n1", gpus=0, memory_mib=100), node("n2", gpus=0, memory_mib=100), groups=groups)
    low = [
        world.submit_running(spec(gpus=0, cpus=0, memory_mib=100, group=path, priority=0, grace_s=60), where)
        for path, where in (("other", "n1"), (case.get("stops", "other"), "n2"))
    ]
    if case.get("stops"):
        world.cancel(low[1])
    kind = ServiceClass(case.get("class", "burstable"))
    asked = world.submit(gpus=0, cpus=0, memory_mib=100, group="asks", priority=9, service_class=kind)
    decided = world.round()
    if case.get("place_lost"):
        [first] = decided.evictions
        [nominated] = {task.node for task in world.state.kept.tasks.values() if task.job == first.job}
        world.tell("telemetry", f.NodeLost(node=nominated, silent_ms=30_000))
        decided = world.round()
    evicted = [] if decided is None else [one for one in decided.evictions if one.beneficiary == asked]
    assert bool(evicted) == case["evicts"]
    assert ("difference" in case) == (case.get("theirs", case["evicts"]) != case["evicts"])
    assert world.job(asked).state == JobState.WAITING


@pytest.mark.parametrize("case", TABLE["scenarios"], ids=name_of)
def test_who_runs_in_the_end(case):
    Played(case).prove()
