"""What each option of sbatch means here: fields of a job file, a note to its author, or a refusal that says why."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from typing import Any

from gangline_client.batch_slurm_only import FLAGS as SLURM_ONLY_FLAGS
from gangline_client.batch_slurm_only import NOTED, REFUSED
from gangline_client.errors import UsageError
from gangline_client.moments import moment_ms
from gangline_wire.durations import show_seconds
from gangline_wire.jobfile_order import read_array
from gangline_wire.problem import WrongValueError

Term = Callable[["Terms", str], None]

COUNT_MOST = 1_000_000
PASSED_ON = ("PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG", "TZ")
"""Variables that are passed on by themselves, so that `python` means the same python there as here."""
MIB = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0 * 1024}
ENDLESS = frozenset({"0", "unlimited", "infinite"})
SIGNALS = ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "CONT")

_SIZE = re.compile(r"([0-9]{1,9})([KMGT]?)B?", re.IGNORECASE | re.ASCII)
_CLOCK = re.compile(r"(?:([0-9]{1,5})-)?([0-9]{1,6})(?::([0-9]{1,6}))?(?::([0-9]{1,6}))?", re.ASCII)
_GRES = re.compile(r"(?:gres[/:])?([A-Za-z][\w./-]{0,60})(?::([A-Za-z][\w.-]{0,60}))?(?::([0-9]{1,6}))?", re.ASCII)
_GPUS = re.compile(r"(?:([A-Za-z][\w.-]{0,60}):)?([0-9]{1,6})", re.ASCII)
_AFTER = re.compile(r"(after|afterok|afterany|afternotok)((?::[0-9]{1,16}(?:_[0-9]{1,8})?)+)", re.ASCII)


@dataclass
class Terms:
    """What was said so far."""

    environ: Mapping[str, str]
    folder: str
    now_ms: int
    line: int = 0
    fields: dict[str, Any] = field(default_factory=dict)
    """Fields of the job file that are known already."""
    counts: dict[str, int] = field(default_factory=dict)
    """Nodes, tasks, GPUs and memory, which belong together."""
    model: str = ""
    devices: dict[str, int] = field(default_factory=dict)
    """Per node."""
    time_s: int = 0
    """How long the job may last; 0 without a limit."""
    notice_s: int = 0
    """How long before its end it is told; 0 when that was not said."""
    export: str = "ALL"
    workdir: str = ""
    is_miscounted: bool = False
    """A count could not be read, so that nobody knows what goes together."""
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def refuse(self, why: str) -> None:
        """This line cannot be done."""
        self.faults.append(f"line {self.line}: {why}")

    def miscount(self, why: str) -> None:
        """This line cannot be done, and something that others are shared among is not known."""
        self.is_miscounted = True
        self.refuse(why)


# --- one option each ------------------------------------------------------------------------------------------


def _text(name: str, terms: Terms, value: str) -> None:
    terms.fields[name] = value


def _flag(name: str, terms: Terms, value: str) -> None:
    terms.fields[name] = True


def _one(name: str, what: str, terms: Terms, value: str) -> None:
    if "," in value:
        terms.refuse(f"a job is for one {what}, not for one of several")
    terms.fields[name] = value


def _count(name: str, terms: Terms, value: str) -> None:
    least, dash, most = value.partition("-")
    if dash and least == most:
        value = least
    if not (value.isascii() and value.isdecimal() and 0 < int(value[:10]) <= COUNT_MOST):
        terms.miscount(f"{value[:80]!r} is no count from 1 to {COUNT_MOST}")
        return
    terms.counts[name] = int(value)
    if name == "cpus":
        terms.fields["cpus"] = int(value)


def _gpu_count(name: str, terms: Terms, value: str) -> None:
    match = _GPUS.fullmatch(value)
    if match is None:
        terms.miscount(f'{value[:80]!r} is no count of GPUs; write "4" or "a100:4"')
        return
    terms.model = match[1] or terms.model
    terms.counts[name] = int(match[2])


def _gres(terms: Terms, value: str) -> None:
    for part in value.split(","):
        match = _GRES.fullmatch(part)
        if match is None:
            terms.miscount(f'{part[:80]!r} is no resource; write "gpu:2", "gpu:a100:2" or "name:1"')
        elif match[1] == "gpu":
            terms.model = match[2] or terms.model
            terms.counts["gpus_per_node"] = int(match[3] or 1)
        elif match[1] != "none":
            terms.devices[match[1]] = int(match[3] or 1)


def _memory(name: str, terms: Terms, value: str) -> None:
    match = _SIZE.fullmatch(value)
    if match is None:
        terms.miscount(f'{value[:80]!r} is no amount of memory; write "64G" or a number of megabytes')
        return
    terms.counts[name] = ceil(int(match[1]) * MIB[(match[2] or "M").upper()])


def _time(terms: Terms, value: str) -> None:
    seconds = _clock_s(value)
    if seconds is None:
        terms.refuse(f'{value[:80]!r} is no time; write minutes, "1:30:00" or "2-12:00:00"')
    else:
        terms.time_s = seconds


def _clock_s(value: str) -> int | None:
    """Seconds of "MIN", "MIN:S", "H:MIN:S", "D-H", "D-H:MIN" or "D-H:MIN:S"; 0 for no limit, None for none of these."""
    if value.lower() in ENDLESS:
        return 0
    match = _CLOCK.fullmatch(value)
    if match is None:
        return None
    days, *parts = (None if part is None else int(part) for part in match.groups())
    numbers = [part for part in parts if part is not None]
    begins_with_minutes = days is None and len(numbers) < 3
    sizes = (60, 1, 0) if begins_with_minutes else (3600, 60, 1)
    return (days or 0) * 86_400 + sum(number * size for number, size in zip(numbers, sizes, strict=False))


def _array(terms: Terms, value: str) -> None:
    try:
        read_array(value)
    except WrongValueError as error:
        terms.refuse(f"--array: {error}")
    terms.fields["array"] = value


def _dependency(terms: Terms, value: str) -> None:
    if "?" in value:
        terms.refuse("of several jobs all must have ended; either of them (?) is not offered")
        return
    after: list[str] = terms.fields.setdefault("after", [])
    for part in value.split(","):
        match = _AFTER.fullmatch(part)
        if part == "singleton":
            terms.fields["singleton"] = True
        elif match is None or match[1] == "after":
            terms.refuse(f"{part[:80]!r}: jobs wait for others' ends: afterok:N, afterany:N, afternotok:N, singleton")
        else:
            after.extend(f"{match[1]}:{number}" for number in match[2].split(":") if number)
    if not after:
        del terms.fields["after"]


def _moment(name: str, terms: Terms, value: str) -> None:
    now = value.removeprefix("now")
    text = value
    if now != value:
        amount = re.fullmatch(r"\+([0-9]{1,9})(second|minute|hour|day|week)?s?", now or "+0", re.ASCII)
        if amount is None:
            terms.refuse(f'{value[:80]!r} is no moment; write "now+2hours" or a time with its offset from UTC')
            return
        unit = {None: 1, "second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}[amount[2]]
        text = f"+{int(amount[1]) * unit}s"
    try:
        terms.fields[name] = moment_ms(text, flag="the time", now_ms=terms.now_ms)
    except UsageError as error:
        terms.refuse(str(error))


def _signal(terms: Terms, value: str) -> None:
    match = re.fullmatch(r"(?:[RB]{1,2}:)?(?:SIG)?([A-Z0-9]{1,8})(?:@([0-9]{1,5}))?", value.upper(), re.ASCII)
    if match is None or match[1] not in SIGNALS:
        terms.refuse(f"{value[:80]!r} is no signal to be stopped with; {', '.join(SIGNALS)} are, as in USR1@60")
        return
    terms.fields["stop_signal"] = f"SIG{match[1]}"
    terms.notice_s = int(match[2] or 60)
    terms.fields["grace"] = show_seconds(terms.notice_s)


def _exclude(terms: Terms, value: str) -> None:
    if "[" in value:
        terms.refuse("write each node's name, with commas between")
        return
    terms.fields["exclude_nodes"] = [name for name in value.split(",") if name]


def _priority(terms: Terms, value: str) -> None:
    number = value.removeprefix("-")
    if not (number.isascii() and number.isdecimal() and len(number) < 10):
        terms.refuse(f"{value[:80]!r} is no priority")
        return
    terms.fields["priority"] = int(value)


def _export(terms: Terms, value: str) -> None:
    terms.export = value


def _workdir(terms: Terms, value: str) -> None:
    terms.workdir = value if value.startswith("/") else f"{terms.folder}/{value}"


def _noted(option: str, note: str, terms: Terms, value: str) -> None:
    terms.notes.append(f"line {terms.line}: --{option}: {note}")


def _refused(option: str, why: str, terms: Terms, value: str) -> None:
    terms.refuse(f"--{option}: {why}")


TERMS: dict[str, Term] = {
    "account": partial(_text, "group"),
    "array": _array,
    "begin": partial(_moment, "not_before"),
    "chdir": _workdir,
    "cpus-per-gpu": partial(_count, "cpus_per_gpu"),
    "cpus-per-task": partial(_count, "cpus"),
    "deadline": partial(_moment, "deadline"),
    "dependency": _dependency,
    "exclude": _exclude,
    "export": _export,
    "gpus": partial(_gpu_count, "gpus"),
    "gpus-per-node": partial(_gpu_count, "gpus_per_node"),
    "gpus-per-task": partial(_gpu_count, "gpus_per_task"),
    "gres": _gres,
    "hold": partial(_flag, "hold"),
    "job-name": partial(_text, "name"),
    "mem": partial(_memory, "memory"),
    "mem-per-cpu": partial(_memory, "memory_per_cpu"),
    "mem-per-gpu": partial(_memory, "memory_per_gpu"),
    "nodes": partial(_count, "nodes"),
    "ntasks": partial(_count, "tasks"),
    "ntasks-per-node": partial(_count, "per_node"),
    "partition": partial(_one, "pool", "partition (pool)"),
    "priority": _priority,
    "qos": partial(_text, "level"),
    "signal": _signal,
    "time": _time,
    **{name: partial(_noted, name, note) for name, note in NOTED.items()},
    **{name: partial(_refused, name, why) for name, why in REFUSED.items()},
}
"""Long name of each option that is known -> what it means."""
COUNTS = frozenset(
    {
        "cpus-per-gpu",
        "cpus-per-task",
        "gpus",
        "gpus-per-node",
        "gpus-per-task",
        "gres",
        "nodes",
        "ntasks",
        "ntasks-per-node",
    }
)
"""Options that say how many there are of what is shared among the tasks."""
FLAGS = SLURM_ONLY_FLAGS | {"hold"}
"""Options without a value, or whose value stands behind = only."""
FIELDS = {
    "account": "group",
    "array": "array",
    "begin": "not_before",
    "cpus-per-task": "cpus",
    "deadline": "deadline",
    "gpus-per-task": "gpus",
    "gres": "gpus",
    "hold": "hold",
    "job-name": "name",
    "mem": "memory",
    "ntasks": "tasks",
    "partition": "pool",
    "priority": "priority",
    "qos": "level",
    "time": "time_limit",
}
"""Fields of a job file that say the same of each task."""
SHORT = {
    "A": "account",
    "a": "array",
    "B": "extra-node-info",
    "b": "begin",
    "C": "constraint",
    "c": "cpus-per-task",
    "D": "chdir",
    "d": "dependency",
    "e": "error",
    "F": "nodefile",
    "G": "gpus",
    "H": "hold",
    "i": "input",
    "J": "job-name",
    "k": "no-kill",
    "L": "licenses",
    "M": "clusters",
    "m": "distribution",
    "N": "nodes",
    "n": "ntasks",
    "O": "overcommit",
    "o": "output",
    "p": "partition",
    "Q": "quiet",
    "q": "qos",
    "S": "core-spec",
    "s": "oversubscribe",
    "t": "time",
    "v": "verbose",
    "W": "wait",
    "w": "nodelist",
    "x": "exclude",
}
"""Short names."""
