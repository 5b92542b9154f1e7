"""The openb pod list (Alibaba cluster-trace-gpu-v2023): thousandths of cores and GPUs, MiB, times in seconds.

A pod arrives at `creation_time` and runs from `scheduled_time` to `deletion_time`; one that was never scheduled runs as
long as it existed. `gpu_milli` counts only for one GPU; QoS "BE" is opportunistic, "Guaranteed" and "LS" are as usual.
"""

from pathlib import Path

from gangline_core.spec import GPU_MILLI, JobSpec, Resources, Role, ServiceClass
from gangline_lab.rows import TIME_MAX_S, Row, read_table
from gangline_lab.sim.workload import Arrival, Work, Workload, workload

NEEDED = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
OPTIONAL = ("gpu_spec", "qos", "creation_time", "deletion_time", "scheduled_time")
CLASSES = {"BE": ServiceClass.OPPORTUNISTIC, "Guaranteed": ServiceClass.GUARANTEED}


def read_openb(path: Path) -> Workload:
    """All pods, each a job of one task; lists without times arrive all at once and run an hour.

    Raises:
        TraceError: with line and column.
    """
    return workload(path.name, [_arrival(row) for row in read_table(path, NEEDED, optional=OPTIONAL)])


def _arrival(row: Row) -> Arrival:
    gpus = row.whole("num_gpu", most=64)
    milli = row.whole("gpu_milli", most=GPU_MILLI) if gpus == 1 else GPU_MILLI
    created = row.whole("creation_time", most=TIME_MAX_S) if row.has("creation_time") else 0
    run_s = 3_600
    if row.has("deletion_time"):
        began = row.whole("scheduled_time", most=TIME_MAX_S) if row.has("scheduled_time") else created
        run_s = row.whole("deletion_time", least=began, most=TIME_MAX_S) - began
    resources = Resources(
        gpu_milli=gpus * milli,
        gpu_models=tuple(model for model in row.optional("gpu_spec").split("|") if model),
        cpu_milli=row.whole("cpu_milli"),
        memory_mib=row.whole("memory_mib"),
    )
    spec = JobSpec(
        name=row.text("name"),
        group=(row.optional("qos") or "all").lower(),
        user="trace",
        roles=(Role(name="worker", count=1, min_count=1, max_count=1, resources=resources),),
        estimate_s=max(1, run_s),
        service_class=CLASSES.get(row.optional("qos"), ServiceClass.BURSTABLE),
    )
    return Arrival(at_ms=1000 * created, spec=spec, work=Work(run_ms=1000 * max(1, run_s)))
