"""Simulated nodes come from a description and run tasks that only take time."""

import asyncio
import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.make import T0, World, node, spec

from gangline_agent.fleet import FleetError, read
from gangline_agent.nodes import Fleet
from gangline_agent.runner import Order, Phase
from gangline_agent.simulated import SimulatedRunner
from gangline_core.facts import ExitCause
from gangline_core.ids import TaskId
from gangline_core.job import TaskState
from gangline_kit.carrying.orders import orders
from gangline_kit.clock import ManualClock

LIST = "sn,cpu_milli,memory_mib,gpu,model\na,32000,262144,0,\nb,96000,524288,2,V100M32\nc,64000,262144,8,G3\n"


def test_a_node_list_becomes_nodes_in_racks_and_blocks(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text(LIST)
    a, b, c = read(tmp_path / "list.csv", agent="sim", pool="p", rack_nodes=1, block_racks=2)
    assert (a.cpu_milli, a.memory_mib, a.gpus, a.pool, a.agent) == (32_000, 262_144, (), "p", "sim")
    assert [(gpu.model, gpu.memory_mib) for gpu in b.gpus] == [("V100M32", 32_768)] * 2
    assert [gpu.socket for gpu in c.gpus] == [0] * 4 + [1] * 4
    racks = [one.labels["topology.gangline.dev/rack"] for one in (a, b, c)]
    blocks = [one.labels["topology.gangline.dev/block"] for one in (a, b, c)]
    assert (racks, blocks) == (["rack-001", "rack-002", "rack-003"], ["block-01", "block-01", "block-02"])


def test_a_description_may_say_how_gpus_hang_together(tmp_path: Path) -> None:
    row = {
        "sn": "a",
        "cpu_milli": 32000,
        "memory_mib": 262144,
        "labels": {"zone": "z1"},
        "nics": [{"name": "mlx5_0", "socket": 0, "switch": 1}],
        "gpus": [
            {"index": 0, "model": "A100", "memory_mib": 40960, "switch": 1},
            {"index": 1, "model": "A100", "memory_mib": 40960, "switch": 2, "island": 1, "mig": "a100-40gb"},
        ],
    }
    (tmp_path / "list.json").write_text(json.dumps([row]))
    (one,) = read(tmp_path / "list.json", agent="s", pool="p")
    assert [(gpu.switch, gpu.island, gpu.mig, gpu.uuid) for gpu in one.gpus] == [
        (1, 0, "", "GPU-a-0"),
        (2, 1, "a100-40gb", "GPU-a-1"),
    ]
    assert (one.nics[0].name, one.labels) == ("mlx5_0", {"zone": "z1"})


@pytest.mark.parametrize(
    ("gpus", "words"),
    [
        ([{"index": 0, "model": "A100", "memory_mib": 1, "mig": "a100-41gb"}], "a100-40gb"),
        ([{"index": 0, "model": "A100", "memory_mib": 1}] * 2, "one index"),
        ([{"index": "x"}], "index"),
    ],
)
def test_a_wrong_description_of_gpus_is_told(tmp_path: Path, gpus: object, words: str) -> None:
    row = {"sn": "a", "cpu_milli": 32000, "memory_mib": 262144, "gpus": gpus}
    (tmp_path / "list.json").write_text(json.dumps([row]))
    with pytest.raises(FleetError, match=words):
        read(tmp_path / "list.json", agent="s", pool="p")


def test_the_same_nodes_may_be_written_as_json(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text(LIST)
    rows = '[{"sn": "a", "cpu_milli": 32000, "memory_mib": 262144}, {"sn": "b", "cpu_milli": 96000, '
    (tmp_path / "list.json").write_text(rows + '"memory_mib": 524288, "gpu": 2, "model": "V100M32"}]')
    assert read(tmp_path / "list.json", agent="s", pool="p") == read(tmp_path / "list.csv", agent="s", pool="p")[:2]


def test_a_part_of_a_list_is_spread_over_all_of_it(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("sn,cpu_milli,memory_mib\n" + "".join(f"n{k},1,1\n" for k in range(100)))
    assert [one.id for one in read(tmp_path / "list.csv", agent="s", pool="p", most=4)] == ["n0", "n25", "n50", "n75"]


def test_machines_are_written_in_short() -> None:
    nodes = read("2x8xH100,1x4xA100", agent="s", pool="p")
    assert [(one.id, len(one.gpus), one.gpus[0].model) for one in nodes] == [
        ("node-00000", 8, "H100"),
        ("node-00001", 8, "H100"),
        ("node-00002", 4, "A100"),
    ]
    assert (nodes[0].cpu_milli, nodes[0].gpus[0].memory_mib) == (128_000, 81_920)


def test_nodes_are_written_in_yaml_with_the_words_of_a_job_file(tmp_path: Path) -> None:
    (tmp_path / "n.yaml").write_text(
        "nodes:\n- {name: a1, gpus: 8, model: L4, gpu_memory: 24Gi, cpus: 96, memory: 1Ti}\n"
        "- {name: cpu, count: 2, cpus: 500m, memory: 4Gi, labels: {zone: b}}\n"
    )
    gpu, one, two = read(tmp_path / "n.yaml", agent="s", pool="p")
    assert (gpu.cpu_milli, gpu.memory_mib, len(gpu.gpus), gpu.gpus[0].memory_mib) == (96_000, 1 << 20, 8, 24_576)
    assert [(each.id, each.cpu_milli, each.memory_mib, each.labels) for each in (one, two)] == [
        ("cpu-000", 500, 4096, {"zone": "b"}),
        ("cpu-001", 500, 4096, {"zone": "b"}),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nodes: 4", "a list of nodes"),
        ("- {name: a, gpu: many}", "node 1: Expected `int`"),
        ("- {name: a}\n- {name: b, gpuz: 1}", "node 2: .*gpuz"),
        ("- {name: a}\n- {name: a}", "a node a already"),
        ("- {name: a, gpus: -1}", "below 0"),
        ("- {count: 100001}", "more than 100000"),
        ("- {name: a, memory: 16}", "node 1: Expected"),
        ("- {name: a, memory: 16Qi}", "node 1: "),
        ("- [", "expected machines in short"),
    ],
)
def test_a_wrong_description_says_what_is_wrong(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "n.yaml").write_text(text)
    with pytest.raises(FleetError, match=words):
        read(tmp_path / "n.yaml", agent="s", pool="p")


@pytest.mark.parametrize("text", ["sn,cpu_milli\na,many\n", "cpu_milli\n1\n"])
def test_a_list_that_cannot_be_read_says_where(tmp_path: Path, text: str) -> None:
    (tmp_path / "list.csv").write_text(text)
    with pytest.raises(FleetError, match="node 1"):
        read(tmp_path / "list.csv", agent="s", pool="p")


def test_a_missing_list_is_named(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match=r"none\.csv cannot be read \(No such file or directory\); expected machines"):
        read(tmp_path / "none.csv", agent="s", pool="p")


def test_a_busy_simulated_gpu_shows_use_and_a_free_one_shows_none() -> None:
    machine = node("n1", gpus=2)
    world = World(machine)
    world.run(world.submit(spec(gpus=1)), "n1")
    fleet = Fleet([machine])
    shown = [sample for _ in range(10) for (sample,) in [fleet.samples(world.state, T0)] if sample.gpus]
    (sample,) = shown
    busy, free = sample.gpus
    assert busy.utilisation_percent is not None
    assert 50 <= busy.utilisation_percent <= 99
    assert (free.utilisation_percent, free.memory_used_mib) == (0, 0)


class Rig:
    """A simulated runner under a clock that stands still."""

    def __init__(self, speed: float = 1.0) -> None:
        self.clock = ManualClock(T0)
        self.told: list[TaskId] = []
        self.runner = SimulatedRunner(self.clock, self.told.append, speed=speed)

    def phase(self, order: Order) -> Phase:
        return self.runner.known[order.task.id].phase


def order(run_time_s: object = 60, *, code: int = 0, limit_s: int = 0, name: str = "1-1-worker-0") -> Order:
    world = World(node("n1"))
    attributes = {"exit_code": code} | ({} if run_time_s is None else {"run_time_s": run_time_s})
    job = world.submit(spec("j", gpus=1, attributes=attributes, time_limit_s=limit_s))
    world.place(job, "n1")
    (made,) = orders(world.state, world.job(job).tasks)
    return replace(made, task=replace(made.task, id=TaskId(name)))


async def test_a_simulated_task_runs_for_its_time_at_the_speed_and_exits_with_its_code() -> None:
    rig, asked = Rig(speed=10), order(60, code=3)
    running = asyncio.ensure_future(rig.runner.run())
    rig.runner.start(asked)
    await rig.clock.advance(5.9)
    assert rig.phase(asked) == Phase.RUNNING
    await rig.clock.advance(0.2)
    local = rig.runner.known[asked.task.id]
    assert (local.phase, local.cause, local.exit_code) == (Phase.EMPTY, ExitCause.EXITED, 3)
    running.cancel()


@pytest.mark.parametrize(("asked", "ends_s"), [(None, 60), ("long", 60), (-5, 0), (0.5, 0.5)])
async def test_a_run_time_that_is_none_means_a_minute_and_none_is_negative(asked: object, ends_s: float) -> None:
    rig, one = Rig(), order(asked)
    rig.runner.start(one)
    rig.runner.end_due(T0 / 1000 + ends_s - 0.001)
    assert rig.phase(one) == Phase.RUNNING
    rig.runner.end_due(T0 / 1000 + ends_s)
    assert rig.phase(one) == Phase.EMPTY


async def test_a_simulated_task_is_stopped_by_its_limit_and_by_order() -> None:
    rig, limited, stopped = Rig(), order(60, limit_s=10), order(60, name="2-1-worker-0")
    rig.runner.start(limited)
    rig.runner.start(stopped)
    rig.runner.stop(stopped.task.id, ExitCause.STOPPED)
    rig.runner.end_due(T0 / 1000 + 10)
    assert rig.runner.known[limited.task.id].cause == ExitCause.TIME_LIMIT
    assert rig.runner.known[stopped.task.id].cause == ExitCause.STOPPED
    rig.runner.end_due(T0 / 1000 + 100)
    assert rig.told == [limited.task.id, stopped.task.id, stopped.task.id, limited.task.id]


async def test_limits_of_simulated_tasks_are_by_the_clock_however_fast_they_run() -> None:
    rig, done, late = Rig(speed=10), order(60, limit_s=10), order(200, limit_s=10, name="2-1-worker-0")
    rig.runner.start(done)
    rig.runner.start(late)
    rig.runner.end_due(T0 / 1000 + 9.9)
    assert rig.runner.known[done.task.id].cause == ExitCause.EXITED
    assert rig.phase(late) == Phase.RUNNING
    rig.runner.end_due(T0 / 1000 + 10)
    assert rig.runner.known[late.task.id].cause == ExitCause.TIME_LIMIT


async def test_a_simulated_task_with_a_deadline_ends_when_its_work_is_done() -> None:
    rig, one = Rig(), order(5)
    dated = replace(one.job.spec, deadline_ms=T0 + 60_000)
    one = replace(one, job=replace(one.job, spec=dated))
    rig.runner.start(one)
    rig.runner.end_due(T0 / 1000 + 5)
    local = rig.runner.known[one.task.id]
    assert (local.phase, local.cause, local.exit_code) == (Phase.EMPTY, ExitCause.EXITED, 0)


async def test_tasks_that_end_together_end_in_the_order_they_were_started() -> None:
    rig = Rig()
    names = [f"{k}-1-worker-0" for k in (3, 1, 2)]
    for name in names:
        rig.runner.start(order(5, name=name))
    rig.told.clear()
    rig.runner.end_due(T0 / 1000 + 5)
    assert rig.told == names


async def test_a_restarted_fleet_takes_up_started_tasks_where_they_are() -> None:
    rig, begun, placed = Rig(), order(60), order(60, name="2-1-worker-0")
    begun = replace(begun, task=replace(begun.task, state=TaskState.STARTED, started_ms=T0 - 50_000))
    await rig.runner.recover([begun, placed])
    await rig.runner.recover([begun, placed])
    assert list(rig.runner.known) == [begun.task.id]
    rig.runner.end_due(T0 / 1000 + 10)
    assert rig.phase(begun) == Phase.EMPTY
