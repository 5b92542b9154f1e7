"""The Philly-derived list: `timestamp,duration,num_gpus,gpu_time,cluster`; seconds, whole GPUs, local times."""

from pathlib import Path

from gangline_lab.philly import read_jobs
from gangline_lab.sim.workload import Arrival, Work, Workload, gpu_job, workload


def read_philly(path: Path) -> Workload:
    """All jobs; each virtual cluster is a group.

    Raises:
        TraceError: with line and column.
    """
    return workload(
        path.name,
        (
            Arrival(
                at_ms=1000 * job.arrival_s,
                spec=gpu_job(f"philly-{job.number}", gpus=job.gpus, run_s=job.run_s, group=job.cluster),
                work=Work(run_ms=1000 * job.run_s),
            )
            for job in read_jobs(path)
        ),
    )
