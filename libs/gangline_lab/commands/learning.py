"""Commands about predictors: train, score."""

import argparse
import sys
from pathlib import Path

from gangline_core.foresight.learnt import unpacked
from gangline_lab.commands.simulations import told_trace
from gangline_lab.commands.words import at_least, say
from gangline_lab.learning.growing import LEAVES, TREES, Growth
from gangline_lab.learning.modelfile import ModelFile, model_lines, read_model, score_lines, train, unseen
from gangline_lab.learning.samples import Sample, of_archive, of_trace, samples
from gangline_lab.learning.score import scores
from gangline_lab.outside import written_whole
from gangline_lab.readers import READERS, read_trace
from gangline_lab.sim.conditions import Conditions
from gangline_wire.codec import encode

ESTIMATES = ("none", "philly", "lognormal", "given")


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    training = commands.add_parser(
        "train",
        help="teach a predictor of run times and use",
        description="Learn from the first three quarters of a history how long jobs run (and how much they use, where "
        "that was measured), score that on the last quarter beside simpler rules, and write it to a file.",
    )
    _of_history(training)
    training.add_argument("-o", "--out", type=Path, required=True, metavar="FILE", help="write the model here (JSON)")
    training.add_argument("--trees", type=at_least(1), default=TREES, metavar="N", help=f"trees per quantile ({TREES})")
    training.add_argument("--leaves", type=at_least(2), default=LEAVES, metavar="N", help=f"leaves per tree ({LEAVES})")
    training.set_defaults(run=_train)
    scoring = commands.add_parser(
        "score",
        help="how good is a predictor on a history?",
        description="What a model says of each job of a history at its submission, beside what happened, and beside "
        "simpler rules.",
    )
    scoring.add_argument("model", type=Path, metavar="MODEL", help="file that `train` wrote")
    _of_history(scoring)
    scoring.set_defaults(run=_score)


def _of_history(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "history", metavar="ARCHIVE|FORMAT:PATH", help=f"folder of an archive, or a trace ({', '.join(READERS)})"
    )
    command.add_argument(
        "--estimates",
        choices=ESTIMATES,
        default="none",
        help="what jobs of a trace say of their run time: nothing (the default), with errors, or what the trace has",
    )
    command.add_argument("--json", action="store_true", help="the result as JSON")


def _rows(options: argparse.Namespace) -> list[Sample]:
    path = Path(options.history)
    if path.is_dir():
        return samples(of_archive(path))
    return samples(of_trace(told_trace(read_trace(options.history)), Conditions(estimates=options.estimates)))


def _train(options: argparse.Namespace) -> int:
    if not options.out.resolve().parent.is_dir():
        sys.stderr.write(f"gangline lab: there is no folder {options.out.resolve().parent} to write the model into\n")
        return 2
    growth = Growth(trees=options.trees, leaves=options.leaves)
    with written_whole(options.out) as part:
        file: ModelFile = train(_rows(options), made_of=Path(options.history).name, growth=growth)
        part.write_bytes(encode(file) + b"\n")
    if options.json:
        say(encode(file).decode())
    else:
        say("\n".join([*model_lines(file, options.out.name), "", f"Written: {options.out.resolve()}"]))
    return 0


def _score(options: argparse.Namespace) -> int:
    file = read_model(options.model)
    rows = _rows(options)
    fresh = unseen(file, rows, Path(options.history).name)
    if len(fresh) < len(rows):
        known = f"{len(rows) - len(fresh):,} of {len(rows):,} jobs"
        sys.stderr.write(f"gangline lab: {known} are those that the model learnt from; left out\n")
    if not fresh:
        sys.stderr.write("gangline lab: no job is left to score the model on\n")
        return 2
    found = scores(unpacked(file.model), fresh)
    say(encode(found).decode() if options.json else "\n".join([f"Model {file.version}", "", *score_lines(found)]))
    return 0
