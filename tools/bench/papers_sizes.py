"""B3: policies that size elastic jobs, on Pollux's workloads, through the whole scheduler; jobs report each minute.

The default policy for sizes stands in `bench elastic`. Sia's own workloads are not to be had, and nobody published
Gandiva's grow-shrink on these: both stand beside Pollux.
"""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.pollux_whole import Remembering, whole_run
from bench.rows import Baseline, Measured
from gangline_lab.metrics import measure
from gangline_lab.policyfile import read_policy
from gangline_lab.replay import replay
from gangline_lab.sim.goodput import Application

DATA = Path(__file__).parent / "data" / "pollux"
PAGES = Path(__file__).parents[2] / "policies" / "papers"
POLLUX = {1: 2089.0, 2: 3323.0, 3: 2188.0, 4: 2721.0, 5: 2674.0, 6: 2446.13, 7: 3616.0, 8: 2952.0}
"""Mean JCT in s of the Pollux artefact, by workload."""
POLLUX_MEAN = 2751.1
SIZES = ("pollux", "sia", "gandiva")


def sizes(pages: Sequence[str], workloads: Sequence[int], *, is_replayed: bool = False) -> Iterator[Measured]:
    """B3 for these pages."""
    folders = sorted(one for one in (DATA / "profiles").iterdir() if one.is_dir())
    applications: dict[str, Application] = {one.name: Remembering(one) for one in folders}
    for page in pages:
        rules, means = read_policy(PAGES / f"{page}.yaml"), list[float]()
        for number in workloads:
            path = DATA / "workloads" / f"workload-{number}.csv"
            with tempfile.TemporaryDirectory() as folder:
                archive = Path(folder) / "archive" if is_replayed else None
                means.append(measure(whole_run(path, applications, rules, archive)).jct_s.mean)
                if archive is not None:
                    name = f"B10.differences.{page}.w{number}"
                    yield Measured(name=name, value=int(not replay(archive).equal), unit="", better="lower")
            known = Baseline(name="Pollux artefact, Pollux", value=POLLUX[number])
            yield Measured(name=f"B3.{page}.w{number}", value=means[-1], unit="s", better="lower", baseline=known)
        if set(workloads) == POLLUX.keys():
            known = Baseline(name="Pollux artefact, Pollux", value=POLLUX_MEAN)
            mean = sum(means) / len(means)
            yield Measured(name=f"B3.{page}.mean", value=mean, unit="s", better="lower", baseline=known)
