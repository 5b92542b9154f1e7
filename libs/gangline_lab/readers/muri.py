"""Muri's lists: `job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,
resource_time_0..2,priority`; all times in milliseconds.

The stages of one iteration become attributes, for policies that interleave jobs: loading and preparing data (storage,
then CPU), computing, and exchanging gradients (none on one GPU). Together they may take longer than `iteration_time`,
for a job overlaps its own stages. A `priority` of 1 is what its simulator of AntMan takes for an opportunistic job; it
becomes an attribute, for the other policies make no difference.
"""

from pathlib import Path

from gangline_lab.rows import Row, read_table
from gangline_lab.sim.workload import Arrival, Work, Workload, gpu_job, workload

STAGES = ("resource_time_0", "resource_time_1", "resource_time_2")
NEEDED = ("job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration", "iteration_time", *STAGES)
GPUS_MAX = 100_000


def read_muri(path: Path) -> Workload:
    """All jobs.

    Raises:
        TraceError: with line and column.
    """
    return workload(path.name, [_arrival(row) for row in read_table(path, NEEDED, optional=("batch_size", "priority"))])


def _arrival(row: Row) -> Arrival:
    run_ms = row.time_ms("duration", unit_ms=1)
    iteration_ms = row.whole("iteration_time", least=1)
    stages = [row.number(stage) for stage in STAGES]
    attributes: dict[str, str | int | float | bool] = {
        "model": row.text("model_name"),
        "iteration_ms": iteration_ms,
        "loading_ms": stages[0],
        "compute_ms": stages[1],
        "network_ms": stages[2],
    }
    if row.has("priority") and row.whole("priority", most=1):
        attributes["opportunistic"] = True
    spec = gpu_job(
        f"muri-{row.whole('job_id')}",
        gpus=row.whole("num_gpu", least=1, most=GPUS_MAX),
        run_s=run_ms / 1000,
        attributes=attributes,
    )
    work = Work(run_ms=run_ms, row=row.text("model_name"), steps=row.whole("iterations"))
    return Arrival(at_ms=row.time_ms("submit_time", unit_ms=1), spec=spec, work=work)
