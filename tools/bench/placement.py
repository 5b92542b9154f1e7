"""Placement: packing of a public trace beside published policies, closeness beside brute force, speed of the core."""

import importlib
import importlib.util
import os
import statistics
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from multiprocessing import get_context

from bench import openb, openb_seeds
from bench.closeness import BUILDS, compare
from bench.openb import LISTS, SEEDS, Outcome, Published
from bench.openb_bound import bound_percent
from bench.openb_seeds import PUBLISHED
from bench.parsync import simulate
from bench.rows import Baseline, Measured
from gangline_core.parsync import Preference, Sync
from gangline_core.placement import PLACERS

PROCESSES = 2
QUICK_SEEDS = 4
"""Seeds per list of a quick run, since means of two scatter by a tenth of a point; `--full` takes all ten."""
OURS = ("default", "fgd", "first_fit")
RIVALS = ("best_fit", "random", "dot_product", "packing", "best_fit_of_study")
"""Measured on the default list only."""
THE_REST = tuple(sorted(set(PLACERS) - {*OURS, *RIVALS, "cells"}))
"""Every other placer of the table but the one that needs promises; a full run shows them, one seed on that list."""
CLOSENESS_SEEDS = range(3)

Runs = dict[tuple[str, str], list["Future[Outcome]"]]


async def measure() -> AsyncIterator[Measured]:
    """All rows of a quick run."""
    for row in _rows(SEEDS[:QUICK_SEEDS]):
        yield row


async def measure_full() -> AsyncIterator[Measured]:
    """The same with all seeds."""
    for row in _rows(SEEDS):
        yield row


async def measure_seeds(count: int) -> AsyncIterator[Measured]:
    """The FGD experiment alone with so many seeds; runs that were made before are not made again."""
    with ProcessPoolExecutor(min(PROCESSES, os.cpu_count() or 1), mp_context=get_context("spawn")) as pool:
        results = openb_seeds.run_all(pool, SEEDS[:count])
    found = openb_seeds.figures(results)
    openb_seeds.PAGE.write_text(openb_seeds.page(found), encoding="utf-8")
    for one in found:
        known = openb.published()[one.name, "FGD"]
        fgd = one.mean["fgd"]
        yield Measured(f"openb.{one.name}.fgd", fgd, "%", baseline=Baseline("published FGD", known.mean))
        beside = _outside(known, fgd, is_whole=one.seeds == len(SEEDS))
        yield Measured(f"openb.{one.name}.fgd.outside_published", beside, "points", better="lower")
        default = one.mean["default"]
        yield Measured(f"openb.{one.name}.default", default, "%", baseline=Baseline(one.rival, one.rival_mean))
        yield Measured(f"openb.{one.name}.default.lead", one.lead, "points")
        yield Measured(f"openb.{one.name}.default.gap_to_bound", one.bound - default, "points", better="lower")


def _rows(seeds: tuple[int, ...]) -> Iterator[Measured]:
    with ProcessPoolExecutor(min(PROCESSES, os.cpu_count() or 1), mp_context=get_context("spawn")) as pool:
        runs = _begin(pool, seeds)
        yield from _openb_rows(runs, seeds)
    yield from _closeness_rows()
    yield from _parsync_rows()
    yield from _speed_rows()


def _begin(pool: Executor, seeds: tuple[int, ...]) -> Runs:
    """Every run of the experiment, list by list, so that rows come as early as they can."""
    runs: Runs = {}
    for name in LISTS:
        more = RIVALS + (THE_REST if seeds == SEEDS else ())
        for policy in OURS + (more if name == "default" else ()):
            chosen = seeds if policy in OURS else seeds[:1]
            runs[name, policy] = [pool.submit(openb.job(name, policy, seed)) for seed in chosen]
    return runs


def _openb_rows(runs: Runs, seeds: tuple[int, ...]) -> Iterator[Measured]:
    cpu_s: list[float] = []
    for done, name in enumerate(LISTS):
        _progress(f"openb: list {done + 1} of {len(LISTS)} ({name}), seeds {seeds[0]} to {seeds[-1]}")
        results = {policy: [run.result() for run in own] for (of, policy), own in runs.items() if of == name}
        cpu_s += [run.cpu_s for run in results["fgd"]]
        yield from _list_rows(name, results, seeds)
    yield Measured(name="openb.fgd.cpu_s_per_trace", value=max(cpu_s), unit="s", better="lower")


def _list_rows(name: str, results: dict[str, list[Outcome]], seeds: tuple[int, ...]) -> Iterator[Measured]:
    ours = openb.mean_at_end(results["default"])
    fgd = openb.mean_at_end(results["fgd"])
    known = openb.published()[name, "FGD"]
    yield Measured(name=f"openb.{name}.fgd", value=fgd, unit="%", baseline=Baseline("published FGD", known.mean))
    beside = _outside(known, fgd, is_whole=len(seeds) == len(SEEDS))
    yield Measured(name=f"openb.{name}.fgd.outside_published", value=beside, unit="points", better="lower")
    rivals = {f"published {policy}": openb.published()[name, policy].mean for policy in PUBLISHED}
    judged = {policy: own for policy, own in results.items() if policy not in ("default", *THE_REST)}
    rivals |= {f"our {policy}": openb.mean_at_end(own) for policy, own in judged.items()}
    best = max(rivals, key=lambda rival: rivals[rival])
    yield Measured(name=f"openb.{name}.default", value=ours, unit="%", baseline=Baseline(best, rivals[best]))
    yield Measured(name=f"openb.{name}.default.lead", value=ours - rivals[best], unit="points")
    bound = statistics.mean(bound_percent(name, seed) for seed in seeds)
    yield Measured(name=f"openb.{name}.default.gap_to_bound", value=bound - ours, unit="points", better="lower")
    for policy, own in results.items():
        if policy not in ("default", "fgd"):
            yield Measured(name=f"openb.{name}.{policy}", value=openb.mean_at_end(own), unit="%")
    if name == "default":
        for policy in ("default", "fgd"):
            for mark in openb.MARKS_PERCENT:
                value = statistics.mean(run.fragment[mark] for run in results[policy])
                yield Measured(name=f"openb.fragment.{policy}.at_{mark}", value=value, unit="%", better="lower")


def _outside(known: Published, mean: float, *, is_whole: bool) -> float:
    """0 inside the range of the published seeds, else the distance to it.

    A mean of few seeds scatters more than one of ten, so half of the published spread is allowed on either side then.
    """
    more = 0.0 if is_whole else (known.most - known.least) / 2
    return max(0.0, known.least - more - mean, mean - known.most - more)


def _closeness_rows() -> Iterator[Measured]:
    for build in BUILDS:
        _progress(f"closeness: machines with {build}")
        for placer in ("default", "topology"):
            runs = [compare(build, placer, seed) for seed in CLOSENESS_SEEDS]
            ratio = statistics.mean(run.cost_ratio for run in runs)
            blocks = statistics.mean(run.block_ratio for run in runs)
            yield Measured(name=f"closeness.{build}.{placer}.cost", value=ratio, unit="x optimum", better="lower")
            yield Measured(name=f"closeness.{build}.{placer}.free_block", value=blocks, unit="x buddy")


def _parsync_rows() -> Iterator[Measured]:
    for preference in Preference:
        _progress(f"several schedulers, {preference}")
        full, parted = (simulate(preference, sync=sync) for sync in (Sync.FULL, Sync.PARTITIONED))
        for what, unit in (
            ("conflict_percent", "% of commits"),
            ("quality", "% of free GPUs on whole nodes"),
            ("left_percent", "% of gangs left to the leader"),
        ):
            yield Measured(
                name=f"parsync.{preference}.{what}",
                value=getattr(parted, what),
                unit=unit,
                better="higher" if what == "quality" else "lower",
                baseline=Baseline("full synchronisation", getattr(full, what)),
            )


def _speed_rows() -> Iterator[Measured]:
    """Speed of the pure core, where its part of the benchmark is there."""
    if importlib.util.find_spec("bench.placement_speed") is None:
        return
    _progress("speed of the core")
    rows: Callable[[], Iterator[Measured]] = importlib.import_module("bench.placement_speed").speed_rows
    yield from rows()


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
