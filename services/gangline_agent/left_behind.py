"""Tasks of which the files do not tell any more what became of them: they get files again, and with them their end.

A job can delete its own folder or overwrite what is in it, and so can whoever tidies up. An agent that began anew then
found nothing of the task, gave its room back and started it a second time beside the first; or it waited for ever.
"""

import logging
from collections.abc import Iterable

from gangline_agent import containers, launch, proc
from gangline_agent.journal import LIFE, PID_MAX, Folder, Journal, Life
from gangline_agent.runner import Order
from gangline_kit.clock import Clock

log = logging.getLogger(__name__)


def put_back(journal: Journal, orders: Iterable[Order], *, boot: str, clock: Clock) -> None:
    """Write down of each such task that nobody stands beside it: what is left of it is ended, and then seen to be gone.

    Its processes are found by the environment they began with, as those whose supervisor is gone are.
    """
    silent = [order for order in orders if _is_silent(journal.folder(order.task.id))]
    everything = proc.everything() if silent else {}
    for order in silent:
        folder = journal.folder(order.task.id)
        began = (folder.path / LIFE).exists()
        if began or proc.marked(everything, f"{containers.MARK}{folder.notice}"):
            log.warning("the files of task %s do not tell what became of it: it is ended", order.task.id)
            folder.make(launch.intent(order, clock))
            # No process has this number: no supervisor is found, and nothing below it.
            folder.put(LIFE, f"claimed {PID_MAX} 0 {boot}\n".encode())


def _is_silent(folder: Folder) -> bool:
    """True where nothing can be read of what was meant, or of what happened."""
    return folder.path.is_symlink() or folder.intent() is None or folder.life() == Life()
