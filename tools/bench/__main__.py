"""Runs one benchmark, shows its table, and writes its rows as JSON. Usage: python -m bench NAME [--out FILE]."""

import argparse
import importlib
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import cast

from bench import kept
from bench.rows import Measured, Row, as_json, as_table, bars, judge, never_measured
from gangline_kit import loop

BENCHMARKS = ("pipeline", "kubernetes", "placement", "queue", "lab", "papers", "elastic", "load")
"""Each is a module of this package with `measure()`, which yields rows as they come."""
MODULES = {"load": "under_load"}
"""Those whose module is not called like them."""

KEPT = ("papers",)
"""Those whose parts can be kept: what the lab works out is the same whenever it is measured (see bench.kept)."""


async def run(
    name: str, *, full: bool = False, seeds: int = 0, only: Sequence[str] = (), keep: Path | None = None
) -> list[Row]:
    """Measure, telling each row as it comes; in full where the benchmark has a longer run, or what many seeds tell.

    With `only` these parts of a benchmark that has some; with `keep` part by part, and those that are there are not
    measured again.
    """
    module = importlib.import_module(f"bench.{MODULES.get(name, name)}")
    measure = cast(
        "Callable[[], AsyncIterator[Measured]]",
        getattr(module, "measure_full", module.measure) if full else module.measure,
    )
    if seeds:
        measure_seeds = cast("Callable[[int], AsyncIterator[Measured]]", module.measure_seeds)
        return [judge(measured, bars(name).get(measured.name)) async for measured in measure_seeds(seeds)]
    expected = bars(name) | (bars(f"{name}.full") if full else {})
    rows = []
    if keep is not None:
        found = kept.measured(only or tuple(module.PARTS), lambda part: module.measure_only([part]), keep, _tell)
    else:
        found = module.measure_only(only) if only else measure()
    async for measured in found:
        row = judge(measured, expected.get(measured.name))
        _tell(f"  {row.name}: {row.value:,.2f} {row.unit}")
        rows.append(row)
    for missing in () if only else never_measured(rows, expected):
        print(f"warning: the range file expects a row that was not measured: {missing}", file=sys.stderr)
    return rows


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def parts_of(name: str) -> tuple[str, ...]:
    """What of a benchmark can be measured alone."""
    return tuple(getattr(importlib.import_module(f"bench.{MODULES.get(name, name)}"), "PARTS", ()))


def main() -> int:
    """Measure, print the table, write the JSON; 1 when a row does not hold."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("name", choices=BENCHMARKS)
    parser.add_argument("--out", type=Path, help="write the rows here as JSON")
    parser.add_argument("--full", action="store_true", help="measure more and longer, where the benchmark can")
    parser.add_argument("--seeds", type=int, default=0, help="with placement: the openb lists with so many seeds alone")
    parser.add_argument(
        "--only", action="append", default=[], help="with queue or papers: this part alone; may be repeated"
    )
    parser.add_argument("--keep", type=Path, help="with papers --full or --only: keep parts here, measure none again")
    arguments = parser.parse_args()
    parts = parts_of(arguments.name) if arguments.only else ()
    if unknown := sorted(set(arguments.only) - set(parts)):
        parser.error(f"--only {unknown[0]}: {arguments.name} has {', '.join(parts) or 'no parts'}")
    if arguments.seeds and arguments.name != "placement":
        parser.error("--seeds is for placement")
    if arguments.keep and not (arguments.name in KEPT and (arguments.full or arguments.only)):
        parser.error(f"--keep is for --full or --only of {', '.join(KEPT)}")
    rows = loop.run(
        run(arguments.name, full=arguments.full, seeds=arguments.seeds, only=arguments.only, keep=arguments.keep)
    )
    print(as_table(rows))
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(as_json(rows), encoding="utf-8")
    fallen = [row.name for row in rows if row.holds is False]
    if fallen:
        print(f"does not hold: {', '.join(fallen)}")
    return 1 if fallen else 0


if __name__ == "__main__":
    sys.exit(main())
