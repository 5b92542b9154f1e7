"""Every Prometheus metric of the platform, once, by name; a service asks for its metrics here."""

from collections.abc import Callable

from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
WAIT_SECONDS = (0.1, 1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 43_200.0, 86_400.0, 604_800.0)


class Metric(Struct, frozen=True):
    """One row: what is measured, in which unit (the name's end), and by which labels it is told apart."""

    kind: str
    """"counter", "gauge" or "histogram"."""
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = SECONDS


GPU_LABELS = (
    "Hostname", "gpu", "UUID", "pci_bus_id", "device", "modelName", "GPU_I_ID", "GPU_I_PROFILE",
    "namespace", "pod", "container", "job", "group", "user", "task",
)  # fmt: skip

METRICS: dict[str, Metric] = {
    # Every service.
    "gangline_build_info": Metric("gauge", "Always 1; the version is a label.", ("version",)),
    "gangline_service_ready": Metric("gauge", "1 while /readyz says yes.", ("service",)),
    "gangline_bus_connected": Metric("gauge", "1 while the message bus answers."),
    "gangline_bus_dropped_messages_total": Metric("counter", "Fire-and-forget messages thrown away."),
    "gangline_log_sequence": Metric("gauge", "Sequence of the last folded message of the log."),
    "gangline_log_resubscriptions_total": Metric("counter", "How often reading the log had to begin anew."),
    "gangline_log_cut_sequence": Metric("gauge", "Messages up to this one were dropped from the log (recorder)."),
    "gangline_log_fill_ratio": Metric("gauge", "Share of the log's byte limit that is used, 0 to 1."),
    "gangline_log_alarms_total": Metric("counter", "Messages or facts that did not belong and were parked."),
    "gangline_lane_leading": Metric("gauge", "1 while this process leads the lane.", ("lane",)),
    "gangline_loop_lag_seconds": Metric("gauge", "How late the event loop woke up lately."),
    "gangline_spans_dropped_total": Metric("counter", "Trace spans thrown away because the collector was slow."),
    # Gateway and admission.
    "gangline_http_requests_total": Metric("counter", "HTTP requests answered.", ("route", "method", "status")),
    "gangline_http_request_duration_seconds": Metric("histogram", "Time to answer an HTTP request.", ("route",)),
    "gangline_http_requests_in_flight": Metric("gauge", "HTTP requests being answered."),
    "gangline_jobs_admitted_total": Metric("counter", "Jobs admitted.", ("group",)),
    "gangline_jobs_rejected_total": Metric("counter", "Jobs refused at the door.", ("reason",)),
    # Queue and placement.
    "gangline_jobs": Metric("gauge", "Unfinished jobs by state.", ("pool", "state")),
    "gangline_jobs_ended_total": Metric("counter", "Jobs that ended.", ("pool", "state")),
    "gangline_job_wait_seconds": Metric("histogram", "From queued to running.", ("pool",), WAIT_SECONDS),
    "gangline_rounds_total": Metric("counter", "Scheduling rounds decided.", ("pool",)),
    "gangline_round_duration_seconds": Metric("histogram", "From a round's opening to its folded decision.", ("pool",)),
    "gangline_decision_duration_seconds": Metric("histogram", "Computing one decision.", ("pool", "step")),
    "gangline_placements_total": Metric("counter", "Gangs placed.", ("pool",)),
    "gangline_share_commits_total": Metric(
        "counter", "Gangs that one of several schedulers placed.", ("pool", "scheduler")
    ),
    "gangline_share_conflicts_total": Metric(
        "counter",
        "Gangs that it placed on what had changed since it looked; nothing was booked.",
        ("pool", "scheduler"),
    ),
    "gangline_preemptions_total": Metric("counter", "Jobs evicted for another one.", ("pool",)),
    "gangline_resizes_total": Metric("counter", "Proposed new sizes of elastic jobs.", ("pool",)),
    "gangline_limits_set_total": Metric("counter", "New limits of jobs that work beside others.", ("pool",)),
    "gangline_resizes_failed_total": Metric("counter", "Changes of size that took too long.", ("pool",)),
    # Nodes.
    "gangline_nodes_wanted": Metric(
        "gauge", "Nodes that the pool's jobs would use well, by the policy `band`.", ("pool",)
    ),
    "gangline_nodes": Metric("gauge", "Nodes by state.", ("pool", "state")),
    "gangline_gpus": Metric("gauge", "GPUs (fractions count) by model and state.", ("pool", "model", "state")),
    "gangline_gpu_utilisation_ratio": Metric("gauge", "Mean use of a node's GPUs, 0 to 1.", ("node",)),
    # GPUs one by one, under the names of NVIDIA's DCGM exporter.
    "DCGM_FI_DEV_GPU_UTIL": Metric(
        "gauge", "Percent of time in which some kernel ran; not how much of the GPU it used.", GPU_LABELS
    ),
    "DCGM_FI_DEV_MEM_COPY_UTIL": Metric("gauge", "Percent of time in which memory was read or written.", GPU_LABELS),
    "DCGM_FI_DEV_FB_USED": Metric("gauge", "Memory in use, MiB.", GPU_LABELS),
    "DCGM_FI_DEV_FB_FREE": Metric("gauge", "Memory free, MiB.", GPU_LABELS),
    "DCGM_FI_DEV_POWER_USAGE": Metric("gauge", "Power, watts.", GPU_LABELS),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": Metric(
        "counter", "Energy since the driver was loaded, millijoules.", GPU_LABELS
    ),
    "DCGM_FI_DEV_GPU_TEMP": Metric("gauge", "Temperature, degrees Celsius.", GPU_LABELS),
    "DCGM_FI_DEV_SM_CLOCK": Metric("gauge", "Clock of the multiprocessors, MHz.", GPU_LABELS),
    "DCGM_FI_DEV_MEM_CLOCK": Metric("gauge", "Clock of the memory, MHz.", GPU_LABELS),
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": Metric(
        "counter", "Uncorrectable memory errors since the driver was loaded.", GPU_LABELS
    ),
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": Metric(
        "counter", "Corrected memory errors since the driver was loaded.", GPU_LABELS
    ),
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": Metric("counter", "PCIe packets sent again.", GPU_LABELS),
    "DCGM_FI_DEV_XID_ERRORS": Metric("gauge", "The last Xid that was heard of.", GPU_LABELS),
    "DCGM_FI_DEV_MEMORY_TEMP": Metric("gauge", "Temperature of the memory, degrees Celsius.", GPU_LABELS),
    "DCGM_FI_DEV_PCIE_TX_THROUGHPUT": Metric("gauge", "Sent over PCIe, KiB per second.", GPU_LABELS),
    "DCGM_FI_DEV_PCIE_RX_THROUGHPUT": Metric("gauge", "Received over PCIe, KiB per second.", GPU_LABELS),
    "DCGM_FI_DEV_ENC_UTIL": Metric("gauge", "Percent of time in which the encoder worked.", GPU_LABELS),
    "DCGM_FI_DEV_DEC_UTIL": Metric("gauge", "Percent of time in which the decoder worked.", GPU_LABELS),
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": Metric(
        "counter", "Data over all NVLinks, both directions, since the driver was loaded, KiB.", GPU_LABELS
    ),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": Metric(
        "counter", "Memory rows replaced after uncorrectable errors.", GPU_LABELS
    ),
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": Metric(
        "counter", "Memory rows replaced after corrected errors.", GPU_LABELS
    ),
    "DCGM_FI_DEV_VGPU_LICENSE_STATUS": Metric("gauge", "1 when a virtual GPU has its licence.", GPU_LABELS),
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": Metric("gauge", "1 when a memory row could not be replaced.", GPU_LABELS),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": Metric("gauge", "Share of time in which the engine worked, 0 to 1.", GPU_LABELS),
    "DCGM_FI_PROF_SM_ACTIVE": Metric(
        "gauge", "Share of time in which a multiprocessor had work, mean over all, 0 to 1.", GPU_LABELS
    ),
    "DCGM_FI_PROF_SM_OCCUPANCY": Metric("gauge", "Share of possible warps that were resident, 0 to 1.", GPU_LABELS),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": Metric("gauge", "Share of time tensor cores worked, 0 to 1.", GPU_LABELS),
    "DCGM_FI_PROF_DRAM_ACTIVE": Metric("gauge", "Share of time in which memory moved data, 0 to 1.", GPU_LABELS),
    # Machines.
    "gangline_node_cpu_ratio": Metric("gauge", "Share of CPU time that is used, 0 to 1.", ("node",)),
    "gangline_node_load_ratio": Metric("gauge", "Processes that run or want to, per CPU.", ("node",)),
    "gangline_node_memory_used_bytes": Metric("gauge", "Memory in use.", ("node",)),
    "gangline_node_swap_used_bytes": Metric("gauge", "Swap space in use.", ("node",)),
    "gangline_node_disk_free_bytes": Metric("gauge", "Free on the disk on which tasks write.", ("node",)),
    "gangline_node_network_bytes_per_second": Metric(
        "gauge", "Traffic of a network card.", ("node", "device", "direction")
    ),
    "gangline_node_io_bytes_per_second": Metric("gauge", "Traffic of a disk.", ("node", "device", "direction")),
    # What telemetry found.
    "gangline_gpu_failures_total": Metric("counter", "GPUs taken out of use."),
    "gangline_node_losses_total": Metric("counter", "Nodes that fell silent."),
    "gangline_hangs_total": Metric("counter", "Gangs that hung and were started again.", ("sign",)),
    "gangline_reclaims_total": Metric("counter", "Jobs that did not use their GPUs and lost them."),
    "gangline_stragglers_total": Metric("counter", "Members found slower than the others of their gang."),
    "gangline_trespasses_total": Metric("counter", "Tasks found on GPUs that they do not hold."),
    "gangline_samples_total": Metric("counter", "Node samples heard."),
    # Accounting, recorder, agent.
    "gangline_gpu_usage_seconds_total": Metric("counter", "GPU-seconds charged.", ("group",)),
    "gangline_archive_messages_total": Metric("counter", "Log messages written to the archive."),
    "gangline_archive_bytes_total": Metric("counter", "Bytes written to the archive."),
    "gangline_events_published_total": Metric("counter", "Public events published."),
    "gangline_tasks_running": Metric("gauge", "Processes this agent runs."),
    "gangline_tasks_started_total": Metric("counter", "Processes started."),
    "gangline_tasks_ended_total": Metric("counter", "Processes ended.", ("cause",)),
    "gangline_task_output_bytes_total": Metric("counter", "Job output shipped."),
    # Kubernetes.
    "gangline_kubernetes_bound_total": Metric("counter", "Pods created on or bound to their node."),
    "gangline_kubernetes_bind_seconds": Metric("histogram", "From an order to its bound pod."),
    "gangline_kubernetes_contested_total": Metric(
        "counter", "GPUs of running tasks that another scheduler gave away, too."
    ),
    "gangline_kubernetes_refused_total": Metric("counter", "Pods the cluster refused.", ("cause",)),
    "gangline_kubernetes_watch_failures_total": Metric(
        "counter", "Watches that ended at once or failed, again and again.", ("kind",)
    ),
    "gangline_kubernetes_unreadable_total": Metric(
        "counter", "Objects that could not be read, or about which something could not be done.", ("kind",)
    ),
    "gangline_kubernetes_missed_changes_total": Metric("counter", "Changes only a full list showed.", ("kind",)),
}


class Metrics:
    """The process's registry; unknown names are refused, known ones are made on first use."""

    def __init__(self) -> None:
        """An empty registry of our own: tests and several services in one process do not collide."""
        self.registry = CollectorRegistry()
        self._made: dict[str, Counter | Gauge | Histogram] = {}
        self._counters: dict[tuple[str, ...], Counter] = {}
        """By name and labels, as they were asked for: the library takes its time to find them."""
        self._totals: dict[str, float] = {}
        self._refreshers: list[Callable[[], None]] = []
        self._others: list[Callable[[], bytes]] = []
        for name, row in METRICS.items():
            # Prometheus sees no increase in a counter that begins with its first event: alerts missed that one.
            if row.kind == "counter" and not row.labels:
                self._metric(name)

    def count(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Add to a counter."""
        key = (name, *labels, *labels.values()) if labels else (name,)
        found = self._counters.get(key)
        if found is None:
            found = self._counters[key] = self.counter(name, **labels)
        found.inc(amount)

    def stand(self, name: str, **labels: str) -> None:
        """Let a counter with labels be there, at 0, before its first event: it is no increase otherwise."""
        self.count(name, 0.0, **labels)

    def raise_to(self, name: str, total: float) -> None:
        """Bring a counter without labels up to a total that is counted elsewhere."""
        before = self._totals.get(name, 0.0)
        if total > before:
            self._totals[name] = total
            self.count(name, total - before)

    def set(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        found = self._metric(name)
        assert isinstance(found, Gauge), f"{name} is no gauge"
        (found.labels(**labels) if labels else found).set(value)

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Enter a value into a histogram."""
        found = self._metric(name)
        assert isinstance(found, Histogram), f"{name} is no histogram"
        (found.labels(**labels) if labels else found).observe(value)

    def counter(self, name: str, **labels: str) -> Counter:
        """A counter at hand, for those who count thousands of times per second."""
        found = self._metric(name)
        assert isinstance(found, Counter), f"{name} is no counter"
        return found.labels(**labels) if labels else found

    def histogram(self, name: str, **labels: str) -> Histogram:
        """A histogram at hand, likewise."""
        found = self._metric(name)
        assert isinstance(found, Histogram), f"{name} is no histogram"
        return found.labels(**labels) if labels else found

    def clear(self, name: str) -> None:
        """Forget a metric's labelled values, before setting those that still exist."""
        found = self._made.get(name)
        if found is not None and METRICS[name].labels:
            self._counters = {key: counter for key, counter in self._counters.items() if key[0] != name}
            found.clear()

    def set_leading(self, lane: str, *, leads: bool) -> None:
        """Whether this process leads the lane."""
        self.set("gangline_lane_leading", 1.0 if leads else 0.0, lane=lane)

    def before_render(self, refresh: Callable[[], None]) -> None:
        """Call this before each scrape, to set gauges that are read off the state."""
        self._refreshers.append(refresh)

    def also_render(self, other: Callable[[], bytes]) -> None:
        """Append this text to each scrape: metrics of the table that are too many to be kept one by one."""
        self._others.append(other)

    def render(self) -> bytes:
        """The Prometheus text of everything."""
        for refresh in self._refreshers:
            refresh()
        return generate_latest(self.registry) + b"".join(other() for other in self._others)

    def _metric(self, name: str) -> Counter | Gauge | Histogram:
        found = self._made.get(name)
        if found is None:
            found = self._made[name] = self._make(name, METRICS[name])
        return found

    def _make(self, name: str, row: Metric) -> Counter | Gauge | Histogram:
        if row.kind == "counter":
            return Counter(name, row.help, row.labels, registry=self.registry)
        if row.kind == "gauge":
            return Gauge(name, row.help, row.labels, registry=self.registry)
        return Histogram(name, row.help, row.labels, registry=self.registry, buckets=row.buckets)
