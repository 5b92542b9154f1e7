"""What a task finds in its environment, and what a user may not put there."""

import inspect
import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.make import World, node, role, spec

import gangline_agent
from gangline_agent import desk, launch
from gangline_agent.environment import Environment, Place, build, role_of
from gangline_agent.runner import Order
from gangline_core import facts as f
from gangline_core.ids import TaskId
from gangline_core.job import GpuShare
from gangline_core.spec import Resources, Role, ServiceClass
from gangline_kit.carrying.environment import enforced_by
from gangline_kit.carrying.orders import orders

PLACE = Place(folder="/data/t", notice_file="/data/t/notice.json", devices=("5", "6"))
AGENT = {"PATH": "/bin", "HOME": "/u/ada", "GANGLINE_TOKEN": "secret", "AWS_SECRET_ACCESS_KEY": "secret"}


def gang(*, env: Mapping[str, str] | None = None, elastic: bool = False) -> list[Order]:
    world = World(node("n1", address="10.0.0.1"), node("n2", address="10.0.0.2"), at=1_000_000)
    worker = role(tasks=3, gpus=2, cpus=2, maximum=6 if elastic else None)
    asked = spec(
        "llm", roles=[replace(role("ps", tasks=1, gpus=0), environment={}), replace(worker, environment=env or {})]
    )
    job = world.submit(asked)
    world.place(job, "n1", "n1", "n2", "n2")
    return orders(world.state, [TaskId(name) for name in world.job(job).tasks])


def built(order: Order, place: Place = PLACE) -> Environment:
    return build(order, role_of(order), place, AGENT)


def test_a_member_finds_its_gang_in_the_words_of_the_frameworks() -> None:
    values = built(gang()[3]).values
    assert {name: values[name] for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")} == {
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "29500",
        "RANK": "3",
        "WORLD_SIZE": "4",
    }
    assert (values["LOCAL_RANK"], values["LOCAL_WORLD_SIZE"], values["GROUP_RANK"]) == ("1", "2", "1")
    assert (values["PET_NNODES"], values["PET_NPROC_PER_NODE"], values["PET_NODE_RANK"]) == ("4", "2", "3")
    assert (values["JAX_COORDINATOR_ADDRESS"], values["JAX_NUM_PROCESSES"]) == ("10.0.0.1:29500", "4")
    assert "PET_RDZV_BACKEND" not in values


def test_an_elastic_job_meets_with_a_range_of_sizes() -> None:
    values = built(gang(elastic=True)[1]).values
    assert (values["PET_NNODES"], values["PET_RDZV_BACKEND"]) == ("4:7", "c10d")
    assert values["PET_RDZV_ENDPOINT"] == "10.0.0.1:29500"


def test_a_gang_of_tensorflow_roles_finds_its_cluster() -> None:
    config = json.loads(built(gang()[2]).values["TF_CONFIG"])
    assert config["task"] == {"type": "worker", "index": 1}
    members = [member.split(":") for role in ("ps", "worker") for member in config["cluster"][role]]
    assert [host for host, _ in members] == ["10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2"]
    assert len({port for _, port in members}) == 4


def test_tensorflow_gangs_on_one_machine_do_not_listen_where_others_do() -> None:
    world = World(node("n1", gpus=8), node("n2", gpus=8))
    jobs = [world.submit(spec(tasks=4, gpus=1)) for _ in range(4)]
    world.settle(starts=False)
    listens, meets = list[str](), set[str]()
    for job in jobs:
        order = orders(world.state, [world.tasks(job)[0].id])[0]
        config = json.loads(built(order).values["TF_CONFIG"])
        ports = [member.rpartition(":")[2] for member in config["cluster"]["worker"]]
        listens += [f"{member.node}:{port}" for member, port in zip(order.gang, ports, strict=True)]
        meets.add(order.task.endpoint.rpartition(":")[2])
    assert len(listens) == len(set(listens)) == 16
    assert not meets & {one.rpartition(":")[2] for one in listens}


def test_a_member_of_a_very_large_gang_can_be_started_at_all() -> None:
    """Linux starts no program with a longer variable than this."""
    longest = 128 << 10
    world = World(*(node(f"machine-{number}", gpus=8) for number in range(500)))
    job = world.submit(spec("llm", tasks=4_000, gpus=1))
    world.settle(starts=False)
    (order,) = orders(world.state, [world.tasks(job)[7].id])
    values = built(order).values
    assert max(len(f"{name}={value}") for name, value in values.items()) < longest
    assert "TF_CONFIG" not in values
    assert values["WORLD_SIZE"] == "4000"


def test_a_member_still_counts_those_that_ended_before_it_started() -> None:
    order = gang()[3]
    late = replace(order, gang=order.gang[2:])
    assert built(late).values["WORLD_SIZE"] == "4"


def test_gpus_are_named_as_the_driver_names_them_and_none_means_none() -> None:
    values = built(gang()[1]).values
    assert (values["CUDA_VISIBLE_DEVICES"], values["CUDA_DEVICE_ORDER"]) == ("5,6", "PCI_BUS_ID")
    assert built(gang()[1]).values["NVIDIA_VISIBLE_DEVICES"] == "5,6"
    without = built(gang()[0], replace(PLACE, devices=())).values
    assert (without["CUDA_VISIBLE_DEVICES"], without["NVIDIA_VISIBLE_DEVICES"]) == ("", "void")


def test_gangline_says_who_and_where_the_task_is() -> None:
    values = built(gang()[2]).values
    assert values["GANGLINE_JOB_NAME"] == "llm"
    assert values["GANGLINE_TASK_ID"] == "1-1-worker-1"
    assert (values["GANGLINE_ROLE_NAME"], values["GANGLINE_ROLE_INDEX"], values["GANGLINE_ROLE_SIZE"]) == (
        "worker",
        "1",
        "3",
    )
    assert (values["GANGLINE_NODE"], values["GANGLINE_NODES"]) == ("n2", "n1,n2")
    assert values["GANGLINE_NODE_ADDRESSES"] == "10.0.0.1,10.0.0.2"
    assert values["GANGLINE_TASK_NOTICE_FILE"] == "/data/t/notice.json"


def test_nothing_of_the_agents_own_environment_leaks_but_a_few_harmless_names() -> None:
    values = built(gang()[1]).values
    assert (values["PATH"], values["HOME"]) == ("/bin", "/u/ada")
    assert "secret" not in values.values()


def test_a_user_sets_what_is_the_users() -> None:
    made = built(gang(env={"MODE": "LIVE", "PATH": "/opt/bin", "NCCL_DEBUG": "INFO"})[1])
    assert (made.values["MODE"], made.values["PATH"], made.values["NCCL_DEBUG"]) == ("LIVE", "/opt/bin", "INFO")
    assert made.notes == ()


@pytest.mark.parametrize(
    "name",
    [
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "RANK",
        "GANGLINE_JOB_ID",
        "PET_NNODES",
        "NVIDIA_DRIVER_CAPABILITIES",
        "TF_CONFIG",
    ],
)
def test_a_user_cannot_set_what_is_the_schedulers_and_is_told(name: str) -> None:
    made = built(gang(env={name: "7"})[1])
    assert made.values.get(name) != "7"
    assert made.notes == (f"{name} of the job's environment was left out: the scheduler sets it",)


@pytest.mark.parametrize("name", ["LD_PRELOAD", "A=1; touch /tmp/x #", "1A", "", "A B"])
def test_what_would_load_code_or_is_no_name_is_left_out_with_a_note(name: str) -> None:
    made = built(gang(env={name: "x"})[1])
    assert name not in made.values
    assert len(made.notes) == 1


def test_the_readme_lists_exactly_the_names_that_are_set() -> None:
    readme = (Path(gangline_agent.__file__).parent / "README.md").read_text()
    own = {name for name in built(gang()[1]).values if name.startswith("GANGLINE_")}
    at_launch = set(re.findall(r'"(GANGLINE_[A-Z_]+)":', inspect.getsource(launch) + inspect.getsource(desk)))
    assert at_launch, "the files and the desk of a task have names, too"
    assert own | at_launch == set(re.findall(r"`(GANGLINE_(?:JOB|TASK|ROLE|NODE|GROUP|POOL)[A-Z_]*)`", readme))


def shared(*, mps: bool, **fields) -> dict[str, str]:
    world = World(node("n1", gpus=1, gpu_memory_mib=40_960))
    job = world.submit(spec(gpus=0.25, gpu_memory_mib=10_000, **fields))
    world.place(job, "n1")
    [order] = orders(world.state, [TaskId(name) for name in world.job(job).tasks])
    return built(order, replace(PLACE, devices=("5",), has_mps=mps)).values


def test_a_share_is_held_to_its_part_where_mps_serves_the_gpu_and_only_there() -> None:
    values = shared(mps=True)
    assert values["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "25"
    assert values["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=10000M"
    assert not [name for name in shared(mps=False) if name.startswith("CUDA_MPS_")]
    assert not [name for name in built(gang()[1], replace(PLACE, has_mps=True)).values if name.startswith("CUDA_MPS_")]


def beside(limit_percent: int, **needs) -> dict[str, str]:
    needs = Resources(cpu_milli=1000, **needs)
    world = World(node("n1", gpus=1, gpu_memory_mib=40_960))
    worker = Role(name="worker", count=1, min_count=1, max_count=1, command=("x",), resources=needs)
    job = world.submit(spec(roles=[worker], service_class=ServiceClass.OPPORTUNISTIC))
    world.settle(starts=False)
    world.tell("elastic.default", f.LimitSet(job=job, percent=limit_percent))
    [order] = orders(world.state, [TaskId(name) for name in world.job(job).tasks])
    return built(order, replace(PLACE, has_mps=True)).values


@pytest.mark.parametrize(("limit_percent", "threads"), [(-1, "10"), (0, "10"), (40, "40")])
def test_a_job_beside_others_starts_with_the_limit_that_was_set_and_with_the_first_one_before(
    limit_percent: int, threads: str
) -> None:
    values = beside(limit_percent, beside=True, gpu_memory_mib=8_000)
    assert values["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == threads
    assert values["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=8000M"


def test_who_has_all_time_of_a_gpu_and_not_all_of_its_memory_is_held_to_that() -> None:
    values = beside(-1, gpu_milli=1000, gpu_memory_most_mib=30_000)
    assert values["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=30000M"
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in values
    assert values["GANGLINE_TASK_GPU_LIMITS"] == "mps"


def test_a_task_is_told_what_holds_it_to_its_part() -> None:
    assert shared(mps=True)["GANGLINE_TASK_GPU_LIMITS"] == "mps"
    assert shared(mps=False)["GANGLINE_TASK_GPU_LIMITS"] == "accounting"
    world = World(node("n1", gpus=1))
    for gpus, word in ((1, "whole"), (0, "nothing")):
        job = world.submit(spec(gpus=gpus))
        world.place(job, "n1")
        [order] = orders(world.state, [TaskId(name) for name in world.job(job).tasks])
        assert built(order).values["GANGLINE_TASK_GPU_LIMITS"] == word
    task = world.state.kept.tasks[world.job(job).tasks[0]]
    slice_ = replace(task, gpus=(GpuShare(index=0, milli=428, memory_mib=20_000, slots=7),))
    assert enforced_by(slice_, PLACE) == "mig"


def test_mps_serves_where_its_pipe_stands(tmp_path: Path) -> None:
    around = {"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)}
    assert not launch.mps_serves(around)
    (tmp_path / "control").touch()
    assert launch.mps_serves(around)
