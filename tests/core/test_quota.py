"""Limits and guarantees along the group tree."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import World, gpu_amount, group, job, node, role, spec

from gangline_core.facts import DrainSet, GroupSet
from gangline_core.groups import ROOT, User
from gangline_core.limits import rungs
from gangline_core.limits.quota import Ledger, job_amounts, minimum_sizes
from gangline_core.limits.usage_by_class import recompute
from gangline_core.reasons import ReasonCode
from gangline_core.spec import ServiceClass


def fault(world: World, **fields):
    asked = job(900, **fields)
    return Ledger(world.state).fault(asked, job_amounts(asked.spec, {}))


def test_a_limit_anywhere_above_refuses():
    world = World(node(), groups=[group("a", limit=gpu_amount(4)), group("a/b", limit=gpu_amount(8)), group("a/c")])
    world.submit_running(spec(gpus=3, group="a/c"), "n1")
    assert fault(world, gpus=1, group="a/b") is None
    refused = fault(world, gpus=2, group="a/b")
    assert refused.code == ReasonCode.GROUP_LIMIT
    assert refused.numbers == {"group": "a", "dimension": "GPUs", "used": 3, "limit": 4, "needed": 2}


def test_the_limit_of_a_user_comes_before_that_of_the_group():
    world = World(
        node(), groups=[group("a", limit=gpu_amount(1))], users=[User(name="ada", group="a", limit=gpu_amount(1))]
    )
    refused = fault(world, gpus=2, group="a")
    assert refused.code == ReasonCode.USER_LIMIT
    assert refused.numbers["user"] == "ada"


def test_a_user_without_own_limit_has_the_groups_limit_for_each_user():
    world = World(
        node(),
        groups=[group("a", user_limit={"gpu_milli": 2000, "jobs": 5})],
        users=[User(name="bob", group="a", limit={"gpu_milli": 4000})],
    )
    assert fault(world, gpus=3, group="a", user="ada").code == ReasonCode.USER_LIMIT
    assert fault(world, gpus=3, group="a", user="bob") is None


def test_a_dimension_the_job_does_not_ask_for_never_refuses_it():
    world = World(node(), groups=[group("a", limit=gpu_amount(2))])
    world.submit_running(spec(gpus=2, group="a"), "n1")
    world.tell("admission", *[])
    assert fault(world, gpus=0, cpus=2, group="a") is None
    assert fault(world, gpus=1, group="a").code == ReasonCode.GROUP_LIMIT


def test_a_limit_per_model_holds_whatever_the_spelling():
    world = World(node(model="A100"), groups=[group("a", limit={"gpu_milli:a100": 2000})])
    world.submit_running(spec(gpus=2, group="a"), "n1")
    refused = fault(world, gpus=1, group="a", gpu_models=["A100"])
    assert refused.numbers["dimension"] == "A100 GPUs"
    assert fault(world, gpus=1, group="a", gpu_models=["A100", "H100"]) is None
    assert fault(world, gpus=1, group="a", gpu_models=["H100"]) is None


def test_asking_by_memory_does_not_slip_under_a_full_limit():
    world = World(node(gpus=2), groups=[group("a", limit=gpu_amount(1))])
    for _ in range(2):
        world.submit_running(spec(gpus=0, gpu_memory_mib=20_480, group="a"), "n1")
    assert world.state.usage["a"]["gpu_milli"] == 1000
    assert fault(world, gpus=0, gpu_memory_mib=20_480, group="a").code == ReasonCode.GROUP_LIMIT


def test_running_jobs_are_limited_by_number():
    world = World(node(), groups=[group("a", limit={"jobs": 2})])
    for _ in range(2):
        world.submit_running(spec(gpus=1, tasks=2, group="a"), "n1")
    assert fault(world, gpus=1, group="a").numbers["dimension"] == "running jobs"


def test_what_a_round_takes_counts_against_the_next_job_of_the_round():
    world = World(node(), groups=[group("a", limit=gpu_amount(4))])
    ledger, one, amounts = Ledger(world.state), job(1, gpus=3, group="a"), gpu_amount(3)
    assert ledger.fault(one, amounts) is None
    ledger.take(one, amounts)
    assert ledger.fault(job(2, gpus=3, group="a"), amounts) is not None
    ledger.give(one, amounts)
    assert ledger.fault(job(2, gpus=3, group="a"), amounts) is None
    assert world.state.usage.get("a") is None


def test_a_limit_cut_below_use_stops_new_work_only():
    lowered = World(node(), groups=[group("a", limit=gpu_amount(8))])
    for gpus in (3, 3, 2):
        lowered.submit_running(spec(gpus=gpus, group="a"), "n1")
    lowered.tell("admission", GroupSet(group=group("a", limit=gpu_amount(4)), by="admin"))
    assert fault(lowered, gpus=1, group="a").numbers == {
        "group": "a",
        "dimension": "GPUs",
        "used": 8,
        "limit": 4,
        "needed": 1,
    }
    assert fault(lowered, gpus=0, group="a") is None


def test_within_guarantee_is_judged_on_usage_and_request_together():
    world = World(
        node(), groups=[group("q1", guaranteed=gpu_amount(4)), group("q2", guaranteed=gpu_amount(4)), group("q3")]
    )
    world.submit_running(spec(gpus=4, group="q1"), "n1")
    ledger = Ledger(world.state)
    w1, w2, w3 = job(11, gpus=2, group="q1"), job(12, gpus=2, group="q2"), job(13, gpus=2, group="q3")
    assert not ledger.within_guarantee(w1, gpu_amount(2))
    assert ledger.within_guarantee(w2, gpu_amount(2))
    assert not ledger.within_guarantee(w3, gpu_amount(2)), "no guarantee set is not an endless guarantee"


def test_what_a_sibling_borrowed_takes_nothing_from_a_groups_own_guarantee():
    world = World(
        node(), groups=[group("a", guaranteed=gpu_amount(4)), group("a/b", guaranteed=gpu_amount(2)), group("a/c")]
    )
    world.submit_running(spec(gpus=4, group="a/c"), "n1")
    ledger = Ledger(world.state)
    assert ledger.within_guarantee(job(9, gpus=2, group="a/b"), gpu_amount(2))
    assert not ledger.within_guarantee(job(9, gpus=3, group="a/b"), gpu_amount(3))
    assert not ledger.within_guarantee(job(9, gpus=1, group="a/c"), gpu_amount(1)), "the parent's part is used up"


def test_a_group_without_own_guarantee_shares_that_of_the_group_above():
    world = World(node(), groups=[group("a", guaranteed=gpu_amount(4)), group("a/b")])
    assert Ledger(world.state).within_guarantee(job(9, gpus=4, group="a/b"), gpu_amount(4))


def test_a_group_is_never_taken_below_its_guarantee():
    world = World(node(gpus=8), node("n2"), groups=[group("a", guaranteed=gpu_amount(6)), group("b")])
    world.submit_running(spec(gpus=8, group="a"), "n1")
    ledger = Ledger(world.state)
    assert ledger.over_guarantee(job(9, group="a"), gpu_amount(2))
    assert not ledger.over_guarantee(job(9, group="a"), gpu_amount(3))
    assert ledger.over_guarantee(job(9, group="b"), gpu_amount(1)), "a group without guarantee may always be asked"


def test_what_one_part_of_a_group_gives_to_another_leaves_the_groups_guarantee_whole():
    world = World(
        node(), groups=[group("a", guaranteed=gpu_amount(8)), group("a/b"), group("a/c", guaranteed=gpu_amount(4))]
    )
    world.submit_running(spec(gpus=8, group="a/b"), "n1")
    ledger = Ledger(world.state)
    assert not ledger.over_guarantee(job(9, group="a/b"), gpu_amount(4))
    assert ledger.over_guarantee(job(9, group="a/b"), gpu_amount(4), beneficiary="a/c")


def test_opportunistic_work_neither_has_nor_uses_a_guarantee():
    world = World(node(), groups=[group("a", guaranteed=gpu_amount(4))])
    world.submit_running(spec(gpus=4, group="a", service_class=ServiceClass.OPPORTUNISTIC), "n1")
    ledger = Ledger(world.state)
    assert ledger.within_guarantee(job(9, gpus=4, group="a"), gpu_amount(4))
    loose = job(9, gpus=1, group="a", service_class=ServiceClass.OPPORTUNISTIC)
    assert not ledger.within_guarantee(loose, gpu_amount(1))
    assert ledger.over_guarantee(loose, gpu_amount(4)), "it goes, and the guarantee is as whole as before"
    assert not ledger.over_guarantee(job(9, gpus=1, group="a"), gpu_amount(1))


def test_guaranteed_jobs_inside_the_guarantee_are_sheltered():
    world = World(node(), groups=[group("a", guaranteed=gpu_amount(4))])
    firm = world.submit_running(spec(gpus=4, group="a", service_class=ServiceClass.GUARANTEED), "n1")
    plain = world.submit_running(spec(gpus=2, group="a"), "n1")
    assert Ledger(world.state).is_sheltered(world.job(firm))
    assert not Ledger(world.state).is_sheltered(world.job(plain))
    world.submit_running(spec(gpus=2, group="a", service_class=ServiceClass.GUARANTEED), "n1")
    assert not Ledger(world.state).is_sheltered(world.job(firm))


def test_a_gang_asks_for_all_its_roles():
    asked = spec(
        roles=[
            role("ps", tasks=1, gpus=0, cpus=4, memory_mib=100),
            role("worker", tasks=4, minimum=2, maximum=8, gpus=2, gpu_models=["A100"]),
        ]
    )
    assert job_amounts(asked, {}) == {
        "jobs": 1,
        "gpu_milli": 8000,
        "gpu_milli:a100": 8000,
        "cpu_milli": 8000,
        "memory_mib": 4196,
    }
    assert minimum_sizes(asked) == {"ps": 1, "worker": 2}
    assert job_amounts(asked, {"worker": 2})["gpu_milli"] == 4000


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4), st.integers(0, 3)), max_size=14))
def test_usage_is_always_what_the_live_tasks_hold(actions):
    """Submit and run, cancel, finish, or lose a node, in any order: the running sum equals the sum from scratch."""
    world = World(node("n1"), node("n2"), groups=[group("a"), group("a/b"), group("c")])
    running = []
    for where, gpus, what in actions:
        path = {"a": "a", "b": "a/b", "c": "c"}[where]
        if what == 0 or not running:
            one = world.submit(gpus=gpus, group=path)
            taken = sum(world.state.use[n].gpu_milli[k] for n in ("n2",) for k in range(8)) // 1000
            if taken + gpus <= 8:
                running.append(world.run(one, "n2"))
        elif what == 1:
            world.cancel(running.pop()).stop_all()
        elif what == 2:
            world.finish(running.pop(0))
        else:
            world.cancel(running[-1])
            running.pop()
        assert recompute(world.state) == {holder: use for holder, use in world.state.usage.items() if use}
    for one in running:
        world.finish(one)
    world.stop_all()
    assert recompute(world.state) == {}
    assert not any(world.state.usage.values())
    assert Ledger(world.state).used(ROOT, "gpu_milli") == 0


def test_a_guarantee_of_cpus_is_no_promise_of_gpus():
    """A CPU guarantee would else take every GPU of the cluster, one CPU for eight of them."""
    ledger = Ledger(World(node(), groups=[group("a", guaranteed={"cpu_milli": 8_000})]).state)
    assert not ledger.within_guarantee(job(9, gpus=4, group="a"), {**gpu_amount(4), "cpu_milli": 4_000})
    assert ledger.within_guarantee(job(9, gpus=0, group="a"), {"cpu_milli": 4_000})


def test_a_group_two_levels_down_keeps_what_it_does_not_lend_from_all_outside():
    groups = [
        group("a", guaranteed=gpu_amount(8)),
        group("a/x", guaranteed=gpu_amount(6), lend_limit=gpu_amount(0)),
        group("b"),
    ]
    ledger = Ledger(World(node("n1"), groups=groups).state)
    assert ledger.fault(job(9, group="b"), gpu_amount(3)) is not None
    assert ledger.fault(job(9, group="b"), gpu_amount(2)) is None
    assert ledger.fault(job(9, group="a/x"), gpu_amount(8)) is None


def test_of_a_group_and_those_below_it_the_more_is_kept():
    groups = [
        group("a", guaranteed=gpu_amount(8), lend_limit=gpu_amount(5)),
        *(group(f"a/{name}", guaranteed=gpu_amount(2), lend_limit=gpu_amount(0)) for name in "xy"),
        group("b"),
    ]
    ledger = Ledger(World(node("n1"), groups=groups).state)
    assert ledger.fault(job(9, group="b"), gpu_amount(5)) is not None
    assert ledger.fault(job(9, group="b"), gpu_amount(4)) is None


def test_what_a_group_below_keeps_is_kept_though_the_group_above_it_uses_as_much():
    groups = [
        group("a", guaranteed=gpu_amount(4), lend_limit=gpu_amount(2)),
        group("a/x", guaranteed=gpu_amount(2), lend_limit=gpu_amount(1)),
        group("b"),
    ]
    world = World(node("n1"), groups=groups)
    world.submit_running(spec(gpus=2, group="a"), "n1")
    ledger = Ledger(world.state)
    assert ledger.fault(job(9, group="b"), gpu_amount(6)) is not None
    assert ledger.fault(job(9, group="b"), gpu_amount(5)) is None


def test_what_all_machines_have_is_added_up_once_however_many_groups_ask(monkeypatch):
    """Of ten thousand machines that takes longer than all else of a round."""
    asked = []
    monkeypatch.setattr(rungs, "node_has", lambda one, _dimension: asked.append(one.id) or 8000)
    groups = [group("a", guaranteed=gpu_amount(2), lend_limit=gpu_amount(0)), *map(group, "bcd")]
    ledger = Ledger(World(node("n1"), node("n2"), groups=groups).state)
    assert all(ledger.fault(job(9, group=path), gpu_amount(1)) is None for path in "bcd")
    assert asked == ["n1", "n2"]


def test_machines_that_take_no_work_are_nothing_that_is_lent():
    world = World(node("n1"), node("n2"), groups=[group("a", guaranteed=gpu_amount(8), lend_limit=gpu_amount(0))])
    lent = world.submit(gpus=8)
    world.tell("admission", DrainSet(node="n2", drained=True, why="", by="a"))
    world.round()
    assert not world.job(lent).tasks
