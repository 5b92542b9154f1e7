"""Commands that read an archive: replay, verify, report."""

import argparse
import sys
from pathlib import Path

from gangline_lab.archive import verify
from gangline_lab.chronicle import tell
from gangline_lab.commands.words import archive_folder, head_of_chain, say
from gangline_lab.eta import score_archive, score_lines, summed_up
from gangline_lab.outside import written_if_asked
from gangline_lab.progress import Bar
from gangline_lab.replay import replay
from gangline_lab.report import write_report
from gangline_lab.summary import summarise
from gangline_lab.words import replay_lines, summary_lines, verification_lines
from gangline_wire.codec import encode


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    replaying = commands.add_parser(
        "replay",
        help="decide everything again and compare byte by byte",
        description="Fold an archive, decide every decision again on the state and time it was made, and compare.",
    )
    replaying.set_defaults(run=_replay)
    verifying = commands.add_parser("verify", help="prove the hash chain", description="Prove an archive's hash chain.")
    verifying.add_argument("--head", type=head_of_chain, metavar="HASH", help="the head that the chain must end in")
    verifying.set_defaults(run=_verify, proves_the_end=True)
    reporting = commands.add_parser(
        "report",
        help="numbers and plots of what happened",
        description="Summarise an archive: waits, use, decisions; with plots on an HTML page that needs nothing else.",
    )
    reporting.add_argument("-o", "--out", type=Path, metavar="FILE", help="write the HTML page here")
    reporting.set_defaults(run=_report)
    scoring = commands.add_parser(
        "eta-score",
        help="how good the expected starts were",
        description="Score every expected start of an archive against what happened: coverage of the ranges, errors.",
    )
    scoring.set_defaults(run=_eta_score)
    for command in (replaying, verifying, reporting, scoring):
        command.add_argument("archive", type=archive_folder, metavar="ARCHIVE", help="folder of an archive's segments")
        command.add_argument("--json", action="store_true", help="the result as JSON")


def _replay(options: argparse.Namespace) -> int:
    bar = Bar(sys.stderr, "replay")
    try:
        report = replay(options.archive, progress=bar)
    finally:
        bar.close()
    say(encode(report).decode() if options.json else "\n".join(replay_lines(report)))
    return 0 if report.equal else 1


def _verify(options: argparse.Namespace) -> int:
    bar = Bar(sys.stderr, "verify")
    try:
        verified = verify(options.archive, head=options.head or "", progress=bar)
    finally:
        bar.close()
    say(encode(verified).decode() if options.json else "\n".join(verification_lines(verified)))
    return 0 if verified.holds else 1


def _eta_score(options: argparse.Namespace) -> int:
    bar = Bar(sys.stderr, "eta-score")
    try:
        score = summed_up(score_archive(options.archive, progress=bar))
    finally:
        bar.close()
    say(encode(score).decode() if options.json else "\n".join(score_lines(score)))
    return 0


def _report(options: argparse.Namespace) -> int:
    bar = Bar(sys.stderr, "report")
    with written_if_asked(options.out) as page:
        try:
            chronicle = tell(options.archive, progress=bar)
        finally:
            bar.close()
        summary = summarise(chronicle)
        if page is not None:
            write_report(page, chronicle, summary, title=f"Archive {options.archive.name}")
    say(encode(summary).decode() if options.json else "\n".join(summary_lines(summary)))
    if options.out is not None and not options.json:
        say(f"\nReport: {options.out.resolve()}")
    return 0
