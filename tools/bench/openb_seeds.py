"""The FGD experiment with many seeds: every run is written down when it is done, so that whoever begins again goes on.

A run that was written down counts as long as its policy decides a small copy of the experiment (every 24th machine, on
the same list) as it did then. The runs are kept in `data/openb_runs.csv`, and `docs/openb.md` is drawn from them.
"""

import csv
import statistics
from collections.abc import Iterable
from concurrent.futures import Executor, as_completed
from hashlib import blake2b
from pathlib import Path

from msgspec import Struct

from bench import openb
from bench.openb import DATA, DEMAND_PERCENT, LISTS, SEEDS
from bench.openb_bound import bound_percent

RUNS = DATA / "openb_runs.csv"
PAGE = Path(__file__).parents[2] / "docs" / "openb.md"
POLICIES = ("default", "fgd", "first_fit")
PUBLISHED = ("FGD", "BestFit", "GpuPacking", "GpuClustering", "DotProd", "Random")
SMALL = 24
"""One of so many machines is in the small copy."""

Key = tuple[str, str, int]
"""List, policy, seed."""


class Figures(Struct, frozen=True):
    """What ten seeds (or as many as there are) of one list came to, in per cent of all GPUs."""

    name: str
    seeds: int
    mean: dict[str, float]
    """By policy of ours."""
    fgd_least: float
    fgd_most: float
    bound: float
    rival: str
    rival_mean: float
    """The best of our others and of all published policies."""

    @property
    def lead(self) -> float:
        """How far the default is ahead of it, in points."""
        return self.mean["default"] - self.rival_mean


def run_all(pool: Executor, seeds: tuple[int, ...], lists: Iterable[str] = LISTS) -> dict[Key, float]:
    """Allocation at the end of every run, those that are not written down yet made now."""
    lists = tuple(lists)
    kinds = [(name, policy) for name in lists for policy in POLICIES]
    probes = dict(zip(kinds, pool.map(probe, *zip(*kinds, strict=True)), strict=True))
    found = {key: at_end for key, (known, at_end) in written().items() if known == probes.get(key[:2])}
    wanted = [(name, policy, seed) for seed in seeds for name in lists for policy in POLICIES]
    running = {pool.submit(at_the_end, *key): key for key in wanted if key not in found}
    for run in as_completed(running):
        key = running[run]
        found[key] = run.result()
        write(key, probes[key[:2]], found[key])
    return {key: found[key] for key in wanted}


def at_the_end(name: str, policy: str, seed: int) -> float:
    """What one run gives out in the end, in per cent of all GPUs."""
    return openb.inflate(name, policy, seed).allocated[DEMAND_PERCENT]


def probe(name: str, policy: str) -> str:
    """A digest of all decisions of a policy in the small copy of the experiment."""
    seed = SEEDS[0]
    room = openb.machines(seed, every=SMALL)
    place = openb.placer_of(policy, name, seed)
    digest = blake2b(digest_size=6)
    for pod in openb.arrivals(name, seed=seed, capacity=int(room.milli.sum())):
        seats = place(room, openb.gang_of_pod(pod))
        for task in seats.tasks if seats is not None else ():
            room.take(task)
            digest.update(f"{task.node}{[share.index for share in task.gpus]}".encode())
        digest.update(b";")
    return digest.hexdigest()


def written(path: Path = RUNS) -> dict[Key, tuple[str, float]]:
    """Digest and result of every run that was written down; of two of one key the later counts."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {
            (row["list"], row["policy"], int(row["seed"])): (row["probe"], float(row["allocated"]))
            for row in csv.DictReader(file)
        }


def write(key: Key, known: str, at_end: float, path: Path = RUNS) -> None:
    """Write one run down."""
    runs = written(path) | {key: (known, at_end)}
    lines = ["list,policy,seed,probe,allocated"]
    lines += [
        f"{name},{policy},{seed},{told},{figure!r}" for (name, policy, seed), (told, figure) in sorted(runs.items())
    ]
    # Whoever is stopped meanwhile leaves the old file or the new one, never a part of one.
    fresh = path.with_suffix(".new")
    fresh.write_text("\n".join(lines) + "\n", encoding="utf-8")
    fresh.replace(path)


def figures(results: dict[Key, float]) -> list[Figures]:
    """Every list with as many seeds as were run of all three policies."""
    found = []
    for name in LISTS:
        seeds = [seed for seed in SEEDS if all((name, policy, seed) in results for policy in POLICIES)]
        if not seeds:
            continue
        by_policy = {policy: [results[name, policy, seed] for seed in seeds] for policy in POLICIES}
        mean = {policy: statistics.mean(own) for policy, own in by_policy.items()}
        rivals = {f"published {policy}": openb.published()[name, policy].mean for policy in PUBLISHED}
        rivals |= {"our FGD": mean["fgd"], "first fit": mean["first_fit"]}
        best = max(rivals, key=lambda rival: rivals[rival])
        found.append(
            Figures(
                name=name,
                seeds=len(seeds),
                mean=mean,
                fgd_least=min(by_policy["fgd"]),
                fgd_most=max(by_policy["fgd"]),
                bound=statistics.mean(bound_percent(name, seed) for seed in seeds),
                rival=best,
                rival_mean=rivals[best],
            )
        )
    return found


def page(found: list[Figures]) -> str:
    """The page of the docs."""
    lines = [
        "# The FGD experiment",
        "",
        "<!-- Drawn by `make bench NAME=placement ARGS=--seeds=10`. -->",
        "",
        "Pods of the public openb trace come in random order to its 1,213 machines until 130 % of all GPUs were asked"
        " for; nobody leaves, and who fits nowhere is dropped (Weng et al., USENIX ATC 2023). Figures are GPU"
        " thousandths given out at the end, in per cent, as means over seeds. The default was chosen on other seeds.",
        "",
        "| list | seeds | FGD, published (least to most) | FGD, ours (least to most) | first fit | best rival | default"
        " | lead | bound | gap |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in found:
        known = openb.published()[one.name, "FGD"]
        cells = (
            one.name,
            str(one.seeds),
            f"{known.mean:.2f} ({known.least:.2f} to {known.most:.2f})",
            f"{one.mean['fgd']:.2f} ({one.fgd_least:.2f} to {one.fgd_most:.2f})",
            f"{one.mean['first_fit']:.2f}",
            f"{one.rival} {one.rival_mean:.2f}",
            f"{one.mean['default']:.2f}",
            f"{one.lead:+.2f}",
            f"{one.bound:.2f}",
            f"{one.bound - one.mean['default']:.2f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "The best rival is the best of our other placers that are run here and of all six policies of the study. The"
        " bound is the optimum of a linear programme in which pods may be cut into parts, cards may be of any machine"
        " and model, and CPU is one heap, while shares on one card add up to a whole at most: no policy gives out"
        " more, and most likely none reaches it, since pods come one by one and nobody moves.",
        "",
    ]
    return "\n".join(lines)
