"""A job of the log as the status of its Job object: phase, numbers and conditions, in the words of both. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from gangline_core.door.arrays import as_written, label
from gangline_core.job import ENDS, STATE_WORDS, Job, JobState, Task, TaskState
from gangline_core.reasons import Reason, ReasonCode, sentence
from gangline_core.state import State

Status = dict[str, Any]

QUOTA = frozenset({ReasonCode.GROUP_LIMIT, ReasonCode.USER_LIMIT, ReasonCode.BUDGET_EXHAUSTED})
"""Waits that no new machine ends."""
NODES_MAX = 1_000
"""Nodes that a status names; of more it says how many there are."""
SHORT_CHARS = 200
"""So much of each sentence is left where an object takes no more."""
ROOM = frozenset(
    {
        ReasonCode.INSUFFICIENT_GPUS,
        ReasonCode.FRAGMENTED_GPUS,
        ReasonCode.INSUFFICIENT_GPU_MEMORY,
        ReasonCode.INSUFFICIENT_CPU,
        ReasonCode.INSUFFICIENT_MEMORY,
        ReasonCode.INSUFFICIENT_DEVICES,
        ReasonCode.TOPOLOGY,
        ReasonCode.NO_ELIGIBLE_NODE,
        ReasonCode.NO_LABEL,
    }
)
"""Waits that a new machine could end: only these are shown to an autoscaler."""


def status_of(state: State, job: Job, tasks: Sequence[Task], before: Status, *, generation: int, now_ms: int) -> Status:
    """The whole status; conditions that did not change keep their time."""
    count = {state: sum(task.state == state for task in tasks) for state in TaskState}
    nodes = sorted({str(task.node) for task in tasks})
    found: Status = {
        "job": int(job.id),
        "phase": STATE_WORDS[job.state],
        "reason": word_of(job),
        "message": message_of(state, job),
        "observedGeneration": generation,
        "attempt": job.attempt,
        "preemptions": job.preemptions,
        "resizes": job.resize.number if job.resize is not None else 0,
        "tasks": {"wanted": sum(job.sizes.values()) or sum(r.count for r in job.spec.roles), "placed": len(tasks)},
        "gpus": sum(task.gpu_milli for task in tasks) // 1000,
        "nodes": nodes[:NODES_MAX],
    }
    if len(nodes) > NODES_MAX:
        found["nodesLeftOut"] = len(nodes) - NODES_MAX
    found["tasks"] |= {"running": count[TaskState.STARTED], "ended": count[TaskState.EXITED]}
    for field, at in (("startTime", job.started_ms), ("completionTime", job.ended_ms)):
        if at:
            found[field] = stamp(at)
    if job.exit_code is not None:
        found["exitCode"] = job.exit_code
    conditions = [
        condition(kind, holds=holds, reason=reason, message=message, generation=generation)
        for kind, holds, reason, message in _conditions(state, job)
    ]
    found["conditions"] = with_times(conditions, before.get("conditions") or [], now_ms)
    return found


def shortened(status: Status) -> Status:
    """The same for an object that has room for little more: without names of nodes, in short sentences."""
    found = {key: value for key, value in status.items() if key != "nodes"}
    if left_out := len(status.get("nodes") or ()) + int(status.get("nodesLeftOut") or 0):
        found["nodesLeftOut"] = left_out
    conditions = [{**one, "message": str(one.get("message", ""))[:SHORT_CHARS]} for one in status["conditions"]]
    return {**found, "message": str(status.get("message", ""))[:SHORT_CHARS], "conditions": conditions}


def refused_status(code: str, message: str, before: Status, *, generation: int, now_ms: int) -> Status:
    """The status of an object whose job was refused at the door."""
    made = [condition("Admitted", holds=False, reason=code, message=message, generation=generation)]
    return {
        "phase": "Refused",
        "reason": code,
        "message": message,
        "observedGeneration": generation,
        "conditions": with_times(made, before.get("conditions") or [], now_ms),
    }


def word_of(job: Job) -> str:
    """Why it stands where it stands, in one word."""
    if job.reason is None or job.state in (JobState.STARTING, JobState.RUNNING, JobState.RESIZING):
        return STATE_WORDS[job.state]
    return quota_word(job.reason)


def quota_word(reason: Reason) -> str:
    """The reason's code; every quota has one word here, as its numbers are in the message."""
    return "QuotaHeld" if reason.code in QUOTA else reason.code.value


def message_of(state: State, job: Job) -> str:
    """The same as a sentence, with other jobs as people write them: an element of an array by its index."""
    if job.state == JobState.RESIZING:
        return resized(job)
    if job.reason is None or job.state in (JobState.STARTING, JobState.RUNNING, JobState.RESIZING):
        return ""
    return sentence(as_written(state, job.reason))


def _conditions(known: State, job: Job) -> list[tuple[str, bool, str, str]]:
    """Type, whether it holds, reason and message of each condition."""
    word, message, state = word_of(job), message_of(known, job), job.state
    is_placed = state in (JobState.STARTING, JobState.RUNNING, JobState.RESIZING)
    is_running = state in (JobState.RUNNING, JobState.RESIZING)
    is_over = state in ENDS
    waits_for_quota = job.reason is not None and job.reason.code in QUOTA and state == JobState.WAITING
    found = [
        ("Admitted", True, "Admitted", f"job {label(known, job.id)}"),
        (
            "QuotaReserved",
            not waits_for_quota,
            word if waits_for_quota else "QuotaReserved",
            message if waits_for_quota else "",
        ),
        ("Placed", is_placed, "Placed" if is_placed else word, "" if is_placed else message),
        ("Running", is_running, word, message),
        ("Suspended", state in (JobState.HELD, JobState.PAUSED, JobState.SUSPENDED), word, message),
        ("Finished", is_over, word if is_over else STATE_WORDS[state], message if is_over else ""),
        ("Complete", state == JobState.SUCCEEDED, word, message if is_over else ""),
        ("Failed", is_over and state != JobState.SUCCEEDED, word, message if is_over else ""),
    ]
    if job.resize is not None:
        is_it = state == JobState.RESIZING
        why = word if is_it else job.resize.stage.value.capitalize()
        found.append(("Resizing", is_it, why, resized(job)))
    if job.yielded_to:
        is_it = state in (JobState.STOPPING, JobState.WAITING)
        found.append(
            ("Preempted", is_it, "Preempted" if is_it else STATE_WORDS[state], made_way(known, job) if is_it else "")
        )
    return found


def resized(job: Job) -> str:
    """From which size to which its last change of size goes or went, and why."""
    change = job.resize
    if change is None:
        return ""
    sizes = f"From {_size(change.before)} to {_size(change.after)}"
    if change.before == change.after:
        sizes = f"Starts again with {_size(change.after)} as before"
    return sizes + (f": {change.why}." if change.why else ".")


def _size(sizes: dict[str, int]) -> str:
    total = sum(sizes.values())
    return f"{total} task" if total == 1 else f"{total} tasks"


def made_way(state: State, job: Job) -> str:
    """For whom the job was preempted last."""
    if job.reason is not None and job.reason.code == ReasonCode.PREEMPTED:
        return sentence(as_written(state, job.reason))
    if not job.yielded_to:
        return ""
    return f"Preempted by job {label(state, job.yielded_to[-1])}; it waits for its next turn."


def condition(kind: str, *, holds: bool, reason: str, message: str, generation: int) -> Status:
    """One condition without its time."""
    return {
        "type": kind,
        "status": "True" if holds else "False",
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
    }


def with_times(conditions: list[Status], before: list[Status], now_ms: int) -> list[Status]:
    """Conditions with the time of their last change of status."""
    old = {one["type"]: one for one in before}
    for one in conditions:
        known = old.get(one["type"])
        is_same = known is not None and known.get("status") == one["status"]
        one["lastTransitionTime"] = known["lastTransitionTime"] if is_same and known is not None else stamp(now_ms)
    return conditions


def stamp(at_ms: int) -> str:
    """A time as objects carry it."""
    return datetime.fromtimestamp(at_ms // 1000, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def scheduled_condition(state: State, job: Job) -> Status | None:
    """What a waiting pod says of itself, for an autoscaler to act on or not; None when it is not waiting.

    Only a wait that a new machine could end is called Unschedulable, the word autoscalers look for.
    """
    if job.state in (JobState.HELD, JobState.SUSPENDED):
        message = sentence(as_written(state, job.reason)) if job.reason is not None else "It is held."
        return {"type": "PodScheduled", "status": "False", "reason": "Held", "message": message}
    if job.state != JobState.WAITING or job.reason is None:
        return None
    code = job.reason.code
    reason = "Unschedulable" if code in ROOM else quota_word(job.reason)
    return {"type": "PodScheduled", "status": "False", "reason": reason, "message": message_of(state, job)}
