"""Commands that explain the past and ask what if: why, audit, what-if, tune."""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from gangline_core import facts as f
from gangline_core.counted import counted
from gangline_core.groups import Group
from gangline_lab.audit import preemptions
from gangline_lab.commands.words import (
    any_whole,
    archive_folder,
    at_least,
    job_named,
    say,
    with_knobs,
    with_workers,
    workers_of,
)
from gangline_lab.knobs import read_knobs
from gangline_lab.past_words import audit_lines, preemption_line, why_lines
from gangline_lab.policyfile import PolicyFileError, read_groups, read_policy
from gangline_lab.progress import Bar
from gangline_lab.readers.archives import History, read_history
from gangline_lab.sim.conditions import Conditions
from gangline_lab.sim.fleet import Fleet, added
from gangline_lab.tune import GOALS, TuneError, tune, tuned_lines
from gangline_lab.whatif import Answer, Change, what_if
from gangline_lab.whatif_words import answer_lines, first_line
from gangline_lab.why import UnknownJobError, why
from gangline_wire.codec import encode


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    explaining = commands.add_parser(
        "why", help="why a job waited", description="Every round a job waited in, recomputed from the log alone."
    )
    _of_archive(explaining)
    explaining.add_argument("job", type=job_named, metavar="JOB", help="its number, or 42_7 for an array's element")
    explaining.add_argument("--every-round", action="store_true", help="do not put rounds of one reason together")
    explaining.set_defaults(run=_why)
    auditing = commands.add_parser(
        "audit", help="all inputs of a preemption", description="What a preemption was decided on; a list without one."
    )
    _of_archive(auditing)
    auditing.add_argument("preemption", type=any_whole, nargs="?", metavar="PREEMPTION", help="its number in the list")
    auditing.set_defaults(run=_audit)
    asking = commands.add_parser(
        "what-if",
        help="history under a change",
        description="Run history again with the recorded arrivals and true durations, under another policy, quota, "
        "cluster, or without a group; several changes may be combined.",
    )
    _of_archive(asking)
    asking.add_argument(
        "--policy", type=Path, metavar="FILE", help="another policy (YAML); what it leaves out is as by default"
    )
    with_knobs(asking)
    asking.add_argument("--quota", type=Path, metavar="FILE", help="groups as they should be (YAML, `groups: [...]`)")
    asking.add_argument("--nodes", action="append", default=[], metavar="+8xH100", help="further machines")
    asking.add_argument("--without", default="", metavar="GROUP", help="as if this group had never come")
    asking.add_argument(
        "--varied", type=at_least(0), default=4, metavar="N", help="further runs with varied durations (4)"
    )
    with_workers(asking)
    asking.set_defaults(run=_what_if)
    for command in (explaining, auditing, asking):
        command.add_argument("--json", action="store_true", help="the result as JSON")
    add_tune(commands)


def add_tune(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command that searches."""
    tuning = commands.add_parser(
        "tune",
        help="search the formula's weights and the policy's settings on history",
        description="Search weights of the formula and settings of the policy on the first two thirds of a history, "
        "say what they are worth on the last third, and print the change. Nothing is applied.",
    )
    _of_archive(tuning)
    tuning.add_argument("--goal", required=True, choices=sorted(GOALS), help="what is to become small")
    tuning.add_argument("--pool", default="default", metavar="POOL", help="whose policy (default)")
    tuning.add_argument(
        "--trials", type=at_least(1), default=40, metavar="N", help="simulations of the search, about (40)"
    )
    with_workers(tuning)
    tuning.add_argument("--json", action="store_true", help="the result as JSON")
    tuning.set_defaults(run=_tune)


def _of_archive(command: argparse.ArgumentParser) -> None:
    command.add_argument("archive", type=archive_folder, metavar="ARCHIVE", help="folder of an archive's segments")


def _why(options: argparse.Namespace) -> int:
    number, index = options.job
    bar = Bar(sys.stderr, "why")
    try:
        told = why(options.archive, number, index=index, progress=bar)
    except UnknownJobError as error:
        sys.stderr.write(f"gangline lab: {error}\n")
        return 2
    finally:
        bar.close()
    say(encode(told).decode() if options.json else "\n".join(why_lines(told, every_round=options.every_round)))
    return 0


def _audit(options: argparse.Namespace) -> int:
    bar = Bar(sys.stderr, "audit")
    try:
        found = preemptions(options.archive, progress=bar)
    finally:
        bar.close()
    if options.preemption is None:
        lines = [preemption_line(one) for one in found] or ["Nobody was preempted."]
        say(encode(found).decode() if options.json else "\n".join(lines))
        return 0
    one = next((one for one in found if one.number == options.preemption), None)
    if one is None:
        sys.stderr.write(f"gangline lab: there is no preemption {options.preemption}; the archive has {len(found)}\n")
        return 2
    say(encode(one).decode() if options.json else "\n".join(audit_lines(one)))
    return 0 if one.decided_again else 1


def _what_if(options: argparse.Namespace) -> int:
    rules = read_policy(options.policy) if options.policy else None
    groups: tuple[Group, ...] = read_groups(options.quota) if options.quota else ()
    fleet = Fleet(nodes=())
    for more in options.nodes:
        fleet = added(fleet, more)
    change = Change(
        policies=rules.policies if rules else {},
        conditions=rules.conditions if rules else Conditions(),
        groups=(*(rules.groups if rules else ()), *groups),
        nodes=fleet.nodes,
        without=options.without,
        knobs=read_knobs(options.set),
    )
    if rules and rules.unheeded:
        sys.stderr.write(f"gangline lab: {', '.join(rules.unheeded)} of {options.policy} stay as they were recorded\n")
    if not change.knobs and not change.words():
        raise PolicyFileError("say what should be different: --policy, --set, --quota, --nodes or --without")
    history = _read(options.archive)
    _check_named(history, change)
    if not change.words(history.inputs):
        raise PolicyFileError("--set: it is so in this history already; say another value")
    bar = Bar(sys.stderr, f"what-if, {counted(2 * (options.varied + 1), 'run')}")
    try:
        answer = what_if(
            history,
            change,
            varied=options.varied,
            workers=workers_of(options, jobs=len(history.trace.arrivals)),
            progress=bar,
            first=_tell_first if sys.stderr.isatty() else None,
        )
    finally:
        bar.close()
    say(encode(answer).decode() if options.json else "\n".join(answer_lines(answer)))
    return 0


def _tell_first(answer: Answer) -> None:
    """What is known already, to whoever watches the bar."""
    sys.stderr.write(f"\r\x1b[K{first_line(answer)}\n")


def _read(archive: Path) -> History:
    """The history of an archive; reading a long one is seen as well."""
    bar = Bar(sys.stderr, "reading")
    try:
        return read_history(archive, progress=bar)
    finally:
        bar.close()


def _check_named(history: History, change: Change) -> None:
    """A change of what never was would change nothing, and say so in a table of zeros."""
    pools = history.policies.keys() | {node.pool for node in change.nodes}
    for pool in (*change.policies, *(knob.pool for knob in change.knobs)):
        if pool not in pools:
            raise PolicyFileError(f"no pool {pool} in this history; {_there_are(pools)}")
    groups = {told.fact.group.path for told in history.inputs if isinstance(told.fact, f.GroupSet)}
    used = {one.spec.group for one in history.trace.arrivals}
    if change.without and not any(f"{path}/".startswith(f"{change.without}/") for path in used):
        raise PolicyFileError(f"no job of group {change.without} in this history; {_there_are(used)}")
    for group in change.groups:
        if group.path and group.path not in groups and group.path not in used:
            raise PolicyFileError(f"no group {group.path} in this history; {_there_are(groups)}")


def _there_are(names: Iterable[str]) -> str:
    told = ", ".join(name or "the root" for name in sorted(names))
    return f"there are {told}" if told else "there are none"


def _tune(options: argparse.Namespace) -> int:
    history = _read(options.archive)
    if options.pool not in history.policies:
        sys.stderr.write(f"gangline lab: no pool {options.pool}; there are {', '.join(history.policies)}\n")
        return 2
    bar = Bar(sys.stderr, "tune")
    try:
        tuned = tune(
            history,
            options.goal,
            pool=options.pool,
            trials=options.trials,
            workers=workers_of(options, jobs=len(history.trace.arrivals)),
            progress=bar,
        )
    except TuneError as error:
        sys.stderr.write(f"gangline lab: {error}\n")
        return 2
    finally:
        bar.close()
    say(encode(tuned).decode() if options.json else "\n".join(tuned_lines(tuned)))
    return 0
