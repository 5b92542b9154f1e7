"""GPUs of other machines: chosen by bandwidth and load, reserved with their part of the network, never forgotten."""

import pytest
from tests.make import SECOND, World, node

from gangline_agent.simulated import script
from gangline_core import facts as f
from gangline_core.job import JobState, TaskState
from gangline_core.reasons import sentence
from gangline_core.room.remote import NIC, REMOTE_GPU, slowdown_milli
from gangline_kit.carrying.environment import Place, build, role_of
from gangline_kit.carrying.orders import orders
from gangline_wire.jobfile import JobFileError, parse_job


def host(name: str, *, gpus: int = 2, mbps: int = 20_000):
    return node(name, gpus=gpus, devices={REMOTE_GPU: gpus, NIC: mbps}, address=f"{name}.local")


def client_node(name: str = "c1", mbps: int = 25_000):
    return node(name, gpus=0, devices={NIC: mbps})


def asked(**more):
    remote = {"gpus": 2, "bandwidth": "10Gbps", **more.pop("remote", {})}
    return parse_job({"command": ["train"], "cpus": 2, "user": "ada", "remote": remote, **more})


def loaded(world: World, name: str, percent: int) -> None:
    fact = f.UtilisationSummary(node=name, gpu_percent=percent, memory_mib=None, samples=60)
    world.tell("telemetry", fact)


def servers(world: World, job: int) -> list[str]:
    return [task.node for task in world.tasks(job) if task.role == "worker-gpus"]


def test_a_task_without_gpus_gets_a_server_for_each_gpu_it_asked_for() -> None:
    spec = asked(tasks=2)
    client, server = spec.roles
    assert (client.resources.gpu_milli, client.resources.devices) == (0, {NIC: 10_000})
    assert (server.count, server.serves, server.resources.devices) == (4, "worker", {REMOTE_GPU: 1, NIC: 5_000})


@pytest.mark.parametrize(
    "more", [{"gpus": 1}, {"min": 1, "max": 4}, {"remote": {"bandwidth": "10"}}, {"remote": {"gpus": 0}}]
)
def test_what_makes_no_sense_is_said(more) -> None:
    with pytest.raises(JobFileError):
        asked(**more)


def test_servers_go_where_most_bandwidth_is_left_and_of_equal_machines_to_the_least_busy() -> None:
    world = World(client_node(), host("a", mbps=10_000), host("b"), host("c"))
    loaded(world, "b", 70)
    loaded(world, "c", 20)
    job = world.submit(asked(remote={"gpus": 1, "bandwidth": "5Gbps"}))
    world.settle()
    assert servers(world, job) == ["c"]
    other = world.submit(asked(remote={"gpus": 1, "bandwidth": "5Gbps"}))
    world.settle()
    assert servers(world, other) == ["b"], "c has less of its network left now"


def test_a_machine_whose_load_nobody_knows_is_not_taken_for_idle() -> None:
    world = World(client_node(), host("a"), host("b"))
    loaded(world, "b", 90)
    job = world.submit(asked(remote={"gpus": 1}))
    world.settle()
    assert servers(world, job) == ["b"]


def test_bandwidth_is_reserved_at_both_ends_and_without_it_the_job_waits() -> None:
    world = World(client_node(mbps=15_000), host("a", mbps=10_000), host("b", mbps=10_000))
    first, second = world.submit(asked()), world.submit(asked())
    world.settle()
    assert (world.job(first).state, world.job(second).state) == (JobState.RUNNING, JobState.WAITING)
    assert world.state.use["c1"].devices[NIC] == 10_000
    world.finish(first)
    assert NIC not in {name for name, amount in world.state.use["c1"].devices.items() if amount}


def test_machines_that_offer_nothing_serve_nobody() -> None:
    world = World(client_node(), node("a", gpus=4, devices={NIC: 100_000}))
    job = world.submit(asked())
    world.settle()
    assert world.job(job).state == JobState.WAITING


def test_the_client_finds_its_own_gpus_and_the_gang_does_not_count_their_servers() -> None:
    world = World(client_node(mbps=40_000), host("a", gpus=4, mbps=100_000))
    job = world.submit(asked(tasks=2))
    world.settle()
    found = {}
    for order in orders(world.state, world.job(job).tasks):
        values = build(order, role_of(order), Place(folder="/t", notice_file="/t/n", devices=()), {}).values
        found[order.task.role, order.task.index] = values
    first, second = found["worker", 0], found["worker", 1]
    assert (first["RCUDA_DEVICE_COUNT"], second["RCUDA_DEVICE_COUNT"]) == ("2", "2")
    places = [values[f"RCUDA_DEVICE_{k}"] for values in (first, second) for k in (0, 1)]
    assert sorted(places) == [f"a.local@{8308 + k}:0" for k in range(4)]
    assert (first["WORLD_SIZE"], second["RANK"]) == ("2", "1")
    ports = {values["GANGLINE_REMOTE_PORT"] for (role, _), values in found.items() if role == "worker-gpus"}
    assert ports == {"8308", "8309", "8310", "8311"}


def test_the_servers_stop_when_their_clients_have_ended() -> None:
    world = World(client_node(), host("a"))
    job = world.submit(asked())
    world.settle()
    [client] = [task.id for task in world.tasks(job) if task.role == "worker"]
    world.exit(client)
    assert world.job(job).state == JobState.STOPPING
    world.empty(client).stop_all()
    assert world.job(job).state == JobState.SUCCEEDED


def test_a_server_that_ends_by_itself_fails_its_gang_however_well_it_ended() -> None:
    world = World(client_node(), host("a"))
    job = world.submit(asked())
    world.settle()
    server = next(task.id for task in world.tasks(job) if task.role != "worker")
    world.exit(server).empty(server).stop_all()
    assert (world.job(job).state, sentence(world.job(job).reason)) == (
        JobState.FAILED,
        f"Task {server} exited with code 0.",
    )


@pytest.mark.parametrize("mbps", [12_000, 15_000, 20_000])
def test_where_clients_and_servers_share_machines_a_way_is_found_beside_the_widest_first(mbps: int) -> None:
    world = World(host("a", mbps=mbps), host("b", mbps=mbps))
    job = world.submit(asked())
    world.settle()
    assert world.job(job).state == JobState.RUNNING
    assert all(use.devices.get(NIC, 0) <= mbps for use in world.state.use.values())


def test_a_lost_host_takes_the_gang_back_to_the_queue_whole() -> None:
    world = World(client_node(), host("a"), host("b"))
    job = world.submit(asked())
    world.settle()
    lost = servers(world, job)[0]
    world.tell("telemetry", f.NodeLost(node=lost, silent_ms=30_000))
    world.stop_all()
    world.settle()
    assert world.job(job).state == JobState.RUNNING
    assert lost not in servers(world, job)
    assert all(task.state == TaskState.STARTED for task in world.tasks(job))


def test_work_takes_longer_by_its_calls_and_its_copies() -> None:
    calls = asked(attributes={"remote_calls_per_s": 2_000, "remote_rtt_us": 100})
    assert slowdown_milli(calls) == 1200
    copies = asked(attributes={"remote_mib_per_s": 1_192.0929})
    assert slowdown_milli(copies) == 2000, "10 Gbit/s carry 1,192 MiB in a second"
    assert slowdown_milli(asked()) == 1000
    world = World(client_node())
    job = world.job(
        world.submit(asked(attributes={"run_time_s": 100, "remote_calls_per_s": 2_000, "remote_rtt_us": 100}))
    )
    assert script(job, speed=1.0).lasts_s == 120 * SECOND / 1000
