"""Commands that simulate and compare: simulate, compare."""

import argparse
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.cluster import Policy
from gangline_core.counted import counted
from gangline_lab.archive import Progress
from gangline_lab.commands.words import any_whole, at_least, say, with_knobs, with_workers, workers_of
from gangline_lab.compare import compare, comparison_lines
from gangline_lab.compare_page import write_comparison
from gangline_lab.knobs import Knob, read_knobs, turned
from gangline_lab.metric_words import metrics_lines
from gangline_lab.metrics import measure
from gangline_lab.outside import written_if_asked
from gangline_lab.policyfile import PolicyFileError, Rules, read_policy
from gangline_lab.progress import Bar
from gangline_lab.readers import READERS, read_trace
from gangline_lab.rows import TraceError
from gangline_lab.runs import RESULT, load, relabelled, save
from gangline_lab.side_by_side import side_by_side
from gangline_lab.sim.conditions import Conditions
from gangline_lab.sim.engine import RunResult, Scenario, simulate
from gangline_lab.sim.fleet import Fleet, read_fleet
from gangline_lab.sim.journal import refuse_if_there
from gangline_lab.sim.workload import Workload, cut, lacks_run_times
from gangline_lab.speeds import read_courses
from gangline_wire.codec import decode, encode

FOLDER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. -]*")

Asked = tuple[int, int]
"""Which run: the place of its page, and its seed."""


class Given(Struct, frozen=True):
    """What is simulated."""

    trace: Workload
    fleet: Fleet
    pages: tuple[Rules, ...]


class Runs(Struct, frozen=True):
    """What all runs of one command have in common."""

    given: bytes
    """What is simulated, as JSON: a default that went to another process by other ways is no longer known for one, and
    is written where the log of the same run by itself leaves it out."""
    names: tuple[str, ...]
    """Of the pages."""
    speeds: Path | None
    out: Path | None
    with_archive: bool
    with_parquet: bool

    def folder(self, asked: Asked) -> Path | None:
        """Where a run is written, if anywhere."""
        page, seed = asked
        return self.out / f"{self.names[page]}-{seed}" if self.out is not None else None

    def archive(self, asked: Asked) -> Path | None:
        """Where its log is written, if anywhere."""
        folder = self.folder(asked)
        return folder / "archive" if folder is not None and self.with_archive else None


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    simulating = commands.add_parser(
        "simulate",
        help="run a trace on a cluster under a policy",
        description="Run a trace on a cluster under one or more policies, with the code that decides in production.",
    )
    simulating.add_argument(
        "--trace", required=True, metavar="FORMAT:PATH", help=f"formats: {', '.join(READERS)}; a folder is an archive"
    )
    simulating.add_argument(
        "--cluster", required=True, metavar="NODES", help="64x8xV100 (nodes x GPUs x model), openb, or a YAML file"
    )
    simulating.add_argument(
        "--policy", action="append", type=Path, default=[], metavar="FILE", help="YAML policy file; may be repeated"
    )
    with_knobs(simulating)
    simulating.add_argument("--seed", type=any_whole, default=0, metavar="N", help="seed of everything random (0)")
    simulating.add_argument(
        "--seeds", type=at_least(1), default=1, metavar="N", help="runs per policy, from --seed on (1)"
    )
    simulating.add_argument("--first", type=at_least(0), default=0, metavar="N", help="leave out the first N jobs")
    simulating.add_argument("--jobs", type=at_least(1), metavar="N", help="only so many jobs")
    simulating.add_argument("--speeds", type=Path, metavar="PATH", help="throughput table (JSON) or profiles (folder)")
    with_workers(simulating)
    simulating.add_argument("--out", type=Path, metavar="FOLDER", help="write results and report.html here")
    simulating.add_argument("--archive", action="store_true", help="write the log as well; it replays byte by byte")
    simulating.add_argument("--parquet", action="store_true", help="jobs, use over time and metrics as Parquet as well")
    simulating.add_argument("--json", action="store_true", help="the numbers as JSON")
    simulating.set_defaults(run=_simulate)
    comparing = commands.add_parser(
        "compare", help="runs side by side", description="Compare runs that `simulate --out` wrote."
    )
    comparing.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folder of a run, or of several")
    comparing.add_argument("-o", "--out", type=Path, metavar="FILE", help="write the HTML page here")
    comparing.add_argument("--json", action="store_true", help="the numbers as JSON")
    comparing.set_defaults(run=_compare)


def _simulate(options: argparse.Namespace) -> int:
    if options.archive and options.out is None:
        sys.stderr.write("gangline lab: --archive needs --out\n")
        return 2
    trace = told_trace(cut(read_trace(options.trace), first=options.first, jobs=options.jobs))
    if options.speeds is None and lacks_run_times(trace):
        raise TraceError("its jobs are work in steps or samples: say how fast they go with --speeds", file=trace.name)
    pages = [read_policy(path) for path in options.policy]
    _check_names([rules.name for rules in pages])
    knobs = read_knobs(options.set)
    fleet = read_fleet(options.cluster)
    _check_pools(knobs, fleet, trace)
    if options.speeds:
        read_courses(options.speeds)  # whoever cannot read them says so before anything runs
    usual = Rules(name="default", policies={"default": Policy()}, conditions=Conditions())
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)  # where nothing can be written, nothing need be run
    told = tuple(_turned(rules, knobs) for rules in pages or [usual])
    runs = Runs(
        given=encode(Given(trace=trace, fleet=fleet, pages=told)),
        names=tuple(rules.name for rules in told),
        speeds=options.speeds,
        out=options.out,
        with_archive=options.archive,
        with_parquet=options.parquet,
    )
    seeds = range(options.seed, options.seed + options.seeds)
    asked = [(page, seed) for page in range(len(told)) for seed in seeds]
    _tell(_all_of(runs, asked, workers=workers_of(options, jobs=len(trace.arrivals))), options)
    return 0


def _turned(rules: Rules, knobs: Sequence[Knob]) -> Rules:
    """The page with the settings that were asked for beside it."""
    pools = dict.fromkeys((*rules.policies, *(knob.pool for knob in knobs)))
    policies = {pool: turned(rules.policies.get(pool, Policy()), knobs, pool=pool) for pool in pools}
    return replace(rules, policies=policies)


def _check_pools(knobs: Sequence[Knob], fleet: Fleet, trace: Workload) -> None:
    """A setting of a pool that nobody has would change nothing, unsaid."""
    pools = {node.pool for node in fleet.nodes} | {one.spec.pool for one in trace.arrivals}
    for knob in knobs:
        if knob.pool not in pools:
            raise PolicyFileError(f"--set: there is no pool {knob.pool}; there are {', '.join(sorted(pools))}")


def _check_names(names: list[str]) -> None:
    """A page's name is its column and its folder."""
    for name in names:
        if names.count(name) > 1:
            raise PolicyFileError(f"two policy files are named {name!r}: give each a `name:` of its own")
        if not FOLDER_NAME.fullmatch(name):
            raise PolicyFileError(f"the name {name!r} is no folder's: expected letters, digits, . _ - and spaces")


def told_trace(trace: Workload) -> Workload:
    """The trace; what its reader left out is said on standard error."""
    if trace.left_out:
        said = ", ".join(f"{why} ({count:,})" for why, count in sorted(trace.left_out.items()))
        sys.stderr.write(f"gangline lab: left out of {trace.name}: {said}\n")
    if not trace.arrivals:
        raise TraceError("no job is left of it to simulate", file=trace.name)
    return trace


def _all_of(runs: Runs, asked: list[Asked], *, workers: int) -> list[RunResult]:
    """All of these runs, in their order; a run that does not come to its end leaves no half log."""
    whole = {one: _written(runs, one) for one in asked}
    for one in asked:
        refuse_if_there(runs.archive(one))  # before hours of work, not after them
    name = counted(len(asked), "run") if len(asked) > 1 else f"{runs.names[0]}, seed {asked[0][1]}"
    bar = Bar(sys.stderr, f"simulate, {name}")
    try:
        with side_by_side(_run, runs, workers=min(workers, len(asked))) as together:
            return together(asked, bar)
    except BaseException:
        # It would pass for the whole one, and stand in the way of the next try.
        for one in asked:
            archive = runs.archive(one)
            if archive is not None and _written(runs, one) == whole[one]:
                shutil.rmtree(archive, ignore_errors=True)
        raise
    finally:
        bar.close()


def _written(runs: Runs, asked: Asked) -> int:
    """When the result of this run was written, in ns; 0 when there is none."""
    folder = runs.folder(asked)
    path = folder / RESULT if folder is not None else None
    return path.stat().st_mtime_ns if path is not None and path.exists() else 0


def _run(runs: Runs, asked: Asked, progress: Progress | None) -> RunResult:
    """One of the runs, written where it belongs."""
    page, seed = asked
    given, folder = decode(runs.given, Given), runs.folder(asked)
    rules = given.pages[page]
    scenario = Scenario(
        trace=given.trace,
        fleet=given.fleet,
        policies=rules.policies,
        conditions=rules.conditions,
        groups=rules.groups,
        courses=read_courses(runs.speeds) if runs.speeds else None,
        seed=seed,
    )
    result = relabelled(simulate(scenario, archive=runs.archive(asked), progress=progress), rules.name)
    if folder is not None:
        save(result, folder, parquet=runs.with_parquet)
    return result


def _tell(results: list[RunResult], options: argparse.Namespace) -> None:
    if options.out is not None:
        write_comparison(options.out / "report.html", results, title=f"Simulated: {results[0].trace}")
    if options.json:
        say(encode([measure(result) for result in results]).decode())
    elif len(results) == 1:
        say("\n".join(metrics_lines(measure(results[0]))))
    else:
        say("\n".join(comparison_lines(compare(results))))
    if options.out is not None and not options.json:
        say(f"\nReport: {(options.out / 'report.html').resolve()}")


def _compare(options: argparse.Namespace) -> int:
    folders = [found for path in options.runs for found in _folders(path)]
    with written_if_asked(options.out) as page:
        results = [load(folder) for folder in folders]
        if page is not None:
            write_comparison(page, results, title="Runs compared")
    if options.json:
        say(encode(compare(results)).decode())
    else:
        say("\n".join(comparison_lines(compare(results))))
    return 0


def _folders(path: Path) -> list[Path]:
    """The folder itself, or those of its folders that hold a run."""
    inside = sorted(found.parent for found in path.glob("*/result.json.gz")) if path.is_dir() else []
    return inside if inside and not (path / "result.json.gz").exists() else [path]
