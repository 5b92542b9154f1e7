"""A job of a plan as its user writes it."""

from collections.abc import Sequence
from typing import Any

from dollhouse.plan import OTHER_MODEL, Ask
from dollhouse.telling import STEP_TIME

PLANTED = "s3cr3t-of-the-house"
"""How every secret value begins, so that nobody can show one without being seen."""
SECRET_NAME = "API_TOKEN"
MOST = "16Gi"
"""Memory of each GPU that jobs use which say so: two of them fit."""

STAGE_NAMES = ("loading_ms", "compute_ms", "network_ms", "iteration_ms")
STAGES = ((), (20, 30, 10, 100), (60, 20, 10, 100), (5, 60, 30, 100), (10, 95, 0, 100))
"""What jobs say of an iteration: nothing, or that they mind others not at all, a little, elsewhere, or much."""


def job_file(ask: Ask, jobs: Sequence[int], *, now_ms: int = 0, number: int = 0) -> dict[str, Any]:
    """The job as its user writes it at this time; `jobs` are those that there are already."""
    times = {
        "run_time_s": ask.run_s,
        "exit_code": ask.code,
        "start_time_s": ask.start_s,
        "stop_time_s": ask.stop_s,
        "stuck_time_s": ask.stuck_s,
        STEP_TIME: ask.tells_ms / 1000,
    }
    document: dict[str, Any] = {
        "command": ["true"],
        "tasks": ask.tasks,
        "cpus": 1,
        "memory": "1Gi",
        "group": ask.group,
        "user": ask.user,
        "priority": ask.priority,
        "service_class": ask.service_class,
        "attributes": {name: value for name, value in times.items() if value or name == "run_time_s"},
        "protected": ask.protected_s,
        "grace": ask.grace_s,
        "retries": ask.retries,
        "hold": ask.hold,
    }
    document |= {"checkpoints": True} if ask.saves else {}
    document["attributes"] |= {f"speed_{OTHER_MODEL}": ask.speed} if ask.speed else {}
    document |= {"elastic": {"cost": 1}} if ask.speed else {}
    document |= {"mig": ask.mig} if ask.mig else {"gpus": f"{ask.gpu_milli}m"}
    most = f"{ask.most_gib}Gi" if ask.most_gib else MOST
    document |= {"gpu_memory_most": most} if ask.tells_ms or ask.stages else {}
    document["attributes"] |= dict(zip(STAGE_NAMES, STAGES[ask.stages], strict=False))
    document |= {"estimate": max(1, round(ask.run_s))} if ask.stages else {}
    document |= {"estimate": ask.told_s} if ask.told_s else {}
    document |= {"min": ask.least} if ask.least else {}
    document |= {"max": ask.most} if ask.most else {}
    document |= {"topology": {"required": ask.topology}} if ask.topology else {}
    document |= {"time_limit": ask.limit_s} if ask.limit_s else {}
    document |= {"pause": {}} if ask.run_s % 2 else {}
    document |= {"pool": ask.pool} if ask.pool else {}
    document |= {"after": [_followed(ask.wants, jobs[-1])]} if ask.after and jobs else {}
    document |= {"array": _indexes(ask)} if ask.array else {}
    document |= {"deadline": now_ms + round(ask.due_s * 1000)} if ask.due_s else {}
    document |= {"pause": {"notice": ask.notice_s, "gpu_memory": f"{ask.stays_gib}Gi"}} if ask.notice_s else {}
    document |= {"preemptible": False} if ask.firm else {}
    document |= {"not_before": now_ms + round(ask.later_s * 1000)} if ask.later_s else {}
    document |= {"singleton": True, "name": "lone"} if ask.lone else {}
    document |= {"repair": ask.repair_s} if ask.repair_s else {}
    document |= {"env": {SECRET_NAME: f"{PLANTED}-{number}"}, "secrets": [SECRET_NAME]} if ask.secret else {}
    return document


def _followed(wants: str, job: int) -> int | str:
    return f"{wants}:{job}" if wants else job


def _indexes(ask: Ask) -> str:
    return f"0-{ask.array - 1}" + (f"%{ask.at_most}" if ask.at_most else "")
