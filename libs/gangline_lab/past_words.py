"""Why a job waited and what a preemption was decided on, as plain text."""

from datetime import UTC, datetime

from gangline_core.counted import counted, singular
from gangline_core.job import JobState
from gangline_lab.audit import Other, Party, Preemption
from gangline_lab.life import Happening
from gangline_lab.why import Ahead, How, RoundWaited, Why
from gangline_lab.words import duration

HELD_WORDS: dict[str, str] = {JobState.HELD: "on hold", JobState.SUSPENDED: "suspended"}
MILLIONTHS = 1_000_000
AHEAD_SHOWN = 8
LIFE_SHOWN = 30
"""Jobs that went before, shown for one stretch of rounds."""


def clock(ms: int) -> str:
    """A time as people write it, in UTC."""
    return datetime.fromtimestamp(ms / 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S") if ms else "never"


def why_lines(told: Why, *, every_round: bool = False) -> list[str]:
    """The story; rounds that say the same stand together unless every one is wanted."""
    begun = f"submitted {clock(told.submitted_ms)}"
    if told.started_ms:
        begun += f", started {clock(told.started_ms)}, {duration(max(0, told.started_ms - told.submitted_ms))} later"
    else:
        begun += f", never started; ended {clock(told.ended_ms)}" if told.ended_ms else ", not started yet"
    lines = [
        f"Job {told.written or told.job} {told.name}, now {told.state}: {begun}.",
        f"{counted(len(told.rounds), 'round')} left it waiting.",
    ]
    if told.entered_ms:
        most = f", of which at most {told.at_most} are there at once" if told.at_most else ""
        late = duration(told.entered_ms - told.submitted_ms)
        lines.insert(1, f"It came into the queue at {clock(told.entered_ms)}, {late} after its array{most}.")
    for one in told.held:
        until = (
            f"until {clock(one.until_ms)}, {duration(one.until_ms - one.since_ms)}" if one.until_ms else "and still is"
        )
        lines.append(f"It was {HELD_WORDS.get(one.state, one.state)} from {clock(one.since_ms)} {until}.")
    lines += _life_lines(told.life, every=every_round)
    stretches = [[one] for one in told.rounds] if every_round else _stretches(told.rounds)
    for stretch in stretches:
        lines += ["", *_stretch_lines(stretch)]
    return lines


def _life_lines(life: tuple[Happening, ...], *, every: bool) -> list[str]:
    """What was done with the job; of a long life the beginning and the end, unless all of it is wanted."""
    left_out = 0 if every else max(0, len(life) - LIFE_SHOWN)
    begin = LIFE_SHOWN // 2
    lines = [f"  {clock(one.at)}  {one.what}" for one in life]
    if left_out:
        lines[begin : begin + left_out] = [f"  and {left_out} more in between (--every-round shows all)"]
    return ["", "What was done with it", *lines] if lines else []


def _stretches(rounds: tuple[RoundWaited, ...]) -> list[list[RoundWaited]]:
    """Consecutive rounds with the same reason code."""
    found: list[list[RoundWaited]] = []
    for one in rounds:
        if found and found[-1][-1].code == one.code:
            found[-1].append(one)
        else:
            found.append([one])
    return found


def _stretch_lines(stretch: list[RoundWaited]) -> list[str]:
    first, last = stretch[0], stretch[-1]
    named = f"Round {first.round}" if len(stretch) == 1 else f"Rounds {first.round} to {last.round} ({len(stretch)})"
    places = sorted({one.place for one in stretch if one.place})
    where = f"place {places[0]}" if len(places) == 1 else f"places {places[0]} to {places[-1]}" if places else ""
    where = f", {where} of up to {max(one.of for one in stretch)}" if where else ", not in the order"
    lines = [f"{named}, {clock(first.at)} to {clock(last.at)}{where}"]
    lines.append(f"  {last.code}: {last.reason}" if last.code else f"  {last.reason}")
    if last.terms:
        terms = ", ".join(f"{name} = {value / MILLIONTHS:g}" for name, value in last.terms.items())
        in_round = f" in round {last.round}" if len(stretch) > 1 else ""
        lines.append(f"  score{in_round} {last.score / MILLIONTHS:g}: {terms}")
    if last.passed:
        shown = ", ".join((last.passed_written or tuple(map(str, last.passed)))[:AHEAD_SHOWN])
        more = f" and {len(last.passed) - AHEAD_SHOWN} more" if len(last.passed) > AHEAD_SHOWN else ""
        lines.append(f"  before it in round {last.round}, and not started either: {shown}{more}")
    ahead = [(each, one) for each in stretch for one in each.ahead]
    lines += [_ahead_line(each, one) for each, one in ahead[:AHEAD_SHOWN]]
    if len(ahead) > AHEAD_SHOWN:
        lines.append(f"  and {len(ahead) - AHEAD_SHOWN} more went before")
    return lines


def _ahead_line(waited: RoundWaited, one: Ahead) -> str:
    name = one.written or str(one.job)
    if one.how == How.CLAIM:
        return f"  job {name} was started in round {waited.round}: {one.how}"
    if one.how in (How.KEPT_OUT, How.BARRED):
        why = f" ({waited.code})" if waited.code else ""
        return f"  job {name} was started in round {waited.round}: it {one.how}{why}"
    scores = f"{one.score / MILLIONTHS:g}, this job {one.own_score / MILLIONTHS:g}"
    terms = ", ".join(f"{name} = {value / MILLIONTHS:g}" for name, value in one.terms.items())
    return f"  job {name} went before in round {waited.round}: it {one.how} ({scores})" + (
        f": {terms}" if terms else ""
    )


def preemption_line(one: Preemption) -> str:
    """One preemption in a list."""
    return (
        f"{one.number}. {clock(one.at)} round {one.round} of {one.pool}: job {one.victim.named} ({one.victim.group}) "
        f"for job {one.beneficiary.named} ({one.beneficiary.group}), rule {one.rule}, lost {duration(one.lost_ms)}"
    )


def audit_lines(one: Preemption) -> list[str]:
    """All inputs of one preemption."""
    again = "gives the same eviction" if one.decided_again else "gives ANOTHER decision"
    terms = ", ".join(f"{name} = {value / MILLIONTHS:g}" for name, value in one.terms.items())
    place = f"place {one.place}, score {one.score / MILLIONTHS:g}: {terms}" if one.place else "not in the order"
    together = ", ".join(one.together_written or tuple(map(str, one.together)))
    lines = [
        preemption_line(one),
        f"Decided in message {one.seq} on the state at {one.seq_seen}; deciding again {again}.",
        "",
        f"Victim       {_party(one.victim)}",
        f"  ran since {clock(one.victim.started_ms)}; {_lost(one)}",
        *_yield_lines(one),
        f"Beneficiary  {_party(one.beneficiary)}",
        f"  waiting since {clock(one.beneficiary.submitted_ms)}; {place}",
        f"  room cleared on {', '.join(one.nodes) or 'no node'}; evicted for it: {together}",
        "",
        f"What came of it: victim gone {clock(one.victim_gone_ms)}, beneficiary started "
        f"{clock(one.beneficiary_started_ms)}, victim started again {clock(one.victim_started_again_ms)}",
    ]
    if one.others:
        able = [other for other in one.others if other.rule]
        lines += [
            "",
            "Others that could have gone, in the order in which they would" if able else "Nobody else could go",
        ]
        lines += [f"  {_other(other)}; rule {other.rule}, {duration(other.lost_ms)} would be lost" for other in able]
        unable = [other for other in one.others if not other.rule]
        lines += ["", "Others that could not go"] if unable else []
        lines += [f"  {_other(other)}; {other.why_not}" for other in unable]
    return lines


def _lost(one: Preemption) -> str:
    return f"{one.victim.shares} {duration(one.lost_ms)} of run time counted as lost".lstrip()


def _yield_lines(one: Preemption) -> list[str]:
    """What the rule `yield` looked at."""
    rule, victim, gains = one.yielding, one.victim, one.beneficiary
    if rule is None:
        return []
    return [
        f"  both go on where they stopped; it had {victim.had_gpu_s:,} GPU-seconds and stood in queue "
        f"{rule.victim_queue}, job {gains.named} had {gains.had_gpu_s:,} and stood in queue {rule.beneficiary_queue}: "
        f"who had {rule.after_gpu_s:,} makes way for lower queues, which had less, need less still, or waited longest",
        f"  its run had lasted {duration(max(0, one.at - victim.started_ms))} (one of {duration(1000 * rule.run_s)} is "
        f"left alone); it had waited {duration(victim.waited_ms)} in all (after {duration(1000 * rule.patience_s)} it "
        "makes way no more)",
    ]


def _other(other: Other) -> str:
    where = ", ".join(other.nodes) or "no node"
    shares = f"; {other.party.shares.rstrip('.')}" if other.party.shares else ""
    return f"{_party(other.party)}, on {where}, ran since {clock(other.party.started_ms)}{shares}"


def _party(party: Party) -> str:
    own, whole = party.own_priority, party.priority
    priority = f"{whole}" if own == whole else f"{own} ({whole} with its level)"
    return (
        f"job {party.named} {party.name} of {party.user} in {party.group or '(root)'}: "
        f"{singular(f'{party.gpus:g} GPUs')}, {party.service_class}, level {party.level}, priority {priority}, "
        f"attempt {party.attempts}, "
        f"{_protection(party.protected_s)}preempted {counted(party.preemptions, 'time')} before; "
        f"its group held {party.group_gpus:g} GPUs of {party.group_guaranteed:g} guaranteed"
    )


def _protection(seconds: int) -> str:
    if not seconds:
        return ""
    return f"protected for {duration(1000 * seconds)}, " if seconds > 0 else "always protected, "
