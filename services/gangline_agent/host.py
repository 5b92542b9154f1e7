"""How busy this machine is beside its GPUs: CPUs, memory, network, disks, and what each task takes.

The only importer of psutil. What cannot be read is absent, alone, and named.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import psutil
from msgspec import Struct
from msgspec.structs import replace

from gangline_wire.samples import DiskSample, NicSample, NodeSample, TaskSample

log = logging.getLogger(__name__)

MIB, KIB = 1 << 20, 1 << 10
NICS_MAX, DISKS_MAX = 16, 32
"""Interfaces and disks that are told of, by name; of more the rest is left out."""
NOT_OUTSIDE = ("lo", "veth", "docker", "br-", "cni", "flannel", "cali", "tap", "virbr")
"""Interfaces that lead nowhere outside the machine."""
NOT_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr")
"""Devices that only show what others do."""
FAULTS = (OSError, RuntimeError, AttributeError, ValueError, IndexError, KeyError, psutil.Error)
"""What psutil raises where /proc and /sys are cut down, as in containers."""

Value = TypeVar("Value")


class Counters(Struct, frozen=True):
    """Numbers that only grow, at one moment."""

    at_s: float
    cpu: tuple[float, float] | None = None
    """Busy and all CPU seconds since boot."""
    nics: Mapping[str, Any] = {}
    disks: Mapping[str, Any] = {}


class Host:
    """Two looks make a rate; the last one is remembered."""

    def __init__(self, folder: str, monotonic_s: Callable[[], float]) -> None:
        """`folder` is on the disk on which tasks write."""
        self._folder = folder
        self._now_s = monotonic_s
        self._before: Counters | None = None
        self._tasks_s = 0.0
        self._tasks: dict[str, float] = {}
        """CPU seconds of the processes of each task at the last look at tasks."""
        self._absent: set[str] = set()
        self.last = NodeSample(node="", at=0)
        """What the last look found, under no name."""

    def look(self) -> None:
        """Look again; blocks for some milliseconds."""
        self._absent = set()
        now = Counters(
            at_s=self._now_s(),
            cpu=self._try("cpu_percent", _cpu_seconds),
            nics=self._try("nics", lambda: psutil.net_io_counters(pernic=True, nowrap=True)) or {},
            disks=self._try("disks", lambda: psutil.disk_io_counters(perdisk=True, nowrap=True)) or {},
        )
        before = self._before or Counters(at_s=now.at_s)
        self._before = now
        memory = self._try("memory_used_mib", psutil.virtual_memory)
        swap = self._try("swap_used_mib", psutil.swap_memory)
        disk = self._try("disk_free_mib", lambda: psutil.disk_usage(self._folder))
        self.last = NodeSample(
            node="",
            at=0,
            cpu_percent=_busy(before.cpu, now.cpu),
            memory_used_mib=None if memory is None else (memory.total - memory.available) // MIB,
            swap_used_mib=None if swap is None else swap.used // MIB,
            load_percent=self._try("load_percent", _load),
            nics=self._nics(before, now),
            disks=_disks(before, now),
            disk_free_mib=None if disk is None else disk.free // MIB,
            disk_total_mib=None if disk is None else disk.total // MIB,
            tasks=self.last.tasks,
            absent=tuple(sorted(self._absent)),
        )

    def look_at_tasks(self, pids: Mapping[str, Iterable[int]]) -> None:
        """Look at the processes of these tasks, given by process ids."""
        now_s, found, told = self._now_s(), dict[str, float](), list[TaskSample]()
        for task, of in sorted(pids.items()):
            living = [one for pid in of if (one := _process(pid)) is not None]
            found[task] = sum(seconds for seconds, _ in living)
            # Processes that end unseen take their seconds with them: no rate then, rather than a negative one.
            grown = found[task] - self._tasks.get(task, found[task] + 1)
            seconds = now_s - self._tasks_s
            told.append(
                TaskSample(
                    task=task,
                    cpu_milli=round(1000 * grown / seconds) if grown >= 0 and seconds > 0 else None,
                    memory_mib=sum(mib for _, mib in living) if living else None,
                )
            )
        self._tasks_s, self._tasks = now_s, found
        self.last = replace(self.last, tasks=tuple(told))

    def _nics(self, before: Counters, now: Counters) -> tuple[NicSample, ...]:
        stats = self._try("nics", psutil.net_if_stats) or {}
        names = [name for name in sorted(now.nics) if not name.startswith(NOT_OUTSIDE)][:NICS_MAX]
        return tuple(_nic(name, before, now, stats.get(name)) for name in names)

    def _try(self, field: str, call: Callable[[], Value]) -> Value | None:
        try:
            return call()
        except FAULTS as error:
            log.debug("%s cannot be read: %s", field, error)
            self._absent.add(field)
            return None


def _process(pid: int) -> tuple[float, int] | None:
    """CPU seconds and MiB of one process; None when it is gone."""
    try:
        with (process := psutil.Process(pid)).oneshot():
            times = process.cpu_times()
            # What its children used counts from when it waited for them, so that short ones are not lost.
            return sum(times[:4]), process.memory_info().rss // MIB
    except FAULTS:
        return None


def _cpu_seconds() -> tuple[float, float]:
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    # What guests use is in the user's time already.
    every = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return every - idle, every


def _load() -> int:
    return round(100 * psutil.getloadavg()[0] / (psutil.cpu_count() or 1))


def _busy(before: tuple[float, float] | None, now: tuple[float, float] | None) -> int | None:
    if before is None or now is None or now[1] <= before[1]:
        return None
    return min(100, max(0, round(100 * (now[0] - before[0]) / (now[1] - before[1]))))


def _rate(before: Counters, now: Counters, *, then: float | None, value: float | None, per: int = KIB) -> int | None:
    """Growth per second; None at the first look, and when the counter began anew."""
    seconds = now.at_s - before.at_s
    if then is None or value is None or value < then or seconds <= 0:
        return None
    return round((value - then) / per / seconds)


def _nic(name: str, before: Counters, now: Counters, stats: Any) -> NicSample:
    here, then = now.nics[name], before.nics.get(name)
    return NicSample(
        name=name,
        rx_kib_s=_rate(before, now, then=getattr(then, "bytes_recv", None), value=here.bytes_recv),
        tx_kib_s=_rate(before, now, then=getattr(then, "bytes_sent", None), value=here.bytes_sent),
        speed_mbps=None if stats is None or stats.speed <= 0 else stats.speed,
        errors=here.errin + here.errout + here.dropin + here.dropout,
        is_up=None if stats is None else bool(stats.isup),
    )


def _disks(before: Counters, now: Counters) -> tuple[DiskSample, ...]:
    """Whole disks; of their parts, which count the same bytes again, nothing."""
    names = [name for name in sorted(now.disks) if not name.startswith(NOT_DISKS)]
    wholes = [name for name in names if not any(name != other and _is_part(name, other) for other in names)]
    return tuple(_disk(name, before, now) for name in wholes[:DISKS_MAX])


def _is_part(name: str, other: str) -> bool:
    """True for sda1 of sda, nvme0n1p1 of nvme0n1."""
    rest = name.removeprefix(other)
    return rest != name and (rest.isdigit() or (rest[:1] == "p" and rest[1:].isdigit()))


def _disk(name: str, before: Counters, now: Counters) -> DiskSample:
    here, then = now.disks[name], before.disks.get(name)
    busy_ms = _rate(before, now, then=getattr(then, "busy_time", None), value=getattr(here, "busy_time", None), per=10)
    return DiskSample(
        name=name,
        read_kib_s=_rate(before, now, then=getattr(then, "read_bytes", None), value=here.read_bytes),
        write_kib_s=_rate(before, now, then=getattr(then, "write_bytes", None), value=here.write_bytes),
        busy_percent=None if busy_ms is None else min(100, busy_ms),
    )
