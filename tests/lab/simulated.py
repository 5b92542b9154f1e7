"""Small traces for the simulator's tests: only what a test cares about is named."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dollhouse.oracles import Oracles
from gangline_core.cluster import Policy
from gangline_core.fold import apply
from gangline_core.state import State
from gangline_lab.archive import read
from gangline_lab.sim.conditions import Conditions
from gangline_lab.sim.engine import RunResult, Scenario, simulate
from gangline_lab.sim.fleet import read_fleet
from gangline_lab.sim.workload import Arrival, Work, Workload, gpu_job, workload

FIFO = Policy(ordering="fifo", preemption=False)


def trace(*jobs: tuple[float, int, float], groups: Sequence[str] = (), **fields: Any) -> Workload:
    """Jobs as (arrival in s, GPUs, run time in s); `groups` in the same order."""
    arrivals = [
        Arrival(
            at_ms=round(1000 * at_s),
            spec=gpu_job(f"j{k}", gpus=gpus, run_s=run_s, group=groups[k] if groups else "all", **fields),
            work=Work(run_ms=round(1000 * run_s)),
        )
        for k, (at_s, gpus, run_s) in enumerate(jobs)
    ]
    return workload("test", arrivals)


def run(
    jobs: Workload, cluster: str = "1x4xV100", *, policy: Policy = FIFO, seed: int = 0, **conditions: Any
) -> RunResult:
    """The trace on a cluster; its log passes all oracles, message by message, and replays."""
    scenario = Scenario(
        trace=jobs,
        fleet=read_fleet(cluster),
        policies={"default": policy},
        conditions=Conditions(**conditions),
        seed=seed,
    )
    with TemporaryDirectory() as folder:
        result = simulate(scenario, archive=Path(folder) / "archive")
        prove_archive(Path(folder) / "archive")
    return result


def record(folder: Path, jobs: Workload, policy: Policy = FIFO, cluster: str = "1x4xV100") -> Path:
    """The archive of such a run, in this folder."""
    simulate(Scenario(trace=jobs, fleet=read_fleet(cluster), policies={"default": policy}), archive=folder)
    prove_archive(folder)
    return folder


def prove_archive(archive: Path) -> None:
    """The oracles O1 to O7 look at every message of an archive.

    Raises:
        BrokenOracleError: a promise is broken.
    """
    state, oracles = State(), Oracles()
    for entry in read(archive):
        oracles.look(state, entry.message, apply(state, entry.message))
    oracles.close(state)


def jcts_s(result: RunResult) -> list[float]:
    """Completion times in s, by place in the trace."""
    return [job.jct_ms / 1000 for job in result.jobs]
