"""What /metrics says of GPUs and machines: DCGM's names and units, our labels, no more lines than are allowed."""

from msgspec import structs
from prometheus_client.parser import text_string_to_metric_families
from tests.make import T0, World, node, spec

from gangline_core import facts as f
from gangline_core.cluster import Gpu, MigSlice
from gangline_core.spec import Resources
from gangline_kit.metrics import GPU_LABELS, METRICS
from gangline_telemetry.config import Config
from gangline_telemetry.gauges import GAUGES, HOST_GAUGES, LAST_XID, text
from gangline_telemetry.health import Watch
from gangline_wire.samples import DiskSample, GpuSample, NicSample, NodeSample, SliceSample

DCGM_DEFAULT = [
    "SM_CLOCK", "MEM_CLOCK", "MEMORY_TEMP", "GPU_TEMP", "POWER_USAGE", "TOTAL_ENERGY_CONSUMPTION",
    "PCIE_TX_THROUGHPUT", "PCIE_RX_THROUGHPUT", "PCIE_REPLAY_COUNTER", "GPU_UTIL", "MEM_COPY_UTIL", "ENC_UTIL",
    "DEC_UTIL", "XID_ERRORS", "FB_FREE", "FB_USED", "NVLINK_BANDWIDTH_TOTAL", "UNCORRECTABLE_REMAPPED_ROWS",
    "CORRECTABLE_REMAPPED_ROWS", "ROW_REMAP_FAILURE", "VGPU_LICENSE_STATUS",
]  # fmt: skip
"""What NVIDIA's dcgm-exporter shows unless told otherwise (etc/default-counters.csv)."""
DCGM_PROFILING = ["GR_ENGINE_ACTIVE", "PIPE_TENSOR_ACTIVE", "DRAM_ACTIVE"]
"""What it shows beside (etc/dcp-metrics-included.csv)."""

FULL = GpuSample(
    index=0, uuid="GPU-0", model="H100", utilisation_percent=97, memory_used_mib=400, memory_total_mib=1000,
    temperature_celsius=61, power_milliwatts=249_500, memory_busy_percent=12, clock_sm_mhz=1980, clock_memory_mhz=2619,
    energy_millijoules=1_000_000, ecc_corrected=5, ecc_uncorrected=0, remapped_corrected=2, remapped_uncorrected=1,
    remap_pending=False, remap_failed=False, nvlinks_down=0, nvlinks_up=18, nvlink_errors=0, nvlink_rx_kib=8,
    nvlink_tx_kib=9, pcie_gen=5, pcie_width=16, pcie_width_max=16, pcie_replays=7, pcie_rx_kib_s=3, pcie_tx_kib_s=4,
    sm_active_percent=91, sm_occupancy_percent=45, tensor_active_percent=63, dram_active_percent=37,
    engine_active_percent=98, encoder_percent=0, decoder_percent=3, temperature_memory_celsius=70, xids=(63, 94),
    vgpu_licensed=True, pci_bus_id="00000000:1E:00.0", minor=3, product="NVIDIA H100 80GB HBM3",
)  # fmt: skip


def lines(
    watch: Watch, world: World, *, now_s: float = 1.0, most: int = 100
) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Every metric's lines, as Prometheus reads them."""
    shown = text(watch, world.state, now_s, most=most).decode()
    return {
        family.name: [(dict(one.labels), one.value) for one in family.samples]
        for family in text_string_to_metric_families(shown)
    }


def heard(world: World, *gpus: GpuSample, at: int = T0, now_s: float = 1.0, watch: Watch | None = None) -> Watch:
    watch = watch or Watch(Config(), 0.0)
    watch.hear(NodeSample(node="n1", at=at, gpus=gpus), now_s, world.state)
    return watch


def test_the_counters_that_dcgm_shows_by_default_are_shown_under_its_names_and_in_its_units() -> None:
    world = World(node("n1"))
    found = lines(heard(world, FULL), world)
    wanted = {f"DCGM_FI_DEV_{name}" for name in DCGM_DEFAULT} | {f"DCGM_FI_PROF_{name}" for name in DCGM_PROFILING}
    assert {name for name in wanted if not found.get(name)} == set()
    assert {name: rows[0][1] for name, rows in found.items() if rows and name.startswith("DCGM")} == {
        "DCGM_FI_DEV_VGPU_LICENSE_STATUS": 1,
        "DCGM_FI_DEV_SM_CLOCK": 1980, "DCGM_FI_DEV_MEM_CLOCK": 2619, "DCGM_FI_DEV_MEMORY_TEMP": 70,
        "DCGM_FI_DEV_GPU_TEMP": 61, "DCGM_FI_DEV_POWER_USAGE": 249.5, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 1_000_000,
        "DCGM_FI_DEV_PCIE_TX_THROUGHPUT": 4, "DCGM_FI_DEV_PCIE_RX_THROUGHPUT": 3, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": 7,
        "DCGM_FI_DEV_GPU_UTIL": 97, "DCGM_FI_DEV_MEM_COPY_UTIL": 12, "DCGM_FI_DEV_ENC_UTIL": 0,
        "DCGM_FI_DEV_DEC_UTIL": 3, "DCGM_FI_DEV_FB_FREE": 600, "DCGM_FI_DEV_FB_USED": 400,
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": 5, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": 0,
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": 17, "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": 1,
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": 2,
        "DCGM_FI_DEV_ROW_REMAP_FAILURE": 0, "DCGM_FI_DEV_XID_ERRORS": 94, "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.98,
        "DCGM_FI_PROF_SM_ACTIVE": 0.91, "DCGM_FI_PROF_SM_OCCUPANCY": 0.45, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.63,
        "DCGM_FI_PROF_DRAM_ACTIVE": 0.37,
    }  # fmt: skip


COUNTERS = {
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
}  # fmt: skip
"""Counters of dcgm-exporter (etc/default-counters.csv) that only rise here, too."""


def test_cards_are_told_apart_by_the_labels_of_dcgms_boards_and_counters_are_counters() -> None:
    world = World(node("n1"))
    shown = text(heard(world, FULL), world.state, 1.0, most=100).decode()
    [(labels, _)] = lines(heard(world, FULL), world)["DCGM_FI_DEV_GPU_UTIL"]
    assert {name: labels[name] for name in ("gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname")} == {
        "gpu": "0", "UUID": "GPU-0", "pci_bus_id": "00000000:1E:00.0", "device": "nvidia3",
        "modelName": "NVIDIA H100 80GB HBM3", "Hostname": "n1",
    }  # fmt: skip
    kinds = dict(line.split()[2:4] for line in shown.splitlines() if line.startswith("# TYPE DCGM"))
    assert {name for name, kind in kinds.items() if kind == "counter"} == COUNTERS


def test_every_line_is_of_a_metric_in_the_table_with_its_labels() -> None:
    world = World(node("n1"))
    watch = heard(world, FULL)
    watch.hear(
        NodeSample(
            node="n1", at=T0, cpu_percent=50, memory_used_mib=1, swap_used_mib=0, load_percent=120, disk_free_mib=9,
            nics=(NicSample(name="eth0", rx_kib_s=2, tx_kib_s=1),), disks=(DiskSample(name="sda", read_kib_s=4),),
        ),
        1.0,
    )  # fmt: skip
    found = lines(watch, world)
    assert set(found) == {
        *GAUGES,
        *HOST_GAUGES,
        LAST_XID,
        *(n for n in METRICS if n.startswith("gangline_node_") and "second" in n),
    }
    for name, rows in found.items():
        assert rows, name
        assert all(set(labels) == set(METRICS[name].labels) for labels, _ in rows), name
    assert found["gangline_node_cpu_ratio"] == [({"node": "n1"}, 0.5)]
    assert found["gangline_node_io_bytes_per_second"] == [
        ({"node": "n1", "device": "sda", "direction": "read"}, 4096.0)
    ]


def test_what_is_absent_has_no_line_and_so_has_a_card_that_fell_silent() -> None:
    world = World(node("n1"))
    watch = heard(world, GpuSample(index=0, uuid="GPU-0", power_milliwatts=1000))
    found = lines(watch, world)
    assert [name for name, rows in found.items() if rows] == ["DCGM_FI_DEV_POWER_USAGE"]
    assert not any(lines(watch, world, now_s=32.0).values())


def test_no_more_cards_are_shown_than_are_allowed_and_those_of_nodes_that_left_go() -> None:
    world = World(node("n1"), node("n2"))
    watch = heard(world, *(GpuSample(index=k, uuid=f"G{k}", temperature_celsius=1) for k in range(8)))
    assert len(lines(watch, world, most=3)["DCGM_FI_DEV_GPU_TEMP"]) == 3
    world.state.kept.nodes.pop("n1")
    watch.judge(world.state, 2.0)
    assert not watch.cards


def test_strange_names_cannot_break_the_text() -> None:
    world = World(node("n1"))
    watch = heard(world, GpuSample(index=0, uuid='a"b\\c\nd', model="x", temperature_celsius=1))
    [(labels, _)] = lines(watch, world)["DCGM_FI_DEV_GPU_TEMP"]
    assert labels["UUID"] == 'a"b\\c\nd'


# --- whose GPU is it (NVIDIA/dcgm-exporter#342, #577, #397, #428) --------------------------------------------------


def owner(watch: Watch, world: World, now_s: float) -> tuple[str, str]:
    [(labels, _)] = lines(watch, world, now_s=now_s)["DCGM_FI_DEV_GPU_UTIL"]
    return labels["job"], labels["task"]


def test_a_sample_carries_who_held_the_card_when_it_was_taken_and_still_does_or_nobody() -> None:
    world = World(node("n1", gpus=1))
    first = world.submit_running(spec(gpus=1, user="ann", group="lab"), "n1")
    [mine] = world.tasks(first)
    busy = GpuSample(index=0, uuid="GPU-0", utilisation_percent=90)
    watch = heard(world, busy, at=world.at)
    [(labels, _)] = lines(watch, world)["DCGM_FI_DEV_GPU_UTIL"]
    assert [labels[name] for name in GPU_LABELS[-4:]] == [str(first), "lab", "ann", mine.id]
    taken_before = world.at
    world.finish(first)
    assert owner(watch, world, 1.5) == ("", ""), "what it was is not shown under a time at which it is no longer"
    world.wait(0.4)
    second = world.submit_running(spec(gpus=1, user="bob", group="lab"), "n1")
    [other] = world.tasks(second)
    heard(world, busy, at=taken_before, now_s=2.0, watch=watch)
    assert owner(watch, world, 2.0) == ("", ""), "the new owner had no part in a sample taken before it came"
    heard(world, busy, at=world.at, now_s=3.0, watch=watch)
    assert owner(watch, world, 3.0) == (str(second), other.id)


def test_a_card_that_a_pod_holds_carries_the_labels_by_which_other_exporters_name_it() -> None:
    world = World(node("n1", gpus=2))
    in_pod, process = world.submit(gpus=1), world.submit(gpus=1)
    for job in (in_pod, process):
        world.place(job, "n1")
        pod = "team-a/llm-worker-0/train" if job == in_pod else ""
        world.tell("agent.sim", f.TaskStarted(task=world.tasks(job)[0].id, pod=pod))
    cards = [GpuSample(index=k, utilisation_percent=k) for k in range(2)]
    found = lines(heard(world, *cards), world)
    by_gpu = {labels["gpu"]: labels for labels, _ in found["DCGM_FI_DEV_GPU_UTIL"]}
    shown = [tuple(by_gpu[gpu][name] for name in ("namespace", "pod", "container")) for gpu in "01"]
    assert shown == [("team-a", "llm-worker-0", "train"), ("", "", "")]


def test_of_two_jobs_on_one_card_neither_is_called_its_owner() -> None:
    world = World(node("n1", gpus=1))
    for _ in range(2):
        world.submit(spec(gpus=0.5))
    world.settle()
    watch = heard(world, GpuSample(index=0, uuid="GPU-0", utilisation_percent=90), at=world.at)
    assert len(watch.cards["n1", 0].owners) == 2
    assert owner(watch, world, 1.0) == ("", "")


# --- slices (guilbaults/slurm-job-exporter#55) -----------------------------------------------------------------------


def test_the_watts_of_a_card_that_is_cut_stand_there_once_and_slices_carry_their_own_jobs() -> None:
    slices = tuple(MigSlice(profile="1g.5gb", start=k, size=1, uuid=f"MIG-{k}") for k in range(7))
    card = Gpu(index=0, model="A100", memory_mib=40_960, uuid="GPU-0", mig="a100-40gb", slices=slices)
    world = World(structs.replace(node("n1"), gpus=(card,)))
    asked = spec(gpus=0)
    role = structs.replace(asked.roles[0], resources=Resources(gpu_milli=142, mig="1g.5gb"))
    jobs = [world.submit(structs.replace(asked, roles=(role,))) for _ in range(7)]
    world.settle()
    seen = GpuSample(
        index=0, uuid="GPU-0", power_milliwatts=280_000, energy_millijoules=5,
        slices=tuple(
            SliceSample(uuid=one.uuid, profile="1g.5gb", instance=7 + k, memory_used_mib=100 + k, memory_total_mib=4864)
            for k, one in enumerate(slices)
        ),
    )  # fmt: skip
    found = lines(heard(world, seen, at=world.at), world)
    assert [(labels["job"], value) for labels, value in found["DCGM_FI_DEV_POWER_USAGE"]] == [("", 280.0)]
    assert [value for _, value in found["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"]] == [5.0]
    used = {labels["GPU_I_ID"]: labels for labels, _ in found["DCGM_FI_DEV_FB_USED"] if labels["GPU_I_ID"]}
    assert len(used) == 7
    by_job = {labels["job"]: labels for labels in used.values()}
    assert set(by_job) == {str(job) for job in jobs}
    for job in jobs:
        [task] = world.tasks(job)
        start = task.gpus[0].slots.bit_length() - 1
        assert by_job[str(job)]["GPU_I_ID"] == str(7 + start)
        assert (by_job[str(job)]["task"], by_job[str(job)]["GPU_I_PROFILE"]) == (task.id, "1g.5gb")
