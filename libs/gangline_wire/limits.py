"""Every limit on what a user may send, with its name: one table, shown in the docs and named in the refusal."""

from typing import Final

from msgspec import Struct


class Limit(Struct, frozen=True):
    """One limit: the largest accepted value and what it counts."""

    most: int
    counts: str


LIMITS: Final[dict[str, Limit]] = {
    "name_chars": Limit(128, "characters of a job's name"),
    "token_chars": Limit(63, "characters of a pool, level, role, user or topology level"),
    "group_chars": Limit(256, "characters of a group path"),
    "roles": Limit(16, "roles of a job"),
    "tasks": Limit(10_000, "tasks of a job, all roles together, at their largest size"),
    "sizes": Limit(256, "allowed sizes of a role"),
    "gpus": Limit(4_096, "GPUs of one task"),
    "cpus": Limit(65_536, "CPUs of one task"),
    "memory_mib": Limit(1 << 30, "MiB of memory of one task (1 PiB)"),
    "gpu_memory_mib": Limit(1 << 24, "MiB of memory of one GPU (16 TiB)"),
    "gpu_models": Limit(16, "acceptable GPU models, or excluded ones"),
    "exclude_nodes": Limit(256, "excluded nodes of a job"),
    "devices": Limit(16, "kinds of other devices of one task"),
    "device_count": Limit(67_108_864, "devices of one kind of one task, or MiB of local storage"),
    "command_args": Limit(1_024, "arguments of a command"),
    "arg_bytes": Limit(64 << 10, "bytes of one argument"),
    "env_entries": Limit(256, "environment variables of a role"),
    "env_bytes": Limit(64 << 10, "bytes of one environment value"),
    "env_key_chars": Limit(256, "characters of an environment name"),
    "image_chars": Limit(512, "characters of an image reference"),
    "labels": Limit(64, "labels, or node selector entries"),
    "label_chars": Limit(256, "characters of a label's key or value"),
    "attributes": Limit(64, "attributes of a job"),
    "attribute_chars": Limit(1_024, "characters of an attribute's text"),
    "tolerations": Limit(32, "tolerations of a job"),
    "after": Limit(100, "jobs to wait for"),
    "array_elements": Limit(10_000, "elements of an array"),
    "array_ranges": Limit(256, "ranges of indexes of an array"),
    "secrets": Limit(64, "declared secrets of a job"),
    "priority": Limit(1_000_000, "priority of a job, also below zero"),
    "retries": Limit(100, "retries of a job"),
    "exit_code": Limit(255, "as an exit code"),
    "duration_s": Limit(366 * 86_400, "seconds of any duration (366 days)"),
    "grace_s": Limit(86_400, "seconds between the stop signal and the kill"),
    "job_chars": Limit(256 << 10, "characters of all commands and environments of a job"),
    "errors": Limit(50, "field errors told at once"),
    "batch_jobs": Limit(1_000, "jobs of one batch"),
    "body_bytes": Limit(4 << 20, "bytes of a request's body"),
    "page_jobs": Limit(1_000, "entries of one page"),
    "log_tail_lines": Limit(100_000, "lines from the end of a log"),
    "idempotency_key_chars": Limit(128, "characters of an Idempotency-Key"),
    "why_chars": Limit(512, "characters of a stated reason"),
    "event_streams": Limit(256, "open event and log streams of one gateway; an eighth is kept for administrators"),
    "user_streams": Limit(16, "open event and log streams of one user at one gateway, by whatever tokens"),
    "question_s": Limit(
        10,
        "seconds of a gateway's work on questions and dry runs of one user, by whatever tokens; with time, a fifth "
        "of it is given back. What is sent as it happens (`logs -f`, events) does not count",
    ),
    "connections": Limit(
        4_096, "open connections of one gateway; beyond it those go that have said nothing for longest"
    ),
    "settings_values": Limit(50_000, "names and values of one document of settings, at all depths"),
    "group_users": Limit(10_000, "entries of one answer's list of groups, users or tokens"),
}
"""Name -> limit. A refusal names the limit, so that a user can look it up."""


def most(name: str) -> int:
    """The largest accepted value of the named limit."""
    return LIMITS[name].most
