"""What tasks show without a word: the heartbeat file that they touch, the flight record that their library leaves."""

import contextlib
from collections.abc import Iterable

from gangline_agent.journal import Folder
from gangline_agent.lives import Live
from gangline_agent.runner import Phase

RECORD = "nccl_trace_rank_"
"""A record's name begins so; the rank follows."""
RECORD_EVENTS = 2_000


def flight_recorder(folder: Folder) -> dict[str, str]:
    """Variables by which PyTorch's NCCL watchdog leaves a record in the task's folder when a collective times out.

    Older releases read the TORCH_NCCL names, later ones the TORCH_FR names. What the job sets itself goes before.
    """
    prefix, events = str(folder.path / RECORD), str(RECORD_EVENTS)
    return {
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_NCCL_TRACE_BUFFER_SIZE": events,
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": prefix,
        "TORCH_FR_BUFFER_SIZE": events,
        "TORCH_FR_DUMP_TEMP_FILE": prefix,
    }


def beats(lives: Iterable[Live]) -> dict[str, int]:
    """When each running task last touched its heartbeat file, in ms; one that never did says nothing."""
    found: dict[str, int] = {}
    for live in lives:
        if live.local.phase == Phase.RUNNING:
            with contextlib.suppress(OSError):
                found[live.intent.task] = int(live.folder.heartbeat.stat().st_mtime * 1000)
    return found


def stuck(lives: Iterable[Live]) -> tuple[str, ...]:
    """Running tasks in whose folder a flight record lies."""
    running = (live for live in lives if live.local.phase == Phase.RUNNING)
    return tuple(sorted(live.intent.task for live in running if _has_record(live.folder)))


def _has_record(folder: Folder) -> bool:
    try:
        return any(entry.name.startswith(RECORD) for entry in folder.path.iterdir())
    except OSError:
        return False
