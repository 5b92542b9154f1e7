"""Containers that a task had a daemon start: no children of the task, found below the daemon's shims by its mark.

`docker run -e GANGLINE_TASK_ID -e GANGLINE_TASK_NOTICE_FILE ...` hands the mark on. All of a container belongs to the
task whose mark any of its processes has, also those that dropped their environment.
"""

from collections.abc import Iterator, Mapping

from gangline_agent import proc
from gangline_agent.proc import Process

SHIMS = ("containerd-shim", "conmon")
"""What container runtimes leave beside each container, as the kernel shortens names."""
MARK = "GANGLINE_TASK_NOTICE_FILE="


def are_here(processes: Mapping[int, Process]) -> bool:
    """True when any container runs on this machine."""
    return any(process.name.startswith(SHIMS) for process in processes.values())


def of_tasks(processes: Mapping[int, Process]) -> Iterator[tuple[str, list[int]]]:
    """Notice file and processes of every container that has a task's mark."""
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    for process in processes.values():
        if process.name.startswith(SHIMS):
            inside = _below(children, process.pid)
            mark = next((mark for pid in inside if (mark := proc.mark_of(pid, MARK))), "")
            if mark:
                yield mark, inside


def of_task(processes: Mapping[int, Process], notice_file: str) -> list[int]:
    """Processes of the containers of one task."""
    return [pid for mark, inside in of_tasks(processes) if mark == notice_file for pid in inside]


def _below(children: Mapping[int, list[int]], pid: int) -> list[int]:
    found, todo = list[int](), list(children.get(pid, ()))
    while todo:
        one = todo.pop()
        found.append(one)
        todo += children.get(one, ())
    return sorted(found)
