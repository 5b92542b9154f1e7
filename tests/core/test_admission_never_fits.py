"""What no machine of the pool can ever hold is refused at the door, naming the number that is too large."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.make import World, gpu_amount, group, node, role, spec

from gangline_core import facts as f
from gangline_core.cluster import Pool
from gangline_core.door.admission import Judgement, judge_submit
from gangline_core.door.draft import Draft
from gangline_core.groups import User
from gangline_core.reasons import ReasonCode, hint, sentence


def ask(world: World, *specs) -> Judgement:
    return judge_submit(world.state, Draft(), specs=specs, submit_id="one", by="ada", trace="t", at=world.at)


def refusal(world: World, **fields) -> tuple[ReasonCode, str, str]:
    ((index, reason, field),) = ask(world, spec(**fields)).refusals
    assert index == 0
    return reason.code, sentence(reason), field


def test_a_job_larger_than_its_limit_is_refused_naming_the_number():
    """A07 and C02: at its smallest size, so that an elastic job that can start is let in."""
    world = World(
        node(gpus=16),
        groups=[group("q", limit={"gpu_milli": 4000, "cpu_milli": 8000})],
        users=[User(name="ada", group="q", limit=gpu_amount(2))],
    )
    assert refusal(world, user="ada", group="q", gpus=1, tasks=3) == (
        ReasonCode.NEVER_FITS_LIMIT,
        "The job needs 3 GPUs; the limit of user ada is 2.",
        "roles[0].gpus",
    )
    world.tell("admission", f.UserSet(user=User(name="ada", group="q"), by="admin"))
    assert refusal(world, group="q", gpus=1, tasks=6)[1] == "The job needs 6 GPUs; the limit of group q is 4."
    assert refusal(world, group="q", gpus=0, cpus=9)[1] == "The job needs 9 CPUs; the limit of group q is 8."
    assert ask(world, spec(group="q", gpus=1, tasks=6, minimum=4, maximum=6)).jobs
    world.tell("admission", f.GroupSet(group=group("q", limit=gpu_amount(6)), by="admin"))
    assert ask(world, spec(group="q", gpus=1, tasks=6)).jobs


def test_one_job_may_ask_for_no_more_than_the_limit_for_one_job():
    world = World(node(gpus=16), groups=[group("q", job_limit=gpu_amount(4))])
    assert refusal(world, group="q", gpus=1, tasks=2, minimum=1, maximum=8)[1] == (
        "The job needs 8 GPUs; the limit of group q for one job is 4."
    )
    assert ask(world, spec(group="q", gpus=2, tasks=2)).jobs


def test_a_limit_on_one_model_binds_jobs_that_accept_only_it():
    world = World(node(model="H100"), node("n2", model="T4"), groups=[group("q", limit={"gpu_milli:H100": 4000})])
    assert "4" in refusal(world, group="q", gpus=8, gpu_models=["h100"])[1]
    assert ask(world, spec(group="q", gpus=8)).jobs


@pytest.mark.parametrize(
    ("fields", "said", "field"),
    [
        ({"gpus": 9}, "One task needs 9 GPUs; the largest node has 8.", "roles[0].gpus"),
        ({"gpus": 1, "cpus": 65}, "One task needs 65 CPUs; the largest node has 64.", "roles[0].cpus"),
        (
            {"gpus": 0, "cpus": 1, "memory_mib": 600_000},
            "One task needs 600000 MiB of memory; the largest node has 524288.",
            "roles[0].memory",
        ),
        (
            {"gpus": 1, "gpu_memory_mib": 90_000},
            "One task needs 90000 MiB of memory on one GPU; the largest node has 81920.",
            "roles[0].gpu_memory",
        ),
        (
            {"gpus": 0.5, "gpu_memory_mib": 90_000},
            "One task needs 90000 MiB of memory on one GPU; the largest node has 81920.",
            "roles[0].gpu_memory",
        ),
        (
            {"gpus": 5, "gpu_memory_mib": 50_000},
            "One task needs 5 GPUs with so much memory; the largest node has 4.",
            "roles[0].gpus",
        ),
        ({"gpus": 1, "gpu_models": ["L4"]}, "The job needs 1 GPU of model L4; the pool has 0.", "roles[0].gpu_models"),
        (
            {"gpus": 4, "tasks": 2, "gpu_models": ["h100"]},
            "The job needs 8 GPUs of model h100; the pool has 4.",
            "roles[0].gpu_models",
        ),
        (
            {"gpus": 8, "tasks": 3},
            "The job needs 3 places for tasks of 8 GPUs (role worker); the pool has 2.",
            "roles[0].tasks",
        ),
        (
            {"gpus": 1, "devices": {"rdma": 2}},
            "One task needs 2 rdma; the largest node has 1.",
            "roles[0].devices.rdma",
        ),
        (
            {"gpus": 4, "gpu_models": ["H100"], "cpus": 40},
            "One task needs 40 CPUs beside the rest of what it asks for; the largest node has 32.",
            "roles[0].cpus",
        ),
    ],
)
def test_a_job_no_machine_can_ever_hold_is_refused_naming_the_number(fields, said, field):
    world = World(
        node("a1", devices={"rdma": 1}), node("a2"), node("h1", model="H100", gpus=4, gpu_memory_mib=81_920, cpus=32)
    )
    _, told, where = refusal(world, **fields)
    assert (told, where) == (said, field)


def test_who_asks_by_memory_where_no_gpu_is_reads_of_memory():
    world = World(node(gpus=0))
    told = "One task needs 16384 MiB of memory on one GPU; the largest node has 0."
    assert refusal(world, gpus=0, gpu_memory_mib=16384) == (ReasonCode.NEVER_FITS_NODE, told, "roles[0].gpu_memory")
    assert refusal(world, gpus=0.5, gpu_memory_mib=16384)[1] == "One task needs 0.5 GPUs; the largest node has 0."


def test_models_match_exactly_and_not_by_their_beginning():
    """I01: 16 of one type is not 24 of any."""
    world = World(node("n1", model="h200"), node("n2", model="h200"), node("n3", model="h100"))
    assert refusal(world, gpus=8, tasks=2, gpu_models=["h100"])[1] == (
        "The job needs 16 GPUs of model h100; the pool has 8."
    )
    assert ask(world, spec(gpus=8, tasks=2, gpu_models=["H200"])).jobs
    assert ask(world, spec(gpus=8, tasks=3)).jobs
    assert refusal(world, gpus=1, gpu_models=["h1"])[0] == ReasonCode.NEVER_FITS_MODEL


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (["H10O"], "Did you mean h100? Accept more GPU models"),
        (["v1000", "h20"], "Did you mean v100 or h200? Accept more GPU models"),
        (["mi300x"], "Accept more GPU models"),
        (["h200"], "Accept more GPU models"),
    ],
)
def test_a_model_that_is_spelled_wrong_is_answered_with_the_one_that_was_meant(asked, told):
    world = World(node("n1", model="H100"), node("n2", model="H200"), node("n3", model="V100"))
    ((_, reason, _),) = ask(world, spec(gpus=8, tasks=4, gpu_models=asked)).refusals
    assert hint(reason, job=1).startswith(told)


def test_all_roles_together_must_fit():
    world = World(node())
    roles = [role("ps", gpus=0, cpus=40), role("worker", tasks=2, gpus=1, cpus=20)]
    ((_, reason, field),) = ask(world, spec(roles=roles)).refusals
    assert sentence(reason) == "The job needs 80 CPUs; the pool has 64."
    assert field == "roles"


def test_only_gpus_that_some_role_may_use_count_for_all_roles_together():
    """Cards that are cut, and models that nobody asked for, were counted: the job waited for ever."""
    cut = node("cut", gpus=2)
    cut = replace(cut, gpus=tuple(replace(gpu, mig="a100-40gb") for gpu in cut.gpus))
    world = World(cut, node("old", gpus=1, model="V100"), node("new", gpus=1, model="H100"))
    two = [role("a", gpus=1), role("b", gpus=1)]
    three = [*two, role("c", gpus=1)]
    assert ask(world, spec(roles=two)).jobs
    assert refusal(world, roles=three)[1] == "The job needs 3 GPUs; the pool has 2."
    picky = [role(name, gpus=1, gpu_models=["V100"]) for name in "ab"]
    assert refusal(world, roles=picky)[1] == "The job needs 2 GPUs; the pool has 1."


def test_shares_of_gpus_are_counted_in_whole_shares():
    """H01 in small: two thirds of each of two GPUs stay empty; no share is cut in two."""
    world = World(node(gpus=2, gpu_memory_mib=10_000))
    assert ask(world, spec(gpus=0, gpu_memory_mib=4_000, tasks=4)).jobs
    assert refusal(world, gpus=0, gpu_memory_mib=4_000, tasks=5)[1].endswith("the pool has 4.")
    assert ask(world, spec(gpus=0.4, tasks=4)).jobs
    assert refusal(world, gpus=0.4, tasks=5)[0] == ReasonCode.NEVER_FITS_CLUSTER


def test_bytes_that_would_wrap_are_compared_as_they_are():
    """M02: a memory of 2^32 units is refused, not read as 0."""
    world = World(node(gpus=1))
    for amount in (16 * 2**30, 2**31, 2**32, 2**32 + 1):
        assert refusal(world, gpus=0, gpu_memory_mib=amount)[0] == ReasonCode.NEVER_FITS_NODE
    assert ask(world, spec(gpus=0, gpu_memory_mib=16_384)).jobs


def test_a_required_level_must_be_able_to_hold_the_gang():
    racks = {"topology.gangline.dev/rack": "r1"}, {"topology.gangline.dev/rack": "r2"}
    world = World(
        node("n1", labels=racks[0], islands=[0, 0, 0, 0, 1, 1, 1, 1]),
        node("n2", labels=racks[0], islands=[0, 0, 0, 0, 1, 1, 1, 1]),
        node("n3", labels=racks[1]),
        node("n4", gpus=16, cpus=8, islands=range(16)),
    )
    assert ask(world, spec(gpus=8, tasks=2, topology="rack")).jobs
    assert refusal(world, gpus=8, tasks=3, topology="rack") == (
        ReasonCode.NEVER_FITS_TOPOLOGY,
        "The job needs 24 GPUs inside one rack; the largest has 16.",
        "topology.required",
    )
    assert ask(world, spec(gpus=2, tasks=4, topology="node", cpus=2)).jobs
    assert refusal(world, gpus=2, tasks=9, topology="node")[0] == ReasonCode.NEVER_FITS_TOPOLOGY
    assert ask(world, spec(gpus=8, topology="nvlink")).jobs, "n3 is one island"
    assert refusal(world, gpus=1, tasks=9, topology="nvlink")[1].endswith("inside one nvlink; the largest has 8.")
    assert refusal(world, gpus=1, topology="galaxy")[1].endswith("the largest has 0.")
    assert refusal(world, gpus=1, tasks=2, topology="block")[1].endswith("the largest has 0.")


def test_machines_that_are_away_still_count_and_labels_may_still_come():
    world = World(node("n1"), node("n2", gpus=16, taints=["maintenance"]))
    world.tell("admission", f.DrainSet(node="n2", drained=True, by="admin"))
    world.tell("telemetry", f.NodeLost(node="n2", silent_ms=1))
    world.tell("telemetry", f.GpuFailed(node="n1", gpu=0, problem="fell off"))
    assert ask(world, spec(gpus=16)).jobs
    assert ask(world, spec(gpus=8, node_selector={"zone": "a"})).jobs
    assert refusal(world, gpus=17)[0] == ReasonCode.NEVER_FITS_NODE


def test_a_pool_without_machines_refuses_nothing_for_its_size():
    world = World()
    assert ask(world, spec(gpus=1000)).jobs
    world.tell("admission", f.PoolSet(pool=Pool(name="empty"), by="admin"))
    world.see(node("n1"))
    assert ask(world, spec(gpus=1000, pool="empty")).jobs
    assert refusal(world, gpus=1000)[0] == ReasonCode.NEVER_FITS_NODE


def test_a_pool_that_grows_refuses_nothing_for_its_size():
    world = World(node(gpus=8))
    assert refusal(world, gpus=8, tasks=4)[0] == ReasonCode.NEVER_FITS_CLUSTER
    world.tell("admission", f.PoolSet(pool=Pool(name="default", grows=True), by="admin"))
    assert ask(world, spec(gpus=8, tasks=4), spec(gpus=16)).jobs


def test_a_new_machine_is_seen_at_once():
    world = World(node("n1", gpus=4))
    assert refusal(world, gpus=8)[0] == ReasonCode.NEVER_FITS_NODE
    world.see(node("n2", gpus=8))
    assert ask(world, spec(gpus=8)).jobs


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_what_fits_the_empty_machines_is_never_refused_for_its_size(data):
    """Soundness: put tasks on machines by hand; the job that asks for exactly them must be let in."""
    machines = [
        node(f"n{k}", gpus=data.draw(st.integers(0, 4)), model=data.draw(st.sampled_from(["A", "B"])), cpus=8)
        for k in range(data.draw(st.integers(1, 4)))
    ]
    world = World(*machines)
    machine = data.draw(st.sampled_from(machines))
    gpus = data.draw(st.integers(0, len(machine.gpus)))
    tasks = min(len(machine.gpus) // gpus if gpus else 8, 8) or 1
    cpus = 8 // tasks
    models = data.draw(st.sampled_from([(), ("A", "B"), (machine.gpus[0].model,) if machine.gpus else ()]))
    asked = spec(gpus=gpus, tasks=tasks, cpus=cpus, gpu_models=models if gpus else (), topology="node")
    judgement = ask(world, asked)
    assert judgement.jobs, [sentence(reason) for _, reason, _ in judgement.refusals]


def test_all_roles_together_need_places_on_machines_that_can_hold_them():
    """Each role has places alone, but the one machine with GPUs for them takes three tasks at once."""
    world = World(node("gpus", gpus=8), node("cpus", gpus=0)).set_policy(node_tasks_max=3)
    assert ask(world, spec(roles=[role("a", gpus=1), role("b", tasks=2, gpus=1)])).jobs
    told = refusal(world, roles=[role("a", gpus=1), role("b", tasks=3, gpus=1)])[1]
    assert told == "The job needs 4 places for tasks (all roles); the pool has 3."


def test_a_node_of_two_models_has_for_one_task_as_many_as_of_one_model():
    made = node(gpus=8)
    mixed = replace(made, gpus=tuple(replace(gpu, model="H100") if gpu.index > 3 else gpu for gpu in made.gpus))
    code, told, field = refusal(World(mixed), gpus=8)
    assert (code, field) == (ReasonCode.NEVER_FITS_NODE, "roles[0].gpus")
    assert told == "One task needs 8 GPUs; the largest node has 4 of one model."
    assert ask(World(mixed), spec(gpus=4)).jobs


def test_an_elastic_role_whose_least_is_too_many_is_told_so_of_one_gpu_each():
    told = refusal(World(node("n1")), tasks=20, minimum=9, maximum=30, gpus=1)[1]
    assert told == "The job needs 9 places for tasks of 1 GPU (role worker); the pool has 8."
