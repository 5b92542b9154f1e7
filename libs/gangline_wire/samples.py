"""What agents say of their machines each second: samples, which are heartbeats too. None is "not known", never zero."""

from msgspec import Struct

from gangline_core.cluster import Gpu, Nic
from gangline_core.sizes.progress import Progress


class SliceSample(Struct, frozen=True, omit_defaults=True):
    """One slice of a card that is cut. Power and temperature are the card's: they stand there, once."""

    uuid: str
    profile: str = ""
    instance: int | None = None
    """Number of the GPU instance on its card."""
    memory_used_mib: int | None = None
    memory_total_mib: int | None = None
    sm_active_percent: int | None = None
    """Where the driver measures slices; a card that is cut has no use of its own."""
    tensor_active_percent: int | None = None
    processes: tuple[tuple[int, int], ...] = ()
    tasks: tuple[str, ...] = ()
    """Tasks that these processes belong to."""


class CardEvent(Struct, frozen=True, array_like=True, gc=False):
    """One Xid event."""

    number: int
    """When the agent heard it, in ms, or one more than the event before; of one card it only rises."""
    xid: int


class GpuSample(Struct, frozen=True, omit_defaults=True):
    """One GPU at one moment; None is "not available", never zero."""

    index: int
    uuid: str = ""
    model: str = ""
    utilisation_percent: int | None = None
    memory_used_mib: int | None = None
    memory_total_mib: int | None = None
    temperature_celsius: int | None = None
    power_milliwatts: int | None = None
    memory_busy_percent: int | None = None
    """Share of time in which memory was read or written."""
    clock_sm_mhz: int | None = None
    clock_memory_mhz: int | None = None
    energy_millijoules: int | None = None
    """Since the driver was loaded."""
    throttled: tuple[str, ...] = ()
    """Why clocks are held down, such as "hw_thermal"; idleness and settings are no reason here."""
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    """Errors since the driver was loaded."""
    remapped_corrected: int | None = None
    remapped_uncorrected: int | None = None
    """Memory rows that were replaced, after errors of either kind."""
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    """Whether memory rows wait to be remapped, and whether that failed."""
    nvlinks_down: int | None = None
    """NVLinks that should be up and are not."""
    nvlinks_up: int | None = None
    nvlink_errors: int | None = None
    """Replays, recoveries and checksum errors of all links, since the driver was loaded."""
    nvlink_rx_kib: int | None = None
    nvlink_tx_kib: int | None = None
    """Data over all links since the driver was loaded."""
    pcie_gen: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    """Lanes in use, and lanes that card and slot could use. An idle card lowers its generation, never its width."""
    pcie_replays: int | None = None
    pcie_rx_kib_s: int | None = None
    pcie_tx_kib_s: int | None = None
    sm_active_percent: int | None = None
    sm_occupancy_percent: int | None = None
    tensor_active_percent: int | None = None
    dram_active_percent: int | None = None
    engine_active_percent: int | None = None
    """Shares of time and of multiprocessors since the last sample, where the card measures them (Hopper and later)."""
    encoder_percent: int | None = None
    decoder_percent: int | None = None
    temperature_memory_celsius: int | None = None
    power_limit_milliwatts: int | None = None
    slices: tuple[SliceSample, ...] = ()
    """Slices that this card is cut into."""
    xids: tuple[int, ...] = ()
    """Xid events since the last sample, of agents that do not number them."""
    processes: tuple[tuple[int, int], ...] = ()
    """Processes on it: process id and MiB (-1 where the driver does not tell)."""
    tasks: tuple[str, ...] = ()
    """Tasks that these processes belong to."""
    absent: tuple[str, ...] = ()
    """Fields that the driver did not give, so that their absence is no guess."""
    why: dict[str, str] = {}
    """What the driver said instead, for those of them that it does not merely not support."""
    problem: str = ""
    """Why the GPU must not be used, such as "GPU is lost"; empty when healthy."""
    vgpu_licensed: bool | None = None
    """Whether a virtual GPU has its licence; None on cards that need none."""
    events: tuple[CardEvent, ...] = ()
    """Its Xid events of the last minutes, in every sample anew: whoever hears any of them knows them all."""
    pci_bus_id: str | None = None
    """Where it hangs, as NVIDIA's tools write it: "00000000:1E:00.0"."""
    minor: int | None = None
    """Number of its device file: 0 is /dev/nvidia0."""
    product: str | None = None
    """Its model as the driver calls it."""


class NicSample(Struct, frozen=True, omit_defaults=True):
    """A network interface of the machine."""

    name: str
    rx_kib_s: int | None = None
    tx_kib_s: int | None = None
    speed_mbps: int | None = None
    errors: int | None = None
    """Errors and drops since the machine started."""
    is_up: bool | None = None


class DiskSample(Struct, frozen=True, omit_defaults=True):
    """A disk of the machine."""

    name: str
    read_kib_s: int | None = None
    write_kib_s: int | None = None
    busy_percent: int | None = None


class TaskSample(Struct, frozen=True, omit_defaults=True):
    """What the processes of one task use of the machine."""

    task: str
    cpu_milli: int | None = None
    """Thousandths of a CPU, since the last sample."""
    memory_mib: int | None = None


class NodeSample(Struct, frozen=True, omit_defaults=True):
    """One node at one moment; also its heartbeat. An agent of many nodes sends one message for all of them."""

    node: str
    at: int
    gpus: tuple[GpuSample, ...] = ()
    cpu_percent: int | None = None
    memory_used_mib: int | None = None
    memory_total_mib: int | None = None
    swap_used_mib: int | None = None
    load_percent: int | None = None
    """Processes that run or want to, of what the CPUs take: 100 is just full."""
    nics: tuple[NicSample, ...] = ()
    disks: tuple[DiskSample, ...] = ()
    disk_free_mib: int | None = None
    disk_total_mib: int | None = None
    """Of the disk on which tasks write."""
    tasks: tuple[TaskSample, ...] = ()
    absent: tuple[str, ...] = ()
    """Fields of the machine that it did not give."""


class JobReport(Struct, frozen=True, omit_defaults=True):
    """What one member said of its job's progress since the last beat."""

    job: int
    attempt: int
    task: str
    progress: Progress


class NodeView(Struct, frozen=True, omit_defaults=True):
    """What an agent sees of a machine that somebody else carries, such as a node of a cluster; sent now and then."""

    node: str
    gpus: tuple[Gpu, ...] = ()
    """Its cards as the driver shows them; their health is in the samples."""
    nics: tuple[Nic, ...] = ()
    labels: dict[str, str] = {}
    """What was found out about drivers and cards."""
    problem: str = ""
    """Why the machine should take no GPU work, such as a driver that does not answer."""


class Samples(Struct, frozen=True, omit_defaults=True):
    """Samples of one agent's nodes, sent together on `gangline.samples.<agent>`."""

    agent: str
    nodes: tuple[NodeSample, ...]
    reports: tuple[JobReport, ...] = ()
    beats: dict[str, int] = {}
    """Tasks that touched their heartbeat file: when they last did, in ms."""
    views: tuple[NodeView, ...] = ()
    """Machines that this agent only looks at."""
    stuck: tuple[str, ...] = ()
    """Tasks whose collective library gave an operation up: it left its flight record."""
