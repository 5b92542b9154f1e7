"""Which agents of a folder have tasks at work on this machine although no agent is there, as their files tell."""

from pathlib import Path

from gangline_agent import proc, supervise
from gangline_agent.journal import Folder, Journal


def at_work(agents: Path) -> dict[str, tuple[str, ...]]:
    """By the name of each agent whose folder lies here, the tasks whose supervisor or program lives."""
    boot = supervise.boot_id().decode()
    found: dict[str, tuple[str, ...]] = {}
    for root in sorted(agents.iterdir()) if agents.is_dir() else ():
        if (root / "tasks").is_dir() and not root.is_symlink():
            tasks = tuple(folder.path.name for folder in Journal(root).found() if _lives(folder, boot))
            found |= {root.name: tasks} if tasks else {}
    return found


def _lives(folder: Folder, boot: str) -> bool:
    life = folder.life()
    living = ((life.pid, life.start_ticks), (life.main, life.main_ticks))
    return life.boot == boot and not life.empty and any(pid and proc.is_alive(pid, ticks) for pid, ticks in living)
