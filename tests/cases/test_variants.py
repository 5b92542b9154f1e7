"""The same kinds of trouble in other shapes: other sizes, dimensions, depths and orders than were reported."""

import itertools

import pytest
from tests.cases.drive import Drive
from tests.make import SECOND, T0, gpu_amount, group, node, role

from gangline_core import facts as f
from gangline_core.door.edits import JobEdit
from gangline_core.job import JobState
from gangline_core.limits.usage_by_class import recompute
from gangline_core.reasons import ReasonCode
from gangline_core.spec import ArraySpec


def owed(path: str, gpus: float, **fields):
    return group(path, guaranteed=gpu_amount(gpus), **fields)


# --- gangs (A) ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_three_gangs_of_several_roles_that_each_need_everything_run_one_after_the_other(order):
    drive = Drive(node("n1", gpus=4), node("n2", gpus=4), node("n3", gpus=4))
    shapes = [
        [role("a", tasks=3, gpus=4)],
        [role("a", tasks=2, gpus=4), role("b", tasks=2, gpus=2)],
        [role("a", tasks=12, gpus=1)],
    ]
    gangs = [drive.ask(0, roles=shapes[k], run=60) for k in order]
    drive.until(1)
    assert sum(drive.is_running(*gangs)) == 1
    drive.finish_all()
    assert sorted(ask.ended for ask in gangs) == [60, 120, 180]


@pytest.mark.parametrize(("spacing", "latest"), [(3, 420), (9, 560)])
def test_another_stream_of_gangs_ends_near_its_lower_bound(spacing, latest):
    drive = Drive(node("n1", gpus=4), node("n2", gpus=4), node("n3", gpus=4))
    sizes = [(3 * k) % 4 + 1 for k in range(50)]
    gangs = [drive.ask(spacing * k, tasks=size, gpus=1, topology="node", run=30) for k, size in enumerate(sizes)]
    drive.finish_all()
    ends = [ask.ended for ask in gangs]
    assert None not in ends
    assert max(ends) <= max(latest, 1.4 * sum(sizes) * 30 / 12)


@pytest.mark.parametrize("limits", [{"cpu_milli": 4000}, {"gpu_milli:A100": 4000}, {"gpu_memory_mib": 4 * 40_960}])
def test_a_gang_above_a_limit_of_a_group_further_up_is_refused_in_any_dimension(limits):
    drive = Drive(node(gpus=16), groups=[group("top", limit=limits), group("top/q")])
    gang = drive.ask(0, tasks=6, gpus=1, gpu_models=["A100"], gpu_memory_mib=40_960, group="top/q")
    drive.until(1)
    assert gang.refused.code == ReasonCode.NEVER_FITS_LIMIT
    assert drive.used() == 0


def test_many_gangs_with_a_short_start_limit_wait_for_hours_without_harm():
    drive = Drive(node(gpus=2), policy={"start_limit_s": 5})
    gangs = [drive.ask(0, tasks=2, gpus=1, run=300, start=2) for _ in range(40)]
    drive.finish_all()
    assert [len(ask.starts) for ask in gangs] == [1] * 40
    assert max(ask.ended for ask in gangs) == 40 * 302


# --- quotas (B) ---------------------------------------------------------------------------------------------


def test_a_refused_array_or_batch_charges_nothing_neither_use_nor_places_in_the_queue():
    drive = Drive(node(), groups=[group("q", queued_jobs_max=10, limit=gpu_amount(2))])
    drive.ask(0, name="a", gpus=1, group="q", array=ArraySpec(ranges=((0, 7, 1),), at_most=2))
    again = [drive.ask(k, name="a", gpus=1, group="q", array=ArraySpec(ranges=((0, 99, 1),))) for k in range(1, 6)]
    late = drive.ask(7, gpus=1, group="q")
    drive.until(8)
    assert {ask.refused.code for ask in again} == {ReasonCode.NAME_TAKEN}
    assert late.refused is None
    assert (drive.used("q"), drive.state.unfinished["q"]) == (2, 9)


@pytest.mark.parametrize("order", list(itertools.permutations(("top/a", "top/b", "other"))))
def test_borrowers_at_different_depths_never_share_the_same_cpus(order):
    owes = {"top": 4000, "top/a": 2000, "top/b": 2000, "other": 2000}
    groups = [group(path, guaranteed={"cpu_milli": most}) for path, most in owes.items()]
    drive = Drive(node(gpus=0, cpus=6), groups=groups)
    asks = [drive.ask(0, gpus=0, cpus=4, group=path) for path in order]
    drive.until(1)
    assert sum(drive.is_running(*asks)) == 1
    assert drive.state.usage[""]["cpu_milli"] <= 6000
    drive.finish_all()


def test_elements_that_failed_for_good_give_their_share_back_one_by_one():
    drive = Drive(node(gpus=10), groups=[group("q", limit=gpu_amount(10))])
    array = drive.ask(0, gpus=1, group="q", run=1000, array=ArraySpec(ranges=((0, 9, 1),)))
    waiting = drive.ask(1, tasks=4, gpus=1, group="q", run=10)
    drive.until(9)
    assert drive.is_waiting(waiting) == [True]
    for job in drive.in_state(JobState.RUNNING)[:4]:
        drive.later(10, lambda job=job: drive.fail(drive.asks[job]))
    drive.until(10)
    assert waiting.starts == [10]
    drive.finish_all()
    assert array.id in drive.state.kept.arrays
    assert recompute(drive.state) == {}


@pytest.mark.parametrize("card_mib", [16_384, 24_576, 81_920])
def test_memory_and_fractions_of_any_card_stay_below_a_limit_together(card_mib):
    drive = Drive(node(gpus=4, gpu_memory_mib=card_mib), groups=[group("q", limit=gpu_amount(1.5))])
    for number in range(6):
        drive.ask(number, group="q", gpus=0, gpu_memory_mib=card_mib // 2)
        drive.ask(number, group="q", gpus=0.25)
    drive.until(10)
    assert drive.used("q") == 1.5


@pytest.mark.parametrize("full", [{"devices": {"rdma": 1}, "cpus": 1}, {"memory_mib": 65_536, "cpus": 1}])
def test_a_dimension_that_is_full_stops_only_those_who_ask_for_it(full):
    limit = {"device:rdma": 4, "memory_mib": 4 * 65_536 + 2048, "gpu_milli": 8000}
    drive = Drive(node(gpus=16, devices={"rdma": 16}), groups=[group("q", limit=limit)])
    asks = drive.asks_of(10, 0, gpus=0, group="q", **full)
    free = drive.ask(1, gpus=1, group="q", memory_mib=0)
    drive.until(2)
    assert (sum(drive.is_running(*asks)), free.starts) == (4, [1])


@pytest.mark.parametrize("where", ["user", "above"])
def test_a_limit_cut_anywhere_on_the_way_up_keeps_what_runs_and_starts_nothing(where):
    drive = Drive(node(), groups=[group("top"), group("top/q")])
    jobs = [drive.ask(k, gpus=2, group="top/q") for k in range(4)]
    drive.until(5)
    if where == "user":
        drive.set_group("top/q", user_limit=gpu_amount(4))
    else:
        drive.set_group("top", limit=gpu_amount(4))
    drive.restart()
    late = drive.ask(6, gpus=1, group="top/q")
    drive.until(7)
    assert (drive.used("top"), drive.is_running(*jobs), drive.is_waiting(late)) == (8, [True] * 4, [True])
    assert "uses 8 of 4 GPUs" in drive.why(late)
    for second, job in enumerate(jobs[:3], start=10):
        drive.later(second, lambda job=job: drive.drop(job))
    drive.until(11)
    assert not late.starts
    drive.until(12)
    assert late.starts == [12]


# --- borrowing (C) ------------------------------------------------------------------------------------------


def test_within_a_guarantee_of_one_model_is_judged_by_use_and_request_together():
    promised = {"q1": gpu_amount(4, "A100"), "q2": gpu_amount(4, "A100"), "q3": {}}
    drive = Drive(node(model="A100"), groups=[group(path, guaranteed=own) for path, own in promised.items()])
    drive.ask(0, gpus=4, gpu_models=["A100"], group="q1")
    lent = drive.asks_of(4, 0, gpus=1, gpu_models=["A100"], group="q3")
    beyond = drive.ask(10, gpus=1, gpu_models=["A100"], group="q1")
    within = drive.ask(20, gpus=3, gpu_models=["A100"], group="q2")
    drive.until(21)
    assert drive.is_running(beyond, within) == [False, True]
    assert (len(drive.evicted), sum(drive.is_running(*lent))) == (3, 1)
    drive.finish_all()


def test_a_job_no_machine_is_shaped_for_costs_nobody_anything_and_blocks_nobody():
    drive = Drive(node("n1", gpus=4), node("n2", gpus=4), groups=[owed("a", 8), group("b")])
    lent = drive.ask(0, gpus=4, group="b")
    never = drive.ask(1, gpus=8, group="a")
    fits = drive.ask(2, tasks=2, gpus=4, group="a")
    drive.finish_all()
    assert never.refused.code == ReasonCode.NEVER_FITS_NODE
    assert (fits.starts, [eviction.victim for eviction in drive.evicted]) == ([2], [lent.id])


def test_a_leaf_three_levels_down_gets_its_guarantee_out_of_a_cousin():
    paths = {"r": 100, "r/x": 60, "r/x/one": 60, "r/y": 40, "r/y/two": 40}
    drive = Drive(
        *(node(f"n{k}", gpus=10, cpus=200) for k in range(10)),
        groups=[group(path, guaranteed=gpu_amount(most), limit=gpu_amount(100)) for path, most in paths.items()],
    )
    lent = drive.asks_of(20, 0, gpus=5, group="r/x/one")
    owner = drive.ask(10, tasks=4, gpus=10, group="r/y/two")
    drive.until(11)
    assert drive.is_running(owner) == [True]
    assert (sum(drive.is_running(*lent)), drive.used("r/x"), drive.used("r/y")) == (12, 60, 40)
    drive.finish_all()


# --- order (D) ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpus", "groups", "shares"), [(10, "abcd", [3, 3, 2, 2]), (7, "abc", [3, 2, 2]), (5, "ab", [3, 2])]
)
def test_what_does_not_divide_evenly_is_given_by_a_fixed_rule_and_never_moved(gpus, groups, shares):
    drive = Drive(
        node(gpus=gpus), groups=[group(path) for path in groups], policy={"formula": "-10 * share_over_weight"}
    )
    for path in groups:
        drive.asks_of(10, 0, gpus=1, group=path)
    drive.until(1)
    assert [drive.used(path) for path in groups] == shares
    drive.restart()
    drive.until(100)
    assert [drive.used(path) for path in groups] == shares
    assert not drive.evicted


@pytest.mark.parametrize("policy", [{"ordering": "fifo"}, {}])
def test_a_two_node_gang_is_not_starved_by_an_endless_stream_of_small_jobs(policy):
    drive = Drive(node("n1", gpus=4), node("n2", gpus=4), policy=policy)
    for k in range(300):
        drive.ask(5 * k, gpus=1, run=40, limit=40)
    gang = drive.ask(101, tasks=2, gpus=4, run=60, limit=60)
    drive.until(1500)
    assert gang.starts
    assert gang.starts[0] <= 101 + 2 * 40 + 5


def test_a_backfilled_job_is_not_cut_on_several_nodes_either():
    drive = Drive(node("n1"), node("n2"), policy={"preemption": False})
    drive.ask(0, tasks=2, gpus=6, run=100, limit=100)
    whole = drive.ask(1, tasks=2, gpus=8, run=30, limit=30, priority=100)
    short = [drive.ask(2, gpus=2, run=79, limit=80) for _ in range(2)]
    long = drive.ask(3, gpus=2, run=200, limit=200)
    drive.finish_all()
    assert [ask.ended for ask in short] == [81, 81]
    assert (whole.starts, long.starts) == ([100], [130])


# --- preemption (E) -----------------------------------------------------------------------------------------


def test_several_waves_of_importance_evict_each_job_once_and_end():
    drive = Drive(node(gpus=4))
    low = drive.ask(0, tasks=4, gpus=1, stop=5, run=50)
    middle = drive.ask(10, tasks=4, gpus=1, priority=10, stop=5, run=50)
    high = drive.ask(20, tasks=4, gpus=1, priority=20, stop=5, run=50)
    drive.finish_all()
    victims = [eviction.victim for eviction in drive.evicted]
    assert sorted(victims) == [low.id, middle.id]
    assert high.starts[0] < middle.starts[-1] < low.starts[-1]


@pytest.mark.parametrize("freed", [0, 1])
def test_room_cleared_on_two_nodes_stays_with_whom_it_is_for(freed):
    drive = Drive(node("n1", gpus=4), node("n2", gpus=4))
    drive.asks_of(8, 0, gpus=1, stop=20)
    gang = drive.ask(10, tasks=2, gpus=4, priority=50, run=100)
    small = [drive.ask(11 + k, gpus=1, run=2) for k in range(25)]
    if freed:
        drive.later(15, lambda: drive.lose("n1"))
        drive.later(16, lambda: drive.see(node("n1", gpus=4)))
    drive.until(60)
    assert gang.starts
    assert all(ask.starts == [] or ask.starts[0] >= gang.starts[0] for ask in small) or freed


@pytest.mark.parametrize("sizes", [(4, 2, 2), (3, 1, 4), (1, 1, 1, 5), (6, 1, 1)])
@pytest.mark.parametrize("needed", [2, 4, 5])
def test_the_list_that_was_decided_is_the_list_that_stops_and_no_shorter_one_would_do(sizes, needed):
    drive = Drive(node())
    jobs = [drive.ask(0, gpus=size) for size in sizes]
    high = drive.ask(5, gpus=needed, priority=10)
    drive.until(6)
    chosen = {eviction.victim for eviction in drive.evicted}
    stopped = {ask.id for ask in jobs if drive.is_waiting(ask) == [True]}
    assert chosen == stopped
    assert drive.is_running(high) == [True]
    freed = [size for ask, size in zip(jobs, sizes, strict=True) if ask.id in chosen]
    free = 8 - sum(sizes)
    assert all(free + sum(freed) - size < needed for size in freed)


# --- what is charged (Q) and time (R) -----------------------------------------------------------------------


@pytest.mark.parametrize("stop", [0, 3.5, 17])
def test_charges_are_the_integral_of_what_was_held_whatever_became_of_the_jobs(stop):
    drive = Drive(node(gpus=4), groups=[group("a"), owed("b", 4)])
    held = 0.0
    drive.asks_of(4, 0, gpus=1, group="a", stop=stop, run=200)
    drive.ask(20, gpus=4, group="b", run=30)
    drive.later(90, lambda: drive.drop(next(iter(drive.asks.values()))))
    for half in range(2400):
        before, since = drive.used(), drive.now
        drive.until(half * 0.5)
        held += before * (drive.now - since)
    charged = sum(charge.gpu_milli_ms for charge in drive.state.kept.uncharged.values())
    assert charged == held * 1000 * SECOND
    assert drive.used() == 0


def test_an_element_that_is_run_again_is_charged_again_and_its_siblings_are_not():
    drive = Drive(node())
    drive.ask(0, gpus=1, run=600, array=ArraySpec(ranges=((0, 3, 1),)), retries=1)
    drive.until(1)
    first = drive.in_state(JobState.RUNNING)[0]
    drive.later(100, lambda: drive.fail(drive.asks[first]))
    drive.finish_all()
    charged = sorted(charge.gpu_milli_ms // (1000 * SECOND) for charge in drive.state.kept.uncharged.values())
    assert charged == [100, 600, 600, 600, 600]


def test_what_waits_for_an_element_waits_in_nobodys_queue():
    drive = Drive(node())
    array = drive.ask(0, gpus=1, run=3600, array=ArraySpec(ranges=((0, 1, 1),)))
    drive.until(1)
    follower = drive.ask(2, gpus=1, after=[array.id + 1], run=10)
    drive.finish_all()
    assert follower.starts == [3600]
    assert drive.job(follower.id).waited_ms == 0
    assert drive.at > T0


def test_a_deadline_edit_and_a_cancel_in_one_instant_end_the_job_once():
    drive = Drive(node())
    job = drive.ask(0, gpus=1, stop=5)
    drive.until(10)
    drive.tell(
        "admission",
        f.CancelRequested(job=job.id, by="ada"),
        f.JobEdited(job=job.id, edit=JobEdit(time_limit_s=3600), by="ada"),
    )
    drive.finish_all()
    assert (drive.job(job.id).state, job.ended) == (JobState.CANCELLED, 15)
