"""A node's GPUs keep their names and numbers whatever the driver does for a while."""

from tests.make import node
from tests.services.agent.test_nvml import Driver, FakeError, NoLibraryError

from gangline_agent import machine
from gangline_agent.nodes import Machine
from gangline_agent.nvml import Nvml
from gangline_agent.senses import Reading
from gangline_core.cluster import Gpu
from gangline_core.ids import NodeId
from gangline_wire.samples import GpuSample


def reading(*uuids: str) -> Reading:
    return Reading(
        gpus=tuple(Gpu(index=k, model="A100", memory_mib=40_960, uuid=uuid) for k, uuid in enumerate(uuids)),
        samples=tuple(GpuSample(index=k, uuid=uuid, model="A100") for k, uuid in enumerate(uuids)),
    )


ALL = machine.describe((), reading("a", "b", "c"))


def test_a_card_that_falls_off_the_bus_stays_in_the_description_as_a_problem() -> None:
    after = machine.describe(ALL.gpus, reading("a", "c"))
    assert [gpu.uuid for gpu in after.gpus] == ["a", "b", "c"]
    assert [sample.problem for sample in after.samples] == ["", "the driver does not show it", ""]
    assert after.problem == ""


def test_programs_get_the_drivers_numbers_although_ours_stay() -> None:
    assert machine.describe(ALL.gpus, reading("a", "c")).devices == {0: 0, 2: 1}


def test_a_driver_that_shows_nothing_for_a_while_harms_nothing() -> None:
    away = machine.describe(ALL.gpus, reading())
    assert away.gpus == ALL.gpus
    assert away.samples == ()
    assert away.problem == "the driver shows none of 3 GPUs"
    assert machine.describe(away.gpus, reading("a", "b", "c")) == ALL


def test_a_new_card_comes_last_and_exchanged_ones_are_forgotten_at_the_next_start() -> None:
    more = machine.describe(ALL.gpus, reading("new", "a", "b", "c"))
    assert [gpu.uuid for gpu in more.gpus] == ["a", "b", "c", "new"]
    assert more.devices[3] == 0
    exchanged = machine.still_there(ALL.gpus, reading("a", "new", "c"))
    assert [gpu.uuid for gpu in exchanged] == ["a", "c"]
    assert machine.still_there(ALL.gpus, reading("a", "c")) == ALL.gpus


def a_machine(driver: Driver) -> Machine:
    return Machine(
        name="n1",
        pool="default",
        address="127.0.0.1",
        labels={},
        folder="/",
        source=Nvml(driver),
        monotonic_s=lambda: 0.0,
    )


async def test_a_machine_without_gpus_is_a_node_of_cpus() -> None:
    made = a_machine(Driver(Init=NoLibraryError("none")))
    await made.refresh({})
    (described,) = made.described
    assert (described.gpus, described.problem) == ((), "")
    assert described.cpu_milli >= 1
    assert described.memory_mib > 0


async def test_a_node_whose_driver_does_not_start_keeps_its_gpus_and_takes_no_work() -> None:
    driver = Driver(2, Init=FakeError("Unknown Error"))
    made = a_machine(driver)
    known = {NodeId("n1"): node("n1", gpus=2)}
    await made.refresh(known)
    (described,) = made.described
    assert len(described.gpus) == 2
    assert not described.takes_work
    assert made.samples is not None
    driver.answers["Init"] = None
    driver.answers["DeviceGetUUID"] = lambda gpu: f"GPU-n1-{gpu}"
    await made.refresh(known)
    assert made.described[0].takes_work


async def test_a_machine_without_room_on_its_disk_takes_no_work() -> None:
    made = a_machine(Driver(Init=NoLibraryError("none")))
    made.folder = "/no/such/folder"
    await made.refresh({})
    assert not made.described[0].takes_work
    assert "/no/such/folder" in made.described[0].problem
