"""Published results beside ours: the baselines reproduced first, then our default policy on the same inputs.

Every number of ours comes from the lab's simulator, that is from the code that decides in production, under the policy
pages of policies/papers. A row's baseline is the published value; why they differ stands in docs/lab.md.

- B2: the eight workloads of Pollux (OSDI 2021), 16 nodes of 4 GPUs, 60 s rounds, 30 s for a start.
- B3: the same workloads with jobs that may have any size (see papers_sizes).
- B4 and B5: the tables of Shockwave and Gavel, whose policies lend room for a time (see papers_leases).
- B6 and B9: Muri's gangs, and spot jobs (see papers_sharing); two jobs on the same GPUs (see papers_pairs).
- B7: the Philly trace (see papers_philly).
- The default and the page that we recommend beside the best published value of every metric (see papers_beside).
- B10: what is recorded replays to the byte; `--full` records and replays every run but the whole Philly trace.
"""

import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

from msgspec.structs import replace

from bench import beside_page
from bench.paper_runs import replayed_run_of, run_of
from bench.papers_beside import BENCHMARKS, QUICK, beside
from bench.papers_leases import GAVEL, OWN, SHOCKWAVE, gavel, off, shockwave
from bench.papers_pairs import guests, pairs
from bench.papers_philly import WHOLE, known, loads, weeks, whole
from bench.papers_sharing import MURI, muri, spot
from bench.papers_sizes import SIZES, sizes
from bench.pollux_optimus import ForetoldProfiles, optimus_run
from bench.rows import Baseline, Measured
from gangline_lab.metrics import measure as metrics_of
from gangline_lab.policyfile import Rules, read_policy
from gangline_lab.readers import read_trace
from gangline_lab.replay import replay
from gangline_lab.sim.goodput import read_profiles

DATA = Path(__file__).parent / "data"
POLICIES = Path(__file__).parents[2] / "policies"
PAGES = POLICIES / "papers"
WORKLOADS = range(1, 9)
TIRESIAS = {1: 2474.0, 2: 5145.0, 3: 3876.0, 4: 3280.0, 5: 3501.0, 6: 3469.69, 7: 5480.0, 8: 5080.0}
"""Mean JCT in s of the Pollux artefact's Tiresias, by workload."""
OPTIMUS = {1: 4087.0, 2: 6914.0, 3: 3944.0, 4: 5968.0, 5: 5656.0, 6: 5301.88, 7: 7291.0, 8: 6294.0}
"""The same of its Optimus."""
TIRESIAS_MEAN, OPTIMUS_MEAN = 4038.2, 5681.9
QUICK_OPTIMUS = (6,)
"""Workloads of the quick run's Optimus and Pollux."""
QUICK_SIZES = ("pollux",)
"""Pages of the quick run's B3."""
QUICK_LENT = ("max-min", "min-total-duration", "gangline")
"""Policies of the quick run's B4."""
QUICK_MURI = ("trace3",)
"""Traces of the quick run's B6."""
THINNED_EVERY = 16


async def measure() -> AsyncIterator[Measured]:
    """The quick set."""
    tables = (
        pollux(),
        optimus(QUICK_OPTIMUS),
        sizes(QUICK_SIZES, QUICK_OPTIMUS),
        weeks(),
        shockwave(QUICK_LENT),
        gavel(("gavel-max-min",)),
        muri(QUICK_MURI),
        spot(),
        pairs(),
        guests(),
        default_beside(QUICK),
    )
    for row in chain.from_iterable(tables):
        yield row


async def measure_full() -> AsyncIterator[Measured]:
    """Everything, and the whole Philly trace on 512 and 640 GPUs: hours."""
    async for row in measure_only(tuple(PARTS)):
        yield row


async def measure_only(names: Sequence[str]) -> AsyncIterator[Measured]:
    """These parts of the full set alone, such as `optimus` or `philly.80x8.srsf`."""
    for name in names:
        for row in PARTS[name]():
            yield row


def pollux(*, is_replayed: bool = False) -> Iterator[Measured]:
    """B2: the published baseline as ours, our default, and what we recommend where run times are unknown."""
    courses = read_profiles(DATA / "pollux" / "profiles")
    las = read_policy(PAGES / "tiresias-pollux.yaml")
    pages = {
        "tiresias": las,
        # Whoever stops goes on where it stopped in these conditions, and the jobs say so.
        "gangline": replace(
            read_policy(PAGES / "gangline.yaml"), conditions=replace(las.conditions, tells_checkpoints=True)
        ),
        "unknown-run-times": replace(read_policy(POLICIES / "unknown-run-times.yaml"), conditions=las.conditions),
    }
    means: dict[str, list[float]] = {}
    for number in WORKLOADS:
        trace = read_trace(f"pollux:{DATA / 'pollux' / 'workloads' / f'workload-{number}.csv'}")
        for name, rules in pages.items():
            if same := _same(pages, name):
                means.setdefault(name, []).append(means[same][-1])
                continue
            if is_replayed or (name, number) == ("tiresias", 6):
                result, row = replayed_run_of(trace, "16x4xT4", rules, courses, name=f"{name}.w{number}")
                yield row
            else:
                result = run_of(trace, "16x4xT4", rules, courses)
            means.setdefault(name, []).append(metrics_of(result).jct_s.mean)
        published = Baseline(name="Pollux artefact, Tiresias", value=TIRESIAS[number])
        yield Measured(
            name=f"B2.tiresias.w{number}", value=means["tiresias"][-1], unit="s", better="lower", baseline=published
        )
    yield from _means(means)


def optimus(workloads: Sequence[int], *, is_replayed: bool = False) -> Iterator[Measured]:
    """B2, the other published baseline: sizes by marginal gain, with speeds from a profile and an oracle of the end."""
    applications = read_profiles(DATA / "pollux" / "profiles").applications
    rules = read_policy(PAGES / "optimus.yaml")
    means: dict[int, float] = {}
    for number in workloads:
        path = DATA / "pollux" / "workloads" / f"workload-{number}.csv"
        with tempfile.TemporaryDirectory() as folder:
            archive = Path(folder) / "archive" if is_replayed else None
            result = optimus_run(path, ForetoldProfiles(applications), rules, archive)
            if archive is not None:
                name = f"B10.differences.optimus.w{number}"
                yield Measured(name=name, value=int(not replay(archive).equal), unit="", better="lower")
        means[number] = metrics_of(result).jct_s.mean
        known = Baseline(name="Pollux artefact, Optimus", value=OPTIMUS[number])
        yield Measured(name=f"B2.optimus.w{number}", value=means[number], unit="s", better="lower", baseline=known)
    if 6 in means:
        yield off("B2.off.optimus.w6", means[6], OPTIMUS[6])
    if means.keys() == OPTIMUS.keys():
        mean = sum(means.values()) / len(means)
        known = Baseline(name="Pollux artefact, Optimus", value=OPTIMUS_MEAN)
        yield Measured(name="B2.optimus.mean", value=mean, unit="s", better="lower", baseline=known)
        yield off("B2.off.optimus.mean", mean, OPTIMUS_MEAN)


def default_beside(names: Sequence[str]) -> Iterator[Measured]:
    """The default and the recommended page beside the best published values; the page of the docs is drawn anew."""
    yield from beside(names)
    beside_page.write()


def _same(pages: dict[str, Rules], name: str) -> str:
    """A page before this one that decides the same: it need not run twice."""
    names = list(pages)
    earlier = names[: names.index(name)]
    return next((one for one in earlier if pages[one].policies == pages[name].policies), "")


def _means(means: dict[str, list[float]]) -> Iterator[Measured]:
    for name, values in means.items():
        yield Measured(
            name=f"B2.{name}.mean",
            value=sum(values) / len(values),
            unit="s",
            better="lower",
            baseline=Baseline(name="Pollux artefact, Tiresias", value=TIRESIAS_MEAN),
        )
    yield Measured(
        name="B2.gate.w6",
        value=abs(means["tiresias"][5] / TIRESIAS[6] - 1) * 100,
        unit="% off",
        better="lower",
        baseline=Baseline(name="published mean JCT", value=TIRESIAS[6]),
    )


PARTS: dict[str, Callable[[], Iterator[Measured]]] = {
    "pollux": partial(pollux, is_replayed=True),
    "optimus": partial(optimus, WORKLOADS, is_replayed=True),
    **{f"sizes.{page}": partial(sizes, (page,), WORKLOADS, is_replayed=True) for page in SIZES},
    "weeks": partial(weeks, is_replayed=True),
    **{f"shockwave.{page}": partial(shockwave, (page,), is_replayed=True) for page in (*SHOCKWAVE, *OWN)},
    **{f"gavel.{page}": partial(gavel, (page,), is_replayed=True) for page in GAVEL},
    **{f"muri.{trace}": partial(muri, (trace,), is_replayed=True) for trace in MURI},
    "spot": partial(spot, is_replayed=True),
    "pairs": pairs,
    "guests": guests,
    "loads": partial(loads, every=THINNED_EVERY),
    "known": partial(known, every=THINNED_EVERY),
    **{f"beside.{name}": partial(default_beside, (name,)) for name in BENCHMARKS},
    **{f"philly.{cluster}.{page}": partial(whole, cluster, page) for cluster in WHOLE for page in WHOLE[cluster]},
}
"""The full set in parts that can be measured alone, from a fraction of a minute to an hour and more each."""
