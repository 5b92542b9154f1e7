"""Opportunistic work makes way for everybody, whatever its own group is guaranteed; firm work keeps what it is owed."""

from typing import Any

import pytest
from tests.clockwork import Clockwork
from tests.make import World, gpu_amount, group, node, spec

from gangline_core import elasticity
from gangline_core import facts as f
from gangline_core.groups import Group
from gangline_core.ids import JobId
from gangline_core.job import JobState
from gangline_core.limits.quota import Ledger
from gangline_core.making_room.losses import BY_CLASS
from gangline_core.reasons import ReasonCode
from gangline_core.spec import ServiceClass

LOOSE = ServiceClass.OPPORTUNISTIC


def owed(path: str, gpus: float, **fields: Any) -> Group:
    return group(path, guaranteed=gpu_amount(gpus), **fields)


def world(*groups: Group) -> World:
    return World(node("n1", gpus=8), groups=groups or (owed("b", 4), owed("c", 4)))


def runs(made: World, **fields: Any) -> JobId:
    return made.run(made.submit(spec(**fields)), "n1")


def gone_for(made: World, **fields: Any) -> list[JobId]:
    """Who is evicted for a job that comes a minute later; it runs once they are gone, exactly when anybody is."""
    made.wait(60)
    asker = made.submit(**fields)
    decided = made.round()
    assert decided is not None
    assert {gone.rule for gone in decided.evictions} <= {BY_CLASS}
    made.settle()
    assert (made.job(asker).state == JobState.RUNNING) == bool(decided.evictions)
    return [gone.job for gone in decided.evictions]


def test_a_group_gets_its_guarantee_back_from_the_loose_work_of_another_that_has_one() -> None:
    made = world()
    loose = runs(made, gpus=8, group="c", service_class=LOOSE)
    assert gone_for(made, gpus=4, group="b") == [loose]


@pytest.mark.parametrize("named", [0, 1, 8])
def test_how_much_is_guaranteed_to_the_group_of_loose_work_does_not_matter(named: int) -> None:
    made = world(group("b"), owed("c", named))
    loose = runs(made, gpus=8, group="c", service_class=LOOSE)
    assert gone_for(made, gpus=4, group="b") == [loose]


def test_of_a_group_that_uses_its_guarantee_the_loose_work_goes_and_the_firm_stays() -> None:
    made = world()
    loose = runs(made, gpus=4, group="c", service_class=LOOSE)
    firm = runs(made, gpus=4, group="c")
    assert gone_for(made, gpus=4, group="b") == [loose]
    assert made.job(firm).state == JobState.RUNNING


@pytest.mark.parametrize("priority", [0, 9])
def test_loose_work_goes_for_a_job_that_nobody_guaranteed_anything(priority: int) -> None:
    made = world(group("b"), owed("c", 4))
    loose = runs(made, gpus=8, group="c", service_class=LOOSE)
    assert gone_for(made, gpus=4, group="b", priority=priority) == [loose]


@pytest.mark.parametrize("asker", ["b", "c", "c/x", "c/y"])
def test_loose_work_below_a_group_with_a_guarantee_goes_for_strangers_and_for_its_own(asker: str) -> None:
    made = world(owed("b", 4), owed("c", 4), group("c/x"), group("c/y"))
    loose = runs(made, gpus=8, group="c/x", service_class=LOOSE)
    assert gone_for(made, gpus=4, group=asker) == [loose]


def test_members_of_an_elastic_loose_job_go_one_by_one() -> None:
    made = world()
    loose = made.submit(spec(gpus=1, tasks=8, minimum=1, maximum=8, group="c", service_class=LOOSE))
    made.settle()
    asker = made.submit(gpus=4, group="b")
    made.settle()
    assert made.job(asker).state == made.job(loose).state == JobState.RUNNING
    assert made.job(loose).sizes == {"worker": 4}


def test_lending_takes_members_of_loose_work_back_from_a_group_with_a_guarantee() -> None:
    made = world().set_policy(elastic="lending")
    loose = made.submit(spec(gpus=1, tasks=7, minimum=1, maximum=7, group="c", service_class=LOOSE))
    made.settle()
    owner = made.submit(spec(gpus=1, tasks=1, minimum=1, maximum=8, group="b"))
    made.settle()
    for _ in ("taken", "given"):
        made.wait(120)
        made.tell("elastic.default", *elasticity.propose(made.state, "default", made.at))
        made.settle()
    assert [made.job(one).sizes["worker"] for one in (loose, owner)] == [4, 4]


def test_loose_work_makes_way_below_a_limit_that_both_share() -> None:
    made = World(
        node("n1", gpus=16),
        groups=[group("t", limit=gpu_amount(8)), owed("t/c", 4), group("t/b")],
    )
    loose = runs(made, gpus=8, group="t/c", service_class=LOOSE)
    assert gone_for(made, gpus=4, group="t/b") == [loose]


@pytest.mark.parametrize("service_class", [ServiceClass.BURSTABLE, ServiceClass.GUARANTEED])
@pytest.mark.parametrize(("asker", "owes"), [(4, 4), (5, 4), (4, 0)])
def test_firm_work_within_its_guarantee_stays_although_loose_work_of_its_group_goes(
    service_class: ServiceClass, asker: int, owes: int
) -> None:
    made = world(owed("b", owes), owed("c", 4))
    firm = runs(made, gpus=4, group="c", priority=-5, service_class=service_class)
    loose = runs(made, gpus=4, group="c", service_class=LOOSE)
    assert gone_for(made, gpus=asker, group="b", priority=9) == ([loose] if asker == 4 else [])
    assert made.job(firm).state == JobState.RUNNING


def test_endless_loose_work_of_a_group_with_a_guarantee_delays_no_date() -> None:
    made = World(node("n1", gpus=8), groups=[owed("c", 4), group("d")])
    began = made.at
    first = runs(made, gpus=4, group="d", time_limit_s=100)
    whole = made.submit(gpus=8, group="d", time_limit_s=100)
    made.settle()
    loose = made.submit(gpus=4, group="c", service_class=LOOSE)
    made.settle()
    assert made.job(loose).state == JobState.RUNNING, "it may pass, since it can be pushed away again"
    made.at = began + 100_000
    made.finish(first).settle()
    assert made.job(whole).state == JobState.RUNNING
    assert made.job(loose).state == JobState.WAITING


def test_who_gave_up_its_cells_counts_as_loose_wherever_guarantees_are_counted() -> None:
    """It runs on without its cells: it uses no guarantee up, none protects it, and the group's firm work is owed."""
    made = World(node("n1", gpus=8), groups=(owed("b", 4), owed("c", 4)))
    lowered = runs(made, gpus=4, group="c", service_class=ServiceClass.GUARANTEED)
    runs(made, gpus=4, group="b", preemptible=False)
    asker = made.submit(gpus=4, group="c")
    fact = f.RoundDecided(pool="default", round=-1, lowerings=(f.Lowering(job=lowered, beneficiary=asker),))
    made.tell("placement.default", fact)
    assert made.job(lowered).service_class == LOOSE
    ledger = Ledger(made.state)
    assert ledger.within_guarantee(made.job(asker), gpu_amount(4))
    assert ledger.beyond("c") == (("gpu_milli", -4_000),)
    assert not ledger.is_sheltered(made.job(lowered))
    assert ledger.over_guarantee(made.job(lowered), gpu_amount(4), beneficiary="b")
    made.wait(60)
    decided = made.round()
    assert decided is not None
    assert [one.job for one in decided.evictions] == [lowered]


def test_among_loose_jobs_a_large_one_starts_in_time_whatever_stream_of_small_ones_comes() -> None:
    """Firm work need not wait for it, and does not."""
    clock = Clockwork(node("n1"), preemption=True)
    for k in range(26):
        clock.arrive(10 * k, spec(f"s{k}", gpus=2, time_limit_s=50, service_class=LOOSE), runs_s=45)
    clock.arrive(25, spec("large", gpus=8, time_limit_s=100, service_class=LOOSE), runs_s=80)
    clock.run(260)
    assert (clock.first_start(_named(clock, "large")) or 1e9) - 25 <= 50 + 1


def test_firm_work_takes_what_is_reserved_for_loose_work() -> None:
    made = World(node("n1"), node("n2")).set_policy(ordering="fifo", starvation_s=0)
    runs(made, gpus=6, time_limit_s=100, service_class=LOOSE)
    made.submit_running(spec(gpus=8, time_limit_s=2_000), "n2")
    large = made.submit(gpus=8, service_class=LOOSE)
    small = made.submit(gpus=1, service_class=LOOSE)
    made.round()
    assert made.reason(small) == ReasonCode.RESERVED
    brief = made.submit(gpus=1, time_limit_s=90, service_class=LOOSE)
    firm = made.submit(gpus=1)
    decided = made.round()
    assert decided is not None
    assert [(one.job, one.start_ms - made.at) for one in decided.reservations] == [(large, 100_000)]
    assert [made.job(job).state for job in (small, brief, firm)] == [
        JobState.WAITING,
        JobState.STARTING,
        JobState.STARTING,
    ]
    assert made.reason(small) == ReasonCode.INSUFFICIENT_GPUS, "those two took what it might have waited beside"


def _named(clock: Clockwork, name: str) -> JobId:
    return next(job.id for job in clock.world.state.kept.jobs.values() if job.spec.name == name)
