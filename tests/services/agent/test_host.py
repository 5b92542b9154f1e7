"""What a machine says of its CPUs, memory, network and disks, and what it takes of tasks; on this real machine."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.services.agent.test_nvml import Driver, NoLibraryError

from gangline_agent.host import Host
from gangline_agent.nodes import Machine
from gangline_agent.nvml import Nvml
from gangline_agent.senses import unread


class Clock:
    """A steady clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_real_machine_says_how_busy_it_is(tmp_path: Path) -> None:
    clock = Clock()
    host = Host(str(tmp_path), clock)
    host.look()
    assert host.last.cpu_percent is None, "two looks make a rate"
    clock.now_s += 1
    sum(range(3_000_000))
    host.look()
    seen = host.last
    assert seen.cpu_percent is None or 0 <= seen.cpu_percent <= 100
    assert (seen.memory_used_mib or 0) > 0
    assert seen.disk_free_mib is not None
    assert seen.disk_total_mib is not None
    assert 0 < seen.disk_free_mib <= seen.disk_total_mib
    assert all(nic.rx_kib_s is not None and not nic.name.startswith("lo") for nic in seen.nics)


class Io:
    """Counters of a network card or a disk."""

    def __init__(self, **values: int) -> None:
        self.__dict__.update(dict.fromkeys(("errin", "errout", "dropin", "dropout"), 0) | values)


def test_rates_are_per_second_and_a_counter_that_began_anew_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    nics = {"eth0": Io(bytes_recv=0, bytes_sent=0), "veth1": Io(bytes_recv=9, bytes_sent=9)}
    disks = {
        "sda": Io(read_bytes=0, write_bytes=0, busy_time=0),
        "sda1": Io(read_bytes=0, write_bytes=0, busy_time=0),
        "loop0": Io(read_bytes=0, write_bytes=0, busy_time=0),
    }
    monkeypatch.setattr(psutil, "net_io_counters", lambda **_: dict(nics))
    monkeypatch.setattr(psutil, "disk_io_counters", lambda **_: dict(disks))
    monkeypatch.setattr(psutil, "net_if_stats", dict)
    clock = Clock()
    host = Host("/", clock)
    host.look()
    clock.now_s += 2
    nics["eth0"] = Io(bytes_recv=4096, bytes_sent=2048, dropin=3)
    disks["sda"] = Io(read_bytes=1 << 20, write_bytes=0, busy_time=500)
    host.look()
    (nic,), (disk,) = host.last.nics, host.last.disks
    assert (nic.name, nic.rx_kib_s, nic.tx_kib_s, nic.errors, nic.is_up) == ("eth0", 2, 1, 3, None)
    assert (disk.name, disk.read_kib_s, disk.write_kib_s, disk.busy_percent) == ("sda", 512, 0, 25)
    clock.now_s += 1
    nics["eth0"] = Io(bytes_recv=10, bytes_sent=4096)
    host.look()
    (nic,) = host.last.nics
    assert (nic.rx_kib_s, nic.tx_kib_s) == (None, 2)


@pytest.mark.parametrize(
    ("function", "field"),
    [
        ("cpu_times", "cpu_percent"),
        ("virtual_memory", "memory_used_mib"),
        ("swap_memory", "swap_used_mib"),
        ("getloadavg", "load_percent"),
        ("disk_usage", "disk_free_mib"),
        ("net_io_counters", "nics"),
        ("disk_io_counters", "disks"),
    ],
)
@pytest.mark.parametrize("error", [OSError(13, "Permission denied"), AttributeError("not here"), RuntimeError("no")])
def test_what_a_container_hides_is_absent_alone(
    monkeypatch: pytest.MonkeyPatch, function: str, field: str, error: Exception
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(psutil, function, fail)
    clock = Clock()
    host = Host("/", clock)
    for _ in range(2):
        host.look()
        clock.now_s += 1
    assert field in host.last.absent
    assert not getattr(host.last, field)
    if field != "memory_used_mib":
        assert host.last.memory_used_mib is not None


def test_a_task_takes_what_its_processes_take(monkeypatch: pytest.MonkeyPatch) -> None:
    used = {1: (4.0, 300), 2: (2.0, 100)}
    monkeypatch.setattr("gangline_agent.host._process", used.get)
    clock = Clock()
    host = Host("/", clock)
    host.look_at_tasks({"7-1-worker-0": [1, 2]})
    assert [(one.cpu_milli, one.memory_mib) for one in host.last.tasks] == [(None, 400)]
    clock.now_s += 2
    used |= {1: (5.0, 300), 2: (3.0, 100)}
    host.look_at_tasks({"7-1-worker-0": [1, 2, 3], "8-1-worker-0": [4]})
    assert [(one.task, one.cpu_milli, one.memory_mib) for one in host.last.tasks] == [
        ("7-1-worker-0", 1000, 400),
        ("8-1-worker-0", None, None),
    ]
    clock.now_s += 2
    del used[1]
    host.look_at_tasks({"7-1-worker-0": [1, 2]})
    assert host.last.tasks[0].cpu_milli is None, "never a negative rate"


def test_a_real_process_and_the_children_it_waited_for_are_measured() -> None:
    clock = Clock()
    host = Host("/", clock)
    host.look_at_tasks({"me": [os.getpid()]})
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.2: pass"], check=True)
    clock.now_s += 1
    host.look_at_tasks({"me": [os.getpid(), 999_999_999]})
    (me,) = host.last.tasks
    assert (me.cpu_milli or 0) >= 150
    assert (me.memory_mib or 0) > 10


# --- makers of cards that this version cannot read ------------------------------------------------------------------


def pci(folder: Path, address: str, vendor: str, kind: str) -> None:
    (folder / address).mkdir()
    (folder / address / "vendor").write_text(f"{vendor}\n")
    (folder / address / "class").write_text(f"{kind}\n")


def test_cards_of_makers_without_a_source_are_told_as_labels_and_never_as_gpus(tmp_path: Path) -> None:
    pci(tmp_path, "0000:01:00.0", "0x1002", "0x038000")
    pci(tmp_path, "0000:02:00.0", "0x1002", "0x120000")
    pci(tmp_path, "0000:03:00.0", "0x8086", "0x030000")  # the console of a server
    pci(tmp_path, "0000:04:00.0", "0x10de", "0x030200")  # read by its own source
    (tmp_path / "0000:05:00.0").mkdir()
    assert unread(tmp_path) == {"amd": 2}
    assert unread(tmp_path / "nothing") == {}


async def test_a_machine_says_which_cards_it_cannot_read_and_which_driver_it_has(tmp_path: Path) -> None:
    pci(tmp_path, "0000:01:00.0", "0x1002", "0x038000")

    def made(driver: Callable[..., Any] | Driver) -> Machine:
        return Machine(
            name="n1",
            pool="default",
            address="127.0.0.1",
            labels={"zone": "b"},
            folder="/",
            source=Nvml(driver),
            monotonic_s=lambda: 0.0,
            pci_devices=tmp_path,
        )

    none = made(Driver(Init=NoLibraryError("none")))
    await none.refresh({})
    assert none.described[0].labels == {"zone": "b", "gangline.dev/amd-gpus-unread": "1"}
    assert none.described[0].gpus == ()
    some = made(Driver(1, SystemGetDriverVersion="550.54.15", SystemGetCudaDriverVersion=12_040))
    await some.refresh({})
    assert some.described[0].labels["gangline.dev/nvidia-driver"] == "550.54.15"
    assert some.described[0].labels["gangline.dev/cuda"] == "12.4"
