"""This machine as a node: its CPUs and memory within cgroup limits, and its GPUs under names that stay."""

import os
import socket
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gangline_agent.cgroups import membership, mount_point
from gangline_agent.proc import PROC
from gangline_agent.senses import NAMELESS, Reading
from gangline_core.cluster import Gpu
from gangline_core.job import GpuShare
from gangline_wire.samples import GpuSample

MIB = 1 << 20
KIB_PER_MIB = 1024
DISK_FREE_MIB_MIN = 64
SELF = "X"
CGROUPS = Path("/sys/fs/cgroup")


class Gpus(Struct, frozen=True):
    """The node's GPUs in an order that stays although the driver's changes when a card falls off the bus."""

    gpus: tuple[Gpu, ...] = ()
    devices: dict[int, int] = {}
    """Our index -> the driver's, of those that are visible."""
    samples: tuple[GpuSample, ...] = ()
    problem: str = ""
    """Why the node takes no work although its GPUs are known."""


def describe(known: tuple[Gpu, ...], reading: Reading) -> Gpus:
    """GPUs once seen stay in the description; what the driver no longer shows is a problem, not a smaller node.

    When it shows none of them at all, that says something about the driver, not about the cards: the node takes no
    work, and nothing that runs is harmed.
    """
    visible = {gpu.uuid: k for k, gpu in enumerate(reading.gpus) if gpu.uuid}
    known_uuids = {gpu.uuid for gpu in known}
    new = [reading.gpus[k] for uuid, k in visible.items() if uuid not in known_uuids]
    gpus: list[Gpu] = []
    devices: dict[int, int] = {}
    samples: list[GpuSample] = []
    for index, gpu in enumerate((*known, *new)):
        position = visible.get(gpu.uuid)
        current = gpu if position is None else _as_known(gpu, reading.gpus[position])
        gpus.append(replace(current, index=index, healthy=True, problem=""))
        if position is not None:
            devices[index] = reading.gpus[position].index
            samples.append(replace(reading.samples[position], index=index))
        elif reading.gpus:
            problem = "the driver does not show it"
            samples.append(GpuSample(index=index, uuid=gpu.uuid, model=gpu.model, problem=problem))
    here = {gpu.uuid: gpu.index for gpu in gpus}
    gpus = [replace(gpu, paths=_paths(gpu, reading, here)) for gpu in gpus]
    problem = reading.problem
    if known and not reading.gpus and not problem:
        problem = f"the driver shows none of {len(known)} GPUs"
    if reading.gpus and not gpus and not problem:
        problem = f"the driver counts {len(reading.gpus)} GPUs and none of them says which it is"
    return Gpus(gpus=tuple(gpus), devices=devices, samples=tuple(samples), problem=problem)


def _as_known(known: Gpu, now: Gpu) -> Gpu:
    """The card as it is `now`, with what it does not say at the moment as it was known."""
    # A card that was lost says its name and nothing else.
    if not now.memory_mib and known.memory_mib > 0:
        return known
    return replace(now, model=known.model) if now.model == NAMELESS else now


def _paths(gpu: Gpu, reading: Reading, here: dict[str, int]) -> tuple[str, ...]:
    """How a card reaches the others by our indexes; what was known of one that is away stays."""
    told = reading.paths.get(gpu.uuid)
    if not told:
        return gpu.paths
    found = [""] * len(here)
    found[gpu.index] = SELF
    for uuid, path in told.items():
        if uuid in here:
            found[here[uuid]] = path
    return tuple(found)


def visible_devices(gpus: Gpus, shares: tuple[GpuShare, ...]) -> tuple[str, ...]:
    """How the driver calls the GPUs of a task: by number, slices of a card that is cut by their own names."""
    slices = {(gpu.index, one.mask): one.uuid for gpu in gpus.gpus for one in gpu.slices}
    return tuple(
        slices.get((share.index, share.slots)) or str(gpus.devices.get(share.index, share.index)) for share in shares
    )


def still_there(known: tuple[Gpu, ...], reading: Reading) -> tuple[Gpu, ...]:
    """What a starting agent takes over of an older description: all of it, unless cards were exchanged."""
    uuids = {gpu.uuid for gpu in reading.gpus}
    if len(uuids) >= len(known) > 0:
        return tuple(gpu for gpu in known if gpu.uuid in uuids)
    return known


def cpu_milli() -> int:
    """Thousandths of CPUs this process may use: its affinity, cut by cgroup quotas."""
    milli = len(os.sched_getaffinity(0)) * 1000
    for path in _cgroup_folders():
        milli = min(milli, *_quotas(path), milli)
    return max(1, milli)


def memory_mib() -> int:
    """Memory this process may use: the machine's, cut by cgroup limits."""
    total = _machine_memory_mib()
    for path in _cgroup_folders():
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = _number(path / name)
            if limit is not None and limit // MIB > 0:
                total = min(total, limit // MIB)
    return total


def _machine_memory_mib() -> int:
    """What the kernel has in all; 0 where it does not say so."""
    try:
        for line in (PROC / "meminfo").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name == "MemTotal":
                return int(rest.split()[0]) // KIB_PER_MIB
    except (OSError, ValueError, IndexError):
        return 0
    return 0


def disk_problem(folder: str) -> str:
    """Why no task should come here for lack of disk; empty when there is room."""
    try:
        disk = os.statvfs(folder)
    except OSError as error:
        return f"{folder}: {error.strerror}"
    if disk.f_flag & os.ST_RDONLY:
        return f"the disk of {folder} is read-only"
    if disk.f_files and not disk.f_favail:
        return f"the disk of {folder} takes no more files"
    free_mib = disk.f_bavail * disk.f_frsize // MIB
    return f"only {free_mib} MiB are free on the disk of {folder}" if free_mib < DISK_FREE_MIB_MIN else ""


def own_address(bus_url: str) -> str:
    """Address by which this machine is seen from where the message bus is; loopback when the bus is here."""
    host = bus_url.partition("://")[2].rpartition("@")[2].split(",")[0].rpartition(":")[0].strip("[]")
    if host in ("", "localhost", "127.0.0.1", "::1"):
        return "127.0.0.1"
    try:
        family, _, _, _, target = socket.getaddrinfo(host, 4222, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(target)  # A datagram socket sends nothing here; it only chooses the way.
            return str(probe.getsockname()[0])
    except OSError:
        return socket.gethostname()


def _cgroup_folders() -> list[Path]:
    """Folders whose limits may bind this process, in either version and in containers that show only their own."""
    found = [CGROUPS, CGROUPS / "memory", CGROUPS / "cpu"]
    try:
        memberships = (PROC / "self" / "cgroup").read_text()
        mount, path = mount_point((PROC / "self" / "mountinfo").read_text()), membership(memberships)
    except OSError:
        return found
    if mount is not None and path is not None:
        here = Path(mount) / path.lstrip("/")
        found += [here, *(parent for parent in here.parents if parent.is_relative_to(mount))]
    for line in memberships.splitlines():
        _, names, path = line.split(":", 2)
        for name in set(names.split(",")) & {"memory", "cpu"}:
            found.append(CGROUPS / name / path.lstrip("/"))
    return found


def _quotas(folder: Path) -> list[int]:
    """CPU quotas of a cgroup in thousandths of CPUs."""
    found = []
    try:
        quota, period = (folder / "cpu.max").read_text().split()
        if quota != "max":
            found.append(int(quota) * 1000 // int(period))
    except (OSError, ValueError):
        pass
    quota_us, period_us = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
    if quota_us is not None and quota_us > 0 and period_us:
        found.append(quota_us * 1000 // period_us)
    return found


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
