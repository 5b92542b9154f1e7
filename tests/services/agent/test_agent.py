"""Agents on a real bus: gangs across machines, restarts, lost buses, fleets."""

import asyncio
import os
import select
import signal
import time
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.patience import LONG_S
from tests.services.agent.cluster import agent_process, asks, cluster

from gangline_core import facts as f
from gangline_core.ids import NodeId
from gangline_core.job import JobState, TaskState
from gangline_core.reasons import ReasonCode
from gangline_kit.nats_server import NatsUser
from gangline_wire import subjects
from gangline_wire.codec import decode, encode
from gangline_wire.rights import rights
from gangline_wire.samples import Samples
from gangline_wire.streams import SECRETS

pytestmark = pytest.mark.bus

MEETING = """
import os, socket
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if rank == 0:
    server = socket.create_server(address)
    guests = [server.accept()[0] for _ in range(size - 1)]
    names = sorted(guest.recv(100).decode() for guest in guests)
    for guest in guests:
        guest.sendall(b"all here")
    print("met", *names)
else:
    import time
    for attempt in range(2000):
        try:
            door = socket.create_connection(address)
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    door.sendall(f"{rank}@{os.environ['GANGLINE_NODE']}".encode())
    print(door.recv(100).decode())
"""


def py(code: str) -> tuple[str, ...]:
    return ("/usr/bin/env", "python3", "-c", code)


async def test_a_gang_across_two_agents_meets_over_the_network(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made, made.agent("one", tmp_path), made.agent("two", tmp_path):
        job = await made.start(asks(*py(MEETING), tasks=4), "one", "two")
        assert await made.ended(job) == JobState.SUCCEEDED
        assert await made.output(job, f"{job}-1-worker-0") == "met 1@two 2@one 3@two\n"
        assert await made.output(job, f"{job}-1-worker-3") == "all here\n"
        assert not made.state.kept.tasks
        assert made.state.usage.get("", {}) == {}


async def test_output_is_whole_by_the_time_the_job_has_ended(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made, made.agent("one", tmp_path):
        job = await made.start(asks("/usr/bin/seq", "1", "1000"), "one")
        assert await made.ended(job) == JobState.SUCCEEDED
        assert await made.output(job, f"{job}-1-worker-0") == "".join(f"{k}\n" for k in range(1, 1001))


async def test_a_cancelled_job_stops_and_gives_its_room_back(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made, made.agent("one", tmp_path):
        job = await made.start(asks("/bin/sleep", "1000"), "one")
        await made.until(lambda: made.job(job).state == JobState.RUNNING)
        await made.tell("admission", f.CancelRequested(job=job, by="ada"))
        assert await made.ended(job) == JobState.CANCELLED
        assert not made.state.kept.tasks


async def test_a_failing_program_is_told_with_its_code_and_a_missing_one_with_its_name(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made, made.agent("one", tmp_path):
        bad = await made.start(asks("/bin/sh", "-c", "exit 9"), "one")
        gone = await made.start(asks("no-such-thing"), "one")
        assert await made.ended(bad) == JobState.FAILED
        assert made.job(bad).exit_code == 9
        assert await made.ended(gone) == JobState.FAILED
        reason = made.job(gone).reason
        assert reason is not None
        assert reason.code == ReasonCode.START_FAILED
        assert "no-such-thing" in str(reason.numbers["error"])


async def test_a_killed_agent_loses_and_doubles_nothing(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    program = f"echo started >> {starts}; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; echo done; exit 3"
    async with cluster(tmp_path) as made:
        agent = await agent_process(made.server.url, "one", tmp_path / "agents")
        job = await made.start(asks("/bin/sh", "-c", program), "one")
        await made.until(lambda: made.job(job).state == JobState.RUNNING)
        agent.kill()
        await agent.wait()
        (tmp_path / "go").touch()
        agent = await agent_process(made.server.url, "one", tmp_path / "agents")
        assert await made.ended(job) == JobState.FAILED
        assert made.job(job).exit_code == 3
        assert await made.output(job, f"{job}-1-worker-0") == "done\n"
        agent.terminate()
        await agent.wait()
        assert starts.read_text() == "started\n"
        assert made.count(f.TaskStarted) == 1
        assert made.count(f.TaskExited) == 1


async def test_an_agent_killed_between_placement_and_start_starts_once(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    async with cluster(tmp_path) as made:
        agent = await agent_process(made.server.url, "one", tmp_path / "agents")
        for round_number in range(3):
            program = f"echo {round_number} >> {starts}; sleep 0.2"
            job = await made.start(asks("/bin/sh", "-c", program, tasks=8), "one")
            # Each time a little later on the way from order to running program, with tasks at every stage of it.
            await asyncio.sleep(0.03 * round_number)
            agent.kill()
            await agent.wait()
            agent = await agent_process(made.server.url, "one", tmp_path / "agents")
            assert await made.ended(job) == JobState.SUCCEEDED
        agent.terminate()
        await agent.wait()
        assert sorted(starts.read_text().split()) == [str(k) for k in range(3) for _ in range(8)]
        assert made.count(f.TaskStarted) == 24


async def test_an_agent_elsewhere_needs_no_more_than_its_own_rights(tmp_path: Path) -> None:
    allowed = rights("agent")
    agent_user = NatsUser(name="agent", password="guest", publish=allowed.publish, subscribe=allowed.subscribe)
    platform = NatsUser(name="platform", password="host")
    async with cluster(tmp_path, users=(platform, agent_user)) as made:
        agent = await agent_process(
            made.server.url,
            "far",
            tmp_path / "agents",
            GANGLINE_NATS_USER="agent",
            GANGLINE_NATS_PASSWORD="guest",
            GANGLINE_ENSURE="false",
        )
        secrets = made.site.bus.kv(SECRETS.name)
        await secrets.put("1", encode({"API_TOKEN": "s3cr3t-123"}))
        asked = asks(
            "/bin/sh", "-c", "echo $API_TOKEN", env={"API_TOKEN": "{{secret:API_TOKEN}}"}, secrets=("API_TOKEN",)
        )
        job = await made.start(asked, "far")
        assert await made.ended(job) == JobState.SUCCEEDED
        assert await made.output(job, f"{job}-1-worker-0") == "s3cr3t-123\n"
        agent.terminate()
        assert await agent.wait() == 0
    assert "s3cr3t" not in (tmp_path / "agents" / "far.log").read_text()


async def test_cut_off_from_the_bus_an_agent_stops_its_tasks_and_says_so_later(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made, made.agent("one", tmp_path, bus_lost_s=1.0):
        job = await made.start(asks("/bin/sleep", "1000"), "one")
        await made.until(lambda: made.job(job).state == JobState.RUNNING)
        pid = next(fact.pid for fact in made.facts if isinstance(fact, f.TaskStarted))
        await made.server.kill()
        await asyncio.to_thread(wait_until_gone, pid)
        await made.server.start()
        await made.until(lambda: made.count(f.GpusEmpty) == 1)
        (exited,) = [fact for fact in made.facts if isinstance(fact, f.TaskExited)]
        assert exited.cause == f.ExitCause.BUS_LOST
        assert made.job(job).state == JobState.WAITING


async def test_a_short_outage_of_the_bus_harms_nothing(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made, made.agent("one", tmp_path):
        job = await made.start(asks("/bin/sh", "-c", f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done"), "one")
        await made.until(lambda: made.job(job).state == JobState.RUNNING)
        await made.server.kill()
        (tmp_path / "go").touch()
        await asyncio.sleep(0.5)
        await made.server.start()
        assert await made.ended(job) == JobState.SUCCEEDED


async def test_a_node_declared_lost_while_its_agent_lives_stops_its_tasks_and_comes_back(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made, made.agent("one", tmp_path):
        job = await made.start(asks("/bin/sleep", "1000"), "one")
        await made.until(lambda: made.job(job).state == JobState.RUNNING)
        await made.tell("telemetry", f.NodeLost(node=NodeId("one"), silent_ms=30_000))
        assert made.job(job).state == JobState.WAITING
        await made.until(lambda: not made.state.kept.tasks)
        await made.until(lambda: not made.state.kept.nodes[NodeId("one")].lost)


async def test_a_node_that_was_forgotten_while_its_agent_lives_is_there_again_as_a_new_one(tmp_path: Path) -> None:
    """What ran there is ended: whoever said that the machine is gone was wrong."""
    async with cluster(tmp_path) as made, made.agent("one", tmp_path):
        job = await made.start(asks("/bin/sleep", "1000"), "one")
        await made.until(lambda: made.job(job).state == JobState.RUNNING)
        pid = next(fact.pid for fact in made.facts if isinstance(fact, f.TaskStarted))
        (task,) = made.state.kept.tasks
        await made.tell("telemetry", f.NodeLost(node=NodeId("one"), silent_ms=30_000))
        await made.tell("admission", f.NodeForgotten(node=NodeId("one"), by="root", tasks=(task,)))
        await asyncio.to_thread(wait_until_gone, pid)
        await made.until(lambda: NodeId("one") in made.state.kept.nodes)
        assert not made.state.kept.nodes[NodeId("one")].lost


async def test_of_two_agents_with_one_name_only_one_acts(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    async with cluster(tmp_path) as made:
        first = await agent_process(made.server.url, "one", tmp_path / "a")
        second = await agent_process(made.server.url, "one", tmp_path / "b")
        job = await made.start(asks("/bin/sh", "-c", f"echo x >> {starts}", tasks=3), "one")
        assert await made.ended(job) == JobState.SUCCEEDED
        assert starts.read_text() == "x\n" * 3
        for agent in (first, second):
            agent.terminate()
            # The one that never led may still be on its way up, where it does not listen to signals yet.
            assert await agent.wait() in (0, -signal.SIGTERM)


async def test_heartbeats_tell_what_is_known_of_the_machine(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made, made.agent("one", tmp_path):
        heard: asyncio.Queue[Samples] = asyncio.Queue()

        async def hear(subject: str, data: bytes, headers: dict[str, str]) -> None:
            heard.put_nowait(decode(data, Samples))

        await made.site.bus.subscribe(f"{subjects.SAMPLES}.>", hear)
        async with asyncio.timeout(LONG_S):
            beat = await heard.get()
            while beat.nodes[0].memory_used_mib is None:  # the machine was not looked at yet
                beat = await heard.get()
        assert (beat.agent, [node.node for node in beat.nodes]) == ("one", ["one"])
        assert 0 < beat.nodes[0].memory_used_mib <= (beat.nodes[0].memory_total_mib or 0)


def wait_until_gone(pid: int) -> None:
    """Wait until a process that is no child of ours has ended."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    gone, _, _ = select.select([process], [], [], LONG_S)
    os.close(process)
    assert gone


FLEET = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"sim-{k:04d},96000,786432,8,G2\n" for k in range(1200))


async def test_one_agent_carries_a_fleet_and_starts_thousands_of_tasks_in_seconds(tmp_path: Path) -> None:
    (tmp_path / "fleet.csv").write_text(FLEET)
    async with cluster(tmp_path) as made, made.agent("sim", tmp_path, simulate=str(tmp_path / "fleet.csv"), speed=60.0):
        await made.until(lambda: len(made.state.kept.nodes) == 1200)
        asked = asks("train", attributes={"run_time_s": 60, "exit_code": 0}, time_limit_s=7200)
        jobs = await made.submit(*(replace(asked, name=f"job-{k}") for k in range(3000)))
        placements = [made.placement(job, [f"sim-{job % 1200:04d}"]) for job in jobs]
        began_s = time.process_time()
        await made.place(*placements[:2000])
        for first in range(2000, 3000, 250):
            await made.place(*placements[first : first + 250])
        await made.until(lambda: made.count(f.TaskStarted) == 3000)
        rate = 3000 / (time.process_time() - began_s)
        await made.until(lambda: all(made.job(job).state == JobState.SUCCEEDED for job in jobs))
        assert rate > 500  # a second of the processor, whoever else is on it; unhurried it is about three thousand
        assert not made.state.kept.tasks


async def test_a_restarted_fleet_goes_on_as_if_nobody_had_been_away(tmp_path: Path) -> None:
    (tmp_path / "fleet.csv").write_text(FLEET[: FLEET.index("sim-0010")])
    fields = {"simulate": str(tmp_path / "fleet.csv"), "speed": 10.0}
    async with cluster(tmp_path) as made:
        async with made.agent("sim", tmp_path, **fields):
            job = await made.start(asks("train", attributes={"run_time_s": 20, "exit_code": 4}), "sim-0003")
            await made.until(lambda: made.job(job).state == JobState.RUNNING)
        task = next(iter(made.state.kept.tasks.values()))
        assert task.state == TaskState.STARTED
        async with made.agent("sim", tmp_path, **fields):
            assert await made.ended(job) == JobState.FAILED
            assert made.job(job).exit_code == 4
            # Two seconds of work, told by a machine that may be busy; at no more than its own speed it would be twenty.
            assert 1_900 <= made.job(job).ended_ms - task.started_ms <= 15_000
            assert made.count(f.TaskStarted) == 1
