"""Processes of the platform's services: started, watched, started again when they die, and ended in order."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from gangline_kit.clock import Clock
from gangline_kit.tasks import Tasks

log = logging.getLogger(__name__)

RESTART_S = 0.2
RESTART_S_MAX = 5.0
STEADY_S = 10.0
"""A process that lived this long is restarted without extra delay."""
STOP_S_MAX = 10.0


class Child:
    """One service process that is kept alive until `stop`."""

    def __init__(self, name: str, *, module: str, environ: Mapping[str, str], log_file: Path, clock: Clock) -> None:
        """Nothing is started before `start`."""
        self.name = name
        self.module = module
        self.environ = dict(environ)
        self.log_file = log_file
        self.clock = clock
        self.pid = 0
        self.starts = 0
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = False
        self._tasks = Tasks()

    async def start(self) -> None:
        """Start the process and keep it alive from now on."""
        await self._spawn()
        self._tasks.spawn(self._keep_alive(), name=f"keep {self.name}")

    async def stop(self) -> None:
        """End the process: ask, then make."""
        self._stopping = True
        process = self._process
        if process is not None and process.returncode is None:
            process.terminate()
            try:
                async with asyncio.timeout(STOP_S_MAX):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        await self._tasks.close()

    def kill(self) -> int:
        """End the process as a crash would; gives the process id that died. It is started again."""
        pid = self.pid
        os.kill(pid, signal.SIGKILL)
        return pid

    async def _spawn(self) -> None:
        log = os.open(self.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                self.module,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environ},
                # Its own session: Ctrl-C reaches only us, and we end the services in order.
                start_new_session=True,
            )
        finally:
            os.close(log)
        self.pid = self._process.pid
        self.starts += 1

    async def _keep_alive(self) -> None:
        wait_s = RESTART_S
        while True:
            assert self._process is not None, "kept alive after its start"
            began_s = self.clock.monotonic_s()
            code = await self._process.wait()
            if self._stopping:
                return
            log.warning("%s ended with code %d; it is started again, and its log is %s", self.name, code, self.log_file)
            wait_s = RESTART_S if self.clock.monotonic_s() - began_s > STEADY_S else min(wait_s * 2, RESTART_S_MAX)
            await self.clock.sleep(wait_s)
            await self._spawn()
