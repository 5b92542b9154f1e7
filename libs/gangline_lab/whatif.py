"""History under a change: the recorded arrivals, machines and true durations, decided again under other rules.

Both sides are simulated, history as it was and history under the change, so that what the simulation leaves out (start
times of processes, grace periods, people) is left out of both. How well the first agrees with what was recorded is
said beside. Durations are not known exactly and users react, so both sides are run with varied durations as well, and
every difference carries the interval that this gives.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import exp
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from gangline_core import facts as f
from gangline_core.cluster import Node, Policy
from gangline_core.counted import counted
from gangline_core.groups import Group
from gangline_lab.compare import Cell, interval
from gangline_lab.knobs import Knob, knob_words, turned
from gangline_lab.metrics import HOUR_GPU_MS, size_class
from gangline_lab.readers.archives import History
from gangline_lab.side_by_side import FINE, side_by_side
from gangline_lab.sim.collect import JobRecord
from gangline_lab.sim.conditions import Conditions
from gangline_lab.sim.door import Refused
from gangline_lab.sim.engine import Progress, RunResult, Scenario, simulate
from gangline_lab.sim.fleet import Fleet
from gangline_lab.sim.workload import Arrival, Input, Workload
from gangline_lab.summary import LARGEST, SIZES

VARIED_SIGMA = 0.2
"""Spread of the log-normal factor by which durations are varied."""
LENGTHS = ((1, "up to 1 GPU-hour"), (10, "1-10 GPU-hours"), (100, "10-100 GPU-hours"))
"""Classes of the GPU time of jobs: the most hours of each, and its name; what is longer is the last class."""
LONGEST = "100+ GPU-hours"
TAIL_MS = 7 * 24 * 3_600_000
"""A simulated history ends so long after twice its length; who waits then (on hold, for a lost machine) is counted."""
SHOWN = 5
"""Jobs shown that gain most, and that lose most."""


class Change(Struct, frozen=True):
    """What is to be different; everything that is empty stays as it was."""

    policies: dict[str, Policy] = {}
    conditions: Conditions = Conditions()
    groups: tuple[Group, ...] = ()
    """Groups as they should be from the beginning on."""
    nodes: tuple[Node, ...] = ()
    """Further machines, there from the beginning on."""
    without: str = ""
    """A group whose jobs never come."""
    knobs: tuple[Knob, ...] = ()
    """Single settings of policies: of those above, and of what history set, whenever it did."""

    def words(self, inputs: Iterable[Input] = ()) -> list[str]:
        """The change, in words; of policies with what these inputs of history set and they leave as by default."""
        set_last = {told.fact.pool: told.fact.policy for told in inputs if isinstance(told.fact, f.PolicySet)}
        said = []
        for pool, policy in self.policies.items():
            lost = ", ".join(_unset(set_last.get(pool, policy), policy))
            said.append(
                f"policy of pool {pool}: {policy.ordering}" + (f", and without the {lost} that it had" if lost else "")
            )
        said += knob_words(self.knobs, set_last | self.policies)
        said += [f"group {group.path or '(all)'} as given" for group in self.groups]
        if self.nodes:
            gpus = counted(sum(len(node.gpus) for node in self.nodes), "GPU")
            said.append(f"{counted(len(self.nodes), 'further node')} with {gpus}")
        if self.without:
            said.append(f"without group {self.without}")
        if said and self.conditions != Conditions():
            said.append(f"simulated on both sides with {conditions_text(self.conditions)}")
        return said


def _unset(was: Policy, policy: Policy) -> Iterator[str]:
    """Settings that were set, and are as by default here."""
    usual = Policy()
    for name in policy.__struct_fields__:
        own, before, default = (getattr(one, name) for one in (policy, was, usual))
        if name != "version" and own == default != before:
            yield name


def conditions_text(conditions: Conditions) -> str:
    """What a simulated world has otherwise than a perfect one."""
    return ", ".join(_unusual(conditions, Conditions()))


def _unusual(told: Struct, usual: Struct) -> Iterator[str]:
    for name in told.__struct_fields__:
        own, other = getattr(told, name), getattr(usual, name)
        if own == other:
            continue
        yield f"{name} ({', '.join(_unusual(own, other))})" if isinstance(own, Struct) else f"{name} {_plain(own)}"


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)


class Part(Struct, frozen=True):
    """A group, or everybody: how it fared and would have fared, with the durations as they were. Times in seconds."""

    name: str
    jobs: int
    wait_before: float
    wait_change: Cell
    """Change of the mean wait (after less before) over all runs, those with varied durations among them."""
    jct_before: float
    jct_change: Cell
    wait_after: float = 0.0
    jct_after: float = 0.0


class JobChange(Struct, frozen=True):
    """One job, before and after, in ms."""

    job: int
    name: str
    group: str
    wait_before_ms: int
    wait_after_ms: int

    @property
    def gain_ms(self) -> int:
        """How much less it would have waited."""
        return self.wait_before_ms - self.wait_after_ms


class Answer(Struct, frozen=True):
    """What would have changed."""

    change: list[str]
    parts: tuple[Part, ...]
    """Everybody first, then groups."""
    gained: tuple[JobChange, ...]
    lost: tuple[JobChange, ...]
    better: int
    """Jobs that would have waited less, by more than a second."""
    worse: int
    makespan_before_s: float
    makespan_after_s: float
    recorded_wait_s: float
    """Mean wait as it really was, of the jobs that are compared."""
    simulated_wait_s: float
    """The same of the simulation of history as it was."""
    censored: int
    """Jobs whose true duration is only known to be at least what was recorded."""
    varied: int
    """Runs with varied durations."""
    differs_first: int
    """The first job that starts at another time; -1 when none does."""
    classes: tuple[Part, ...] = ()
    """Jobs by their size, then by the GPU time of their work: whom the change costs and whom it helps."""
    preemptions_before: int = 0
    preemptions_after: int = 0
    overhead_before_hours: float = 0.0
    """GPU-hours that went into starts and into work that was lost."""
    overhead_after_hours: float = 0.0
    refused: tuple[Refused, ...] = ()
    """Jobs that the change would refuse at the door; they count neither as better nor as worse."""
    unfinished_before: int = 0
    """Jobs not over at the end of the simulated time; on either side, they are in none of the means."""
    unfinished_after: int = 0
    untied: int = 0
    """Dependencies under the change on jobs that are not there; left out."""
    left_out: dict[str, int] = {}
    """What the log tells and no simulation lives again."""


def what_if(
    history: History,
    change: Change,
    *,
    varied: int = 4,
    workers: int = 1,
    progress: Progress | None = None,
    first: Callable[[Answer], None] | None = None,
) -> Answer:
    """Run history as it was and under the change, `varied` times more with varied durations; `workers` runs at once.

    `first` is told the answer without the varied durations as soon as that is known, where that is long before the end.
    """
    asked = [(seed, is_changed) for seed in range(varied + 1) for is_changed in (False, True)]
    early = 2 if first is not None and varied and workers <= 2 else 0
    with side_by_side(_lived, (history, change), workers=min(workers, len(asked))) as together:
        runs = together(asked[:early], _stage(progress, 0, early, len(asked))) if early else []
        if first is not None and early:
            first(_answer(history, change, [(runs[0], runs[1])]))
        runs += together(asked[early:], _stage(progress, early, len(asked) - early, len(asked)))
    return _answer(history, change, list(zip(runs[::2], runs[1::2], strict=True)))


def _stage(progress: Progress | None, before: int, runs: int, of: int) -> Progress | None:
    """Progress of some of the runs as a part of all."""
    if progress is None:
        return None
    return lambda done, total: progress((FINE * before) + (FINE * runs * done // total if total else 0), FINE * of)


def _lived(told: tuple[History, Change], asked: tuple[int, bool], progress: Progress | None) -> RunResult:
    """One of the runs: with which durations, and under the change or as it was."""
    (history, change), (seed, is_changed) = told, asked
    own = change if is_changed else Change(conditions=change.conditions)
    trace = varied_durations(history.trace, seed) if seed else history.trace
    return simulate(scenario_of(history, own, trace), progress=progress)


def varied_durations(trace: Workload, seed: int) -> Workload:
    """The same jobs, each taking longer or shorter by a random factor around 1."""
    random = Random(f"durations-{seed}")

    def vary(one: Arrival) -> Arrival:
        factor = exp(random.gauss(0.0, VARIED_SIGMA))
        return replace(one, work=replace(one.work, run_ms=max(1, round(one.work.run_ms * factor))))

    return replace(trace, arrivals=tuple(vary(one) for one in trace.arrivals))


def scenario_of(history: History, change: Change, trace: Workload) -> Scenario:
    """History with this trace, under the change."""
    trace = replace(trace, arrivals=tuple(trace.arrivals[place] for place in _kept(history, change)))
    fixed = {group.path for group in change.groups}
    inputs = [_turned(told, change) for told in history.inputs if not _is_replaced(told, change, fixed)]
    usual = [pool for pool in dict.fromkeys(knob.pool for knob in change.knobs) if pool not in change.policies]
    early = [Input(at_ms=0, kind="admission", fact=f.GroupSet(group=group, by="lab")) for group in change.groups]
    early += [_set_by_us(pool, turned(policy, change.knobs, pool=pool)) for pool, policy in change.policies.items()]
    early += [Input(at_ms=0, kind="agent", fact=f.NodeSeen(node=node)) for node in change.nodes]
    return Scenario(
        trace=replace(trace, groups=()),
        fleet=Fleet(nodes=()),
        policies={},
        conditions=change.conditions,
        inputs=(
            *(_set_by_us(pool, turned(Policy(), change.knobs, pool=pool)) for pool in usual),
            *_at_once(inputs),
            *early,
        ),
        until_ms=2 * (history.end_ms - history.begin_ms) + TAIL_MS,
        begin_ms=history.begin_ms,
    )


def _set_by_us(pool: str, policy: Policy) -> Input:
    """A policy that is there before all else."""
    return Input(at_ms=0, kind="admission", fact=f.PolicySet(pool=pool, policy=replace(policy, version=1), by="lab"))


def _turned(told: Input, change: Change) -> Input:
    """What history set, with the settings that are to be different."""
    fact = told.fact
    if not change.knobs or not isinstance(fact, f.PolicySet):
        return told
    return replace(told, fact=replace(fact, policy=turned(fact.policy, change.knobs, pool=fact.pool)))


def _at_once(inputs: Sequence[Input]) -> list[Input]:
    """Settings and machines of the first moments are there before all else, groups from the root down."""
    return sorted(inputs, key=lambda told: told.at_ms)


def _is_replaced(told: Input, change: Change, fixed: set[str]) -> bool:
    fact = told.fact
    if isinstance(fact, f.PolicySet):
        return fact.pool in change.policies
    if isinstance(fact, f.GroupRemoved):
        return fact.path in fixed
    return isinstance(fact, f.GroupSet) and fact.group.path in fixed


def _kept(history: History, change: Change) -> list[int]:
    """Places in the trace of the jobs that still come."""
    below = f"{change.without}/" if change.without else ""
    arrivals = enumerate(history.trace.arrivals)
    return [place for place, one in arrivals if not below or not f"{one.spec.group}/".startswith(below)]


Pair = tuple[int, JobRecord, JobRecord]
"""Place in the trace, as it was, and under the change; both came to an end."""


def _paired(before: RunResult, after: RunResult, kept: list[int]) -> list[Pair]:
    old = {job.number: job for job in before.jobs}
    pairs = [(kept[job.number], job) for job in after.jobs]
    both = ((place, old[place], job) for place, job in pairs if place in old)
    return [pair for pair in both if pair[1].ended_ms >= 0 and pair[2].ended_ms >= 0]


def _answer(history: History, change: Change, runs: list[tuple[RunResult, RunResult]]) -> Answer:
    before, after = runs[0]
    kept = _kept(history, change)
    paired = [_paired(*pair, kept) for pair in runs]
    pairs = paired[0]
    groups = sorted({old.group for _, old, _ in pairs})
    changes = sorted((_change(history, pair) for pair in pairs), key=lambda one: (-one.gain_ms, one.job))
    differs = [place for place, old, new in pairs if old.first_started_ms != new.first_started_ms]
    return Answer(
        change=change.words(history.inputs),
        parts=(
            _part_of("everybody", paired, {place for place, _, _ in pairs}),
            *(_part_of(group, paired, {place for place, old, _ in pairs if old.group == group}) for group in groups),
        ),
        gained=tuple(one for one in changes[:SHOWN] if one.gain_ms > 0),
        lost=tuple(one for one in reversed(changes[-SHOWN:]) if one.gain_ms < 0),
        better=sum(one.gain_ms > 1000 for one in changes),
        worse=sum(one.gain_ms < -1000 for one in changes),
        makespan_before_s=_makespan_s(before),
        makespan_after_s=_makespan_s(after),
        recorded_wait_s=_mean([history.past[place].waited_ms for place, _, _ in pairs]) / 1000,
        simulated_wait_s=_mean([old.waited_ms for _, old, _ in pairs]) / 1000,
        censored=sum(past.censored for past in history.past),
        varied=len(runs) - 1,
        differs_first=history.past[min(differs)].job if differs else -1,
        classes=(*_classes(paired, size_class), *_classes(paired, length_class)),
        preemptions_before=sum(old.preemptions for _, old, _ in pairs),
        preemptions_after=sum(new.preemptions for _, _, new in pairs),
        overhead_before_hours=sum(old.overhead_gpu_ms for _, old, _ in pairs) / HOUR_GPU_MS,
        overhead_after_hours=sum(new.overhead_gpu_ms for _, _, new in pairs) / HOUR_GPU_MS,
        refused=tuple(_refused_newly(before, after, kept)),
        unfinished_before=sum(job.ended_ms < 0 for job in before.jobs),
        unfinished_after=sum(job.ended_ms < 0 for job in after.jobs),
        untied=after.untied,
        left_out=history.left_out,
    )


def _makespan_s(run: RunResult) -> float:
    """From the first arrival to the last end."""
    ends = [job.ended_ms for job in run.jobs if job.ended_ms >= 0]
    return (max(ends) - min(job.submitted_ms for job in run.jobs)) / 1000 if ends else 0.0


def _refused_newly(before: RunResult, after: RunResult, kept: list[int]) -> Iterator[Refused]:
    """Whom only the change refuses, by places in the trace of history."""
    anyway = {one.number for one in before.refused}
    for one in after.refused:
        if kept[one.number] not in anyway:
            yield replace(one, number=kept[one.number])


def length_class(job: JobRecord) -> str:
    """The job's class by the GPU time of its work."""
    hours = job.gpu_milli * job.run_ms / HOUR_GPU_MS
    return next((name for most, name in LENGTHS if hours <= most), LONGEST)


def _classes(paired: list[list[Pair]], of: Callable[[JobRecord], str]) -> Iterator[Part]:
    """Every class that somebody is in."""
    order = [name for _, name in (*SIZES, *LENGTHS)] + [LARGEST, LONGEST]
    there = {of(old) for _, old, _ in paired[0]}
    for name in sorted(there, key=order.index):
        yield _part_of(name, paired, {place for place, old, _ in paired[0] if of(old) == name})


def _change(history: History, pair: Pair) -> JobChange:
    place, old, new = pair
    return JobChange(
        job=history.past[place].job,
        name=old.name,
        group=old.group,
        wait_before_ms=old.waited_ms,
        wait_after_ms=new.waited_ms,
    )


def _part_of(name: str, paired: list[list[Pair]], chosen: set[int]) -> Part:
    """Jobs by their places: the first run as it was, and the change over all runs."""
    own = [[pair for pair in run if pair[0] in chosen] for run in paired]
    waits = [_mean([new.waited_ms - old.waited_ms for _, old, new in run]) / 1000 for run in own]
    ended = [[(old, new) for _, old, new in run if old.ended_ms >= 0 and new.ended_ms >= 0] for run in own]
    jcts = [_mean([new.jct_ms - old.jct_ms for old, new in run]) / 1000 for run in ended]
    return Part(
        name=name,
        jobs=len(own[0]),
        wait_before=_mean([old.waited_ms for _, old, _ in own[0]]) / 1000,
        wait_change=interval(waits),
        jct_before=_mean([old.jct_ms for old, _ in ended[0]]) / 1000,
        jct_change=interval(jcts),
        wait_after=_mean([new.waited_ms for _, _, new in own[0]]) / 1000,
        jct_after=_mean([new.jct_ms for _, new in ended[0]]) / 1000,
    )


def _mean(values: Sequence[int]) -> float:
    return sum(values) / len(values) if values else 0.0
