"""Pollux' and Sia's workloads: `name,time,application,num_replicas,batch_size`; arrival in seconds, GPUs, samples.

The list has no run times: they follow from the application's profile (see `gangline_lab.sim.goodput`), which a
simulation of these jobs needs.
"""

from pathlib import Path

from gangline_core.spec import GPU_MILLI, JobSpec, Resources, Role
from gangline_lab.rows import Row, read_table
from gangline_lab.sim.workload import UNKNOWN_MS, Arrival, Work, Workload, workload

NEEDED = ("name", "time", "application", "num_replicas", "batch_size")
REPLICAS_MAX = 4_096
BATCH_MAX = 10**9


def read_pollux(path: Path) -> Workload:
    """All jobs, rigid at the number of replicas they ask for: each replica is a task with one GPU.

    Raises:
        TraceError: with line and column.
    """
    return workload(path.name, [_arrival(row) for row in read_table(path, NEEDED)])


def _arrival(row: Row) -> Arrival:
    replicas = row.whole("num_replicas", least=1, most=REPLICAS_MAX)
    application, batch_size = row.text("application"), row.whole("batch_size", least=1, most=BATCH_MAX)
    role = Role(
        name="replica",
        count=replicas,
        min_count=replicas,
        max_count=replicas,
        resources=Resources(gpu_milli=GPU_MILLI),
    )
    spec = JobSpec(
        name=row.text("name"),
        group="all",
        user="trace",
        roles=(role,),
        attributes={"model": application, "batch_size": batch_size},
    )
    work = Work(run_ms=UNKNOWN_MS, row=application, batch_size=batch_size)
    return Arrival(at_ms=row.time_ms("time"), spec=spec, work=work)
