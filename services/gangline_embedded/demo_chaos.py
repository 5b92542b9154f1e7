"""Breaking the running platform on purpose, and checking afterwards that nothing came of it."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from gangline_core.job import ENDS
from gangline_embedded.demo_submit import Answers
from gangline_embedded.demo_watch import Watch
from gangline_embedded.platform import Platform
from gangline_kit.clock import Clock
from gangline_kit.errors import PermanentError
from gangline_lab.chronicle import Chronicle, JobStory

FIRST_S = 6.0
"""Time before anything is killed, so that jobs run everywhere."""
BETWEEN_S = 4.0
"""Rest before the next service is killed: longer than a lease lives, so that a leader is back (ttl 3 s)."""
BACK_S_MAX = 120.0
"""A killed service process must be running again within this time."""
LOOK_S = 0.1
NATS_AFTER_S = 20.0
NATS_DOWN_S = 1.5
"""How long the message bus is away."""
SHOWN_MAX = 5


class Check(Struct, frozen=True):
    """One promise, whether it held, and what was looked at."""

    name: str
    holds: bool
    detail: str


async def kill_services(platform: Platform, watch: Watch, clock: Clock) -> list[str]:
    """kill -9 each service process in turn, each after the one before is back; the names of those killed."""
    await clock.sleep(FIRST_S)
    killed = []
    for name in platform.service_names():
        starts = platform.service_starts(name)
        began_s = clock.monotonic_s()
        pid = platform.kill_service(name)
        while platform.service_starts(name) == starts:
            if clock.monotonic_s() - began_s > BACK_S_MAX:
                raise PermanentError(f"service {name} was not started again within {BACK_S_MAX:g} s")
            await clock.sleep(LOOK_S)
        await platform.wait_ready()
        killed.append(name)
        watch.say(f"  kill -9 {name} (pid {pid}); runs again after {clock.monotonic_s() - began_s:.1f} s")
        await clock.sleep(BETWEEN_S)
    return killed


async def kill_bus(platform: Platform, watch: Watch, clock: Clock) -> None:
    """kill -9 the nats-server while jobs arrive, and start it again on the same files."""
    await clock.sleep(NATS_AFTER_S)
    await platform.kill_nats()
    watch.say("  kill -9 nats-server")
    await clock.sleep(NATS_DOWN_S)
    await platform.restart_nats()
    await platform.wait_ready()
    watch.say(f"  nats-server is back on the same files after {NATS_DOWN_S:g} s")


def check_promises(
    chronicle: Chronicle, answers: Answers, *, starts_file: Path, agent_folders: Iterable[Path]
) -> list[Check]:
    """What must hold whatever was killed, from the log, the agents' records and the programs' own notes."""
    jobs: dict[int, JobStory] = {story.job: story for story in chronicle.jobs}
    lost = [job for job in answers.accepted if job not in jobs]
    unended = [job for job in answers.accepted if job in jobs and jobs[job].state not in ENDS]
    return [
        _check("every job answered 202 is in the log", lost, f"{len(answers.accepted)} answers"),
        _check("every one of them came to an end", unended, f"{len(answers.accepted)} jobs"),
        _check("no job is in the log that nobody was told of", sorted(jobs.keys() - answers.accepted.keys()), "ids"),
        _check(
            "no task was started twice, says the log",
            _twice(chronicle.starts.items()),
            f"{len(chronicle.starts)} tasks",
        ),
        _twice_in_records(list(agent_folders)),
        _twice_in_notes(starts_file),
    ]


def _check(name: str, offenders: Iterable[object], looked_at: str) -> Check:
    bad = list(offenders)
    found = f"; not so: {', '.join(map(str, bad[:SHOWN_MAX]))}" + (", ..." if len(bad) > SHOWN_MAX else "")
    return Check(name=name, holds=not bad, detail=looked_at + (found if bad else ""))


def _twice(counts: Iterable[tuple[str, int]]) -> list[str]:
    return [name for name, count in counts if count > 1]


def _twice_in_records(folders: list[Path]) -> Check:
    """The agents keep one folder per task, in which the supervisor of its process notes every start."""
    starts = Counter[str]()
    for folder in folders:
        for life in sorted(folder.glob("*/*/life")):
            lines = life.read_text(errors="replace").splitlines()
            starts[life.parent.name.partition(".")[0]] += sum(line.startswith("started ") for line in lines)
    return _check(
        "no process was started twice, say the agents' records", _twice(starts.items()), f"{len(starts)} processes"
    )


def _twice_in_notes(starts_file: Path) -> Check:
    """Some of the demo's programs write down each start of theirs themselves."""
    lines = starts_file.read_text().splitlines() if starts_file.exists() else []
    starts = Counter(line.partition(" ")[0] for line in lines)
    return _check(
        "no program ran twice, say the programs themselves", _twice(starts.items()), f"{len(starts)} programs"
    )
