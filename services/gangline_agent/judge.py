"""What the files and processes of a task mean, and what is due now. Pure: times and findings come in."""

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from gangline_agent.journal import Intent, Life
from gangline_agent.runner import Local, Phase
from gangline_core.facts import ExitCause

BUS_LOST_GRACE_S_MAX = 8.0
"""Cut off from the bus, a task must be gone before its node is declared lost and it is started elsewhere."""


class Found(Struct, frozen=True):
    """What was found on the machine."""

    supervisor_lives: bool
    something_is_left: bool
    """Processes of the task beside the supervisor; only looked for when that does not live, or has seen no more."""
    is_told: bool
    """All it wrote is in the log of outputs, or waited long enough to get there."""
    is_mine: bool = False
    """This very agent started it, and was there ever since."""


class Due(StrEnum):
    """What has to be done to a task's processes now."""

    NOTHING = "nothing"
    SIGNAL = "signal"
    """Ask it to stop, with the job's own signal."""
    STILL = "still"
    """Have its processes stand still."""
    KILL = "kill"


def local(intent: Intent, life: Life, found: Found) -> Local:
    """How far the task has come."""
    known = Local(
        task=intent.task,
        placed_ms=intent.placed_ms,
        phase=Phase.STARTING,
        pid=life.main,
        started=life.main > 0,
        safe=intent.is_safe,
        pausing=intent.pause,
        still=intent.still_s > 0,
    )
    is_lost = life.pid > 0 and not found.supervisor_lives and not life.is_over
    if not (life.is_over or is_lost):
        return replace(known, phase=Phase.RUNNING) if known.started else known
    nothing_left = not found.something_is_left and (life.empty or not found.supervisor_lives)
    known = replace(known, phase=Phase.EMPTY if nothing_left and found.is_told else Phase.EXITED)
    if life.failed:
        return replace(known, cause=intent.stop_cause or ExitCause.START_FAILED, error=life.failed, ports=intent.ports)
    if life.exit_code is None:
        error = "its supervisor is gone"
        return replace(known, cause=ExitCause.PROCESS_LOST, error=error, witnessed=found.is_mine)
    return replace(known, cause=_cause(intent, life), exit_code=life.exit_code)


def _cause(intent: Intent, life: Life) -> ExitCause:
    """A task that was stopped ended because of that, whatever its code."""
    if life.bus_lost:
        return ExitCause.BUS_LOST
    return intent.stop_cause or ExitCause.EXITED


def due(
    intent: Intent, life: Life, now: Local, *, now_s: float, running_since_s: float, is_left: bool = False
) -> tuple[Due, Intent]:
    """What is due at `now_s` (seconds since boot), and the intent to write down before it is done.

    `is_left` says that something of the task is, although its supervisor saw nothing more.
    """
    if now.phase == Phase.RUNNING and intent.stop_cause is None and _limit_is_over(intent, now_s, running_since_s):
        intent = replace(intent, stop_cause=ExitCause.TIME_LIMIT)
    if now.phase == Phase.RUNNING and intent.stop_cause is None and _has_left(intent, now_s):
        intent = replace(intent, stop_cause=ExitCause.STOPPED)
    if now.phase == Phase.EXITED and not life.is_over:
        # Nobody stands beside it any more: how it would end can no longer be known.
        return Due.KILL, intent
    if _stands_still(intent, now, now_s):
        return Due.STILL, replace(intent, still_s=now_s)
    stops = now.phase == Phase.RUNNING and intent.stop_cause is not None
    leaves_strays = now.phase == Phase.EXITED and (is_left or not life.empty)
    if not (stops or leaves_strays):
        return Due.NOTHING, intent
    if intent.kill_at_s == 0:
        return Due.SIGNAL, replace(intent, kill_at_s=now_s + grace_s(intent))
    return (Due.KILL if now_s >= intent.kill_at_s else Due.NOTHING), intent


def _stands_still(intent: Intent, now: Local, now_s: float) -> bool:
    """True when a task that was told to stand still has had its time, and still works."""
    is_due = intent.pause and not intent.still_s and now_s >= intent.pause_at_s
    return is_due and now.phase == Phase.RUNNING and intent.stop_cause is None


def _has_left(intent: Intent, now_s: float) -> bool:
    """True when a member that leaves is safe, or had its time."""
    return intent.leave_at_s > 0 and (intent.is_safe or now_s >= intent.leave_at_s)


def grace_s(intent: Intent) -> float:
    """Time between the stop signal and the kill."""
    if intent.stop_cause == ExitCause.BUS_LOST:
        return min(intent.grace_s, BUS_LOST_GRACE_S_MAX)
    return intent.grace_s


def _limit_is_over(intent: Intent, now_s: float, running_since_s: float) -> bool:
    """True at its job's deadline, and when it has worked for as long as it may, pauses left out."""
    if intent.ends_at_s and now_s >= intent.ends_at_s:
        return True
    stood_s = intent.paused_s + (now_s - intent.still_s if intent.still_s else 0)
    return intent.limit_s > 0 and now_s - running_since_s - stood_s >= intent.limit_s
