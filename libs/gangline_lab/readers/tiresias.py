"""The Tiresias simulator's list: `job_id,num_gpu,submit_time,iterations,model_name,duration,interval`; seconds."""

from pathlib import Path

from gangline_lab.rows import read_table
from gangline_lab.sim.workload import Arrival, Work, Workload, gpu_job, workload

NEEDED = ("job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration")
GPUS_MAX = 100_000


def read_tiresias(path: Path) -> Workload:
    """All jobs.

    Raises:
        TraceError: with line and column.
    """
    arrivals = []
    for row in read_table(path, NEEDED):
        run_ms, model = row.time_ms("duration"), row.text("model_name")
        spec = gpu_job(
            f"tiresias-{row.whole('job_id')}",
            gpus=row.whole("num_gpu", least=1, most=GPUS_MAX),
            run_s=run_ms // 1000,
            attributes={"model": model},
        )
        work = Work(run_ms=run_ms, row=model, steps=row.whole("iterations"))
        arrivals.append(Arrival(at_ms=row.time_ms("submit_time"), spec=spec, work=work))
    return workload(path.name, arrivals)
