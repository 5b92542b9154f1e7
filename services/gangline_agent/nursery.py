"""The process that forks supervisors: kept alive, and handed orders through a pipe, so that no secret is on disk."""

import os
import sys
from pathlib import Path
from threading import Lock

from gangline_agent.forking import LENGTH_BYTES

TRIES = 2


class Nursery:
    """One helper process, started on first use and again when it has died."""

    def __init__(self, log_file: Path) -> None:
        """What it and its supervisors complain about goes to `log_file`."""
        self.log_file = log_file
        self.pid = 0
        self._pipe = -1
        self._turn = Lock()

    def warm(self) -> None:
        """Start the helper before it is needed."""
        with self._turn:
            if self._pipe < 0:
                self._start()

    def send(self, order: bytes) -> None:
        """Have a supervisor made for this order; safe from several threads.

        Raises:
            OSError: the helper cannot be started.
        """
        data = len(order).to_bytes(LENGTH_BYTES, "big") + order
        with self._turn:
            for attempt in range(TRIES):
                if self._pipe < 0:
                    self._start()
                try:
                    _write_whole(self._pipe, data)
                except BrokenPipeError:
                    self._end()
                    if attempt + 1 == TRIES:
                        raise
                else:
                    return

    def close(self) -> None:
        """Let the helper end; its supervisors stay."""
        with self._turn:
            self._end()

    def _start(self) -> None:
        reader, self._pipe = os.pipe()
        null = os.open(os.devnull, os.O_RDWR)
        log = os.open(self.log_file, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        try:
            self.pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-m", "gangline_agent.forking", "3"],
                {},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, null, 0),
                    (os.POSIX_SPAWN_DUP2, null, 1),
                    (os.POSIX_SPAWN_DUP2, log, 2),
                    (os.POSIX_SPAWN_DUP2, reader, 3),
                ],
                setsid=True,
            )
        finally:
            for fd in (reader, null, log):
                os.close(fd)

    def _end(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
        if self.pid:
            # It reads the end of its pipe at once, so this does not wait for long.
            os.waitpid(self.pid, 0)
            self.pid = 0


def _write_whole(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
