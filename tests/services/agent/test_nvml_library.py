"""The real binding on a driver library that plays tapes: what cards say, and what becomes of it when they break."""

import shutil
from pathlib import Path

import msgspec
import pytest
from tests.services.agent import tapes
from tests.services.agent.tapes import (
    LOST,
    MISMATCH,
    NO_DRIVER,
    NO_PERMISSION,
    NOT_SUPPORTED,
    UNKNOWN,
    but,
    h100s,
    mig_a100,
    player,
)

from gangline_agent import machine
from gangline_core.cluster import MigSlice
from gangline_core.job import GpuShare
from gangline_wire.samples import GpuSample

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine")

FIELDS = [
    name
    for name in msgspec.structs.asdict(GpuSample(index=0))
    if name not in ("index", "uuid", "model", "slices", "xids", "events", "tasks", "absent", "why", "problem")
]


async def test_every_field_of_a_sample_is_read_off_a_card_that_gives_it(tmp_path: Path) -> None:
    async with player(tmp_path) as driver:
        await driver.look(h100s())
        found = await driver.look(h100s())
    assert len(found.samples) == 8
    sample = found.samples[0]
    assert (sample.absent, sample.why, sample.problem) == ((), {}, "")
    assert [name for name in FIELDS if getattr(sample, name) is None] == []
    assert (sample.utilisation_percent, sample.memory_busy_percent) == (97, 61)
    assert (sample.engine_active_percent, sample.sm_active_percent, sample.sm_occupancy_percent) == (98, 91, 45)
    assert (sample.tensor_active_percent, sample.dram_active_percent) == (63, 37)
    assert (sample.encoder_percent, sample.decoder_percent) == (0, 3)
    assert (sample.memory_total_mib, sample.memory_used_mib) == (81_559, 40_960)
    assert (sample.power_milliwatts, sample.power_limit_milliwatts) == (612_345, 700_000)
    assert (sample.temperature_celsius, sample.temperature_memory_celsius) == (61, 70)
    assert (sample.clock_sm_mhz, sample.clock_memory_mhz, sample.energy_millijoules) == (1980, 2619, 123_456_789)
    assert (sample.ecc_corrected, sample.ecc_uncorrected) == (5, 0)
    assert (sample.remapped_corrected, sample.remapped_uncorrected) == (2, 1)
    assert (sample.remap_pending, sample.remap_failed) == (False, False)
    assert (sample.nvlinks_up, sample.nvlinks_down, sample.nvlink_errors) == (18, 0, 18 * 7)
    assert (sample.nvlink_rx_kib, sample.nvlink_tx_kib) == (8000, 9000)
    assert (sample.pcie_gen, sample.pcie_width, sample.pcie_width_max, sample.pcie_replays) == (5, 16, 16, 7)
    assert (sample.pcie_rx_kib_s, sample.pcie_tx_kib_s) == (3400, 1200)
    assert sample.processes == ((4242, 40_054),)
    assert (sample.product, sample.model) == ("NVIDIA H100 80GB HBM3", "H100-80GB-HBM3")
    assert [(one.pci_bus_id, one.minor) for one in found.samples[:2]] == [
        ("00000000:20:00.0", 0),
        ("00000000:28:00.0", 1),
    ]
    assert found.versions == {"nvidia-driver": "550.54.15", "cuda": "12.4"}


async def test_tensor_use_is_known_from_the_second_look_on(tmp_path: Path) -> None:
    async with player(tmp_path) as driver:
        first = (await driver.look(h100s(1))).samples[0]
        second = (await driver.look(h100s(1))).samples[0]
    assert (first.tensor_active_percent, first.why["tensor_active_percent"]) == (None, "after the next look")
    assert second.tensor_active_percent == 63


async def test_whatever_one_function_refuses_the_rest_of_the_card_and_all_other_cards_are_told(tmp_path: Path) -> None:
    functions = {line.split()[0] for line in h100s(1) if line.startswith(("nvmlDevice", "field", "gpm"))}
    # Without these there is no card to speak of; see the tests of lost cards.
    functions -= {"nvmlDeviceGetUUID", "nvmlDeviceGetCount"}
    async with player(tmp_path) as driver:
        await driver.look(h100s(2))
        for function in sorted(functions):
            for status in (NOT_SUPPORTED, NO_PERMISSION, UNKNOWN):
                well, sick = (await driver.look([*h100s(2), f"{function} 2 {status}"])).samples
                assert (well.absent, well.why, well.problem) == ((), {}, ""), function
                assert sick.problem == ""
                silent = {name for name in FIELDS if getattr(sick, name) is None}
                assert silent <= set(sick.absent), function
                # One function gives four fields at most.
                assert len(sick.absent) <= 4, (function, sick.absent)
                assert set(sick.why) <= set(sick.absent) | {"model"}, function


async def test_an_old_driver_lacks_functions_and_says_under_which_fields(tmp_path: Path) -> None:
    async with player(tmp_path, "-DOLD_DRIVER") as driver:
        tape = [*h100s(1), "nvmlDeviceGetCurrentClocksThrottleReasons * 0 0x48"]
        await driver.look(tape)
        sample = (await driver.look(tape)).samples[0]
    assert sample.throttled == ("hw_slowdown", "hw_thermal")
    assert sample.tensor_active_percent is None
    assert sample.why["tensor_active_percent"] == "Function Not Found"
    assert sample.utilisation_percent == 97


async def test_a_card_that_falls_off_the_bus_is_lost_alone_with_its_xid_and_comes_back(tmp_path: Path) -> None:
    async with player(tmp_path) as driver:
        before = await driver.look(h100s())
        known = machine.describe((), before)
        gone = await driver.look([*tapes.lost(h100s(), 1), "event 2 79"])
        after = await driver.look(h100s())
    assert [sample.problem for sample in gone.samples] == ["", "GPU is lost", *[""] * 6]
    assert [gone.xids.get(sample.uuid, ()) for sample in gone.samples] == [(), (79,), *[()] * 6]
    assert all(sample.utilisation_percent == 97 for k, sample in enumerate(gone.samples) if k != 1)
    described = machine.describe(known.gpus, gone)
    assert described.gpus == known.gpus, "the node stays as it is; health says that one card must not be used"
    assert machine.describe(known.gpus, after).samples[1].problem == ""


async def test_a_lost_card_without_even_a_name_stays_in_the_description_as_a_problem(tmp_path: Path) -> None:
    async with player(tmp_path) as driver:
        known = machine.describe((), await driver.look(h100s(2)))
        gone = await driver.look([*tapes.lost(h100s(2), 1), f"nvmlDeviceGetUUID 2 {LOST}", f"handle 2 {LOST}"])
    described = machine.describe(known.gpus, gone)
    assert described.gpus == known.gpus
    assert [bool(sample.problem) for sample in described.samples] == [False, True]


async def test_events_are_told_once_and_of_the_card_they_befell(tmp_path: Path) -> None:
    async with player(tmp_path) as driver:
        await driver.look(h100s(2))
        told = await driver.look([*h100s(2), "event 1 13", "event 2 48", "event 2 63"])
        again = await driver.look([*h100s(2), "event 1 13", "event 2 48", "event 2 63"])
    assert [told.xids.get(sample.uuid, ()) for sample in told.samples] == [(13,), (48, 63)]
    assert [again.xids.get(sample.uuid, ()) for sample in again.samples] == [(), ()]


async def test_a_driver_that_is_reloaded_is_a_problem_of_the_node_and_then_read_again_without_a_restart(
    tmp_path: Path,
) -> None:
    async with player(tmp_path) as driver:
        before = await driver.look(h100s(2))
        mismatch = await driver.look(but(h100s(2), f"nvmlDeviceGetCount * {MISMATCH}"))
        still = await driver.look(but(h100s(2), f"nvmlInit * {MISMATCH}"))
        unloaded = await driver.look(but(h100s(2), f"nvmlInit * {NO_DRIVER}"))
        back = await driver.look(h100s(2))
        measured = await driver.look([*h100s(2), "event 2 94"])
    assert "mismatch" in mismatch.problem
    assert "mismatch" in still.problem
    assert (unloaded.problem, unloaded.has_driver, unloaded.gpus) == ("", False, ())
    assert back.gpus == before.gpus
    assert measured.samples[0].tensor_active_percent == 63
    assert measured.xids == {measured.samples[1].uuid: (94,)}, "events are registered anew"


async def test_the_matrix_of_links_says_how_each_card_reaches_each_other(tmp_path: Path) -> None:
    async with player(tmp_path) as driver:
        switched = machine.describe((), await driver.look(h100s(3)))
        meshed = machine.describe((), await driver.look(tapes.v100_pair_of_pairs()))
    assert [gpu.paths for gpu in switched.gpus] == [("X", "NV18", "NV18"), ("NV18", "X", "NV18"), ("NV18", "NV18", "X")]
    assert {(gpu.nvlink_mib_s, gpu.pcie_mib_s) for gpu in switched.gpus} == {(25_331, 60_096)}
    assert [gpu.paths for gpu in meshed.gpus] == [
        ("X", "NV2", "NV1", "SYS"),
        ("NV2", "X", "SYS", "NV1"),
        ("NV1", "SYS", "X", "NV2"),
        ("SYS", "NV1", "NV2", "X"),
    ]
    assert {gpu.island for gpu in meshed.gpus} == {0}, "each reaches each other over NVLink, if not directly"


async def test_the_matrix_keeps_our_numbers_when_a_card_is_away(tmp_path: Path) -> None:
    async with player(tmp_path) as driver:
        known = machine.describe((), await driver.look(h100s(3))).gpus
        tape = [line for line in but(h100s(3), "nvmlDeviceGetCount * 0 2") if not line.startswith("nvmlDeviceGetUUID")]
        after = machine.describe(
            known, await driver.look([*tape, "nvmlDeviceGetUUID 1 0 GPU-h100-0", "nvmlDeviceGetUUID 2 0 GPU-h100-2"])
        )
    assert after.gpus == known
    assert after.devices == {0: 0, 2: 1}
    assert [bool(sample.problem) for sample in after.samples] == [False, True, False]


# --- cards that are cut ---------------------------------------------------------------------------------------------

CUT = ((1, "3g.20gb", 4, 4), (7, "1g.5gb", 0, 1), (8, "1g.5gb+me", 1, 1), (5, "2g.10gb", 2, 2))


async def test_a_card_that_is_cut_is_told_with_its_slices_where_they_lie_and_who_is_in_them(tmp_path: Path) -> None:
    tape = [*mig_a100(*CUT), "nvmlDeviceGetComputeRunningProcesses * 0 4242 1048576 7 4343 2097152 1"]
    async with player(tmp_path) as driver:
        found = await driver.look(tape)
    (gpu,), (sample,) = found.gpus, found.samples
    assert (gpu.mig, gpu.model, gpu.memory_mib) == ("a100-40gb", "A100-SXM4-40GB", 40_960)
    assert gpu.slices == (
        MigSlice(profile="1g.5gb", start=0, size=1, uuid="MIG-7-1g.5gb"),
        MigSlice(profile="1g.5gb", start=1, size=1, uuid="MIG-8-1g.5gb+me"),
        MigSlice(profile="2g.10gb", start=2, size=2, uuid="MIG-5-2g.10gb"),
        MigSlice(profile="3g.20gb", start=4, size=4, uuid="MIG-1-3g.20gb"),
    )
    assert (sample.problem, sample.utilisation_percent) == ("", None)
    assert sample.power_milliwatts == 280_000
    by_uuid = {one.uuid: one for one in sample.slices}
    assert by_uuid["MIG-7-1g.5gb"].processes == ((4242, 1),)
    assert by_uuid["MIG-1-3g.20gb"].processes == ((4343, 2),)
    assert (by_uuid["MIG-1-3g.20gb"].memory_used_mib, by_uuid["MIG-1-3g.20gb"].memory_total_mib) == (2, 20_480)
    assert all(one.sm_active_percent is None for one in sample.slices), "an A100 does not measure its slices"
    shown = machine.describe((), found)
    assert machine.visible_devices(shown, (GpuShare(index=0, milli=428, memory_mib=0, slots=0b11110000),)) == (
        "MIG-1-3g.20gb",
    )


async def test_slices_are_measured_where_the_card_can(tmp_path: Path) -> None:
    tape = [*mig_a100(*CUT), "nvmlGpmMigSampleGet 10007 0", "gpm:2 10007 0 55.4", "gpm:5 10007 0 12.2"]
    async with player(tmp_path) as driver:
        await driver.look(tape)
        sample = (await driver.look(tape)).samples[0]
    measured = {one.uuid: (one.sm_active_percent, one.tensor_active_percent) for one in sample.slices}
    assert measured["MIG-7-1g.5gb"] == (55, 12)
    assert measured["MIG-1-3g.20gb"] == (None, None)


async def test_without_the_right_to_see_where_slices_lie_they_are_laid_out_as_the_card_allows(tmp_path: Path) -> None:
    async with player(tmp_path) as driver:
        (gpu,) = (await driver.look(mig_a100(*CUT, may_see=False))).gpus
    assert sorted(one.profile for one in gpu.slices) == ["1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb"]
    taken = 0
    for one in gpu.slices:
        assert not taken & one.mask
        taken |= one.mask


async def test_a_slice_that_is_shared_out_inside_has_no_name_by_which_a_task_could_get_it(tmp_path: Path) -> None:
    async with player(tmp_path) as driver:
        (gpu,) = (await driver.look(mig_a100((1, "3g.20gb", 0, 4), (2, "1c.3g.20gb", 4, 4)))).gpus
    assert [(one.start, one.uuid) for one in gpu.slices] == [(0, "MIG-1-3g.20gb"), (4, "")]


async def test_a_card_that_is_cut_into_nothing_or_into_what_nobody_knows_takes_no_work(tmp_path: Path) -> None:
    async with player(tmp_path) as driver:
        nothing = await driver.look(mig_a100())
        strange = await driver.look(mig_a100((1, "5g.33gb", 0, 5)))
    assert nothing.samples[0].problem == "MIG is on and no slice is cut"
    assert "5g.33gb" in strange.samples[0].problem
