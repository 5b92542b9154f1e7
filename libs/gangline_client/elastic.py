"""The job's side of the contract in docs/elastic.md: know the size, leave in peace, confirm, report progress.

    from gangline_client.elastic import Contract

    job = Contract()
    for step in range(first_step, steps):
        if job.changed() and job.size().leaves:
            save(step); job.safe(); break
        job.report(step=step, percent=100 * step / steps)

Only files and the standard library: it starts fast, and outside of Gangline it does nothing at all.
"""

import http.client
import logging
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from gangline_client.unreadable import UNREADABLE
from gangline_wire.contract import Confirmed, Report, Sizing, out_of_bounds

log = logging.getLogger(__name__)

ANSWER_S_MAX = 5.0
"""An agent that does not answer within this time is not waited for: training is more important than telling."""
WHOLE = frozenset({"step", "samples", "batch", "gathered", "checkpoint_step"})
"""Fields of a report that are whole numbers."""
SAID_BYTES_MAX = 1_000


class Contract:
    """What a task of this process may ask and say; every call returns at once or within ANSWER_S_MAX.

    Nothing here raises into the training. What could not be told is a warning of this module's logger, once per cause.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        """Read the task's variables; without them nothing is asked or said."""
        self._url = environment.get("GANGLINE_TASK_URL", "")
        self._token = environment.get("GANGLINE_TASK_TOKEN", "")
        size, beat = environment.get("GANGLINE_TASK_SIZE_FILE"), environment.get("GANGLINE_TASK_HEARTBEAT_FILE")
        self._size = Path(size) if size else None
        self._heartbeat = Path(beat) if beat else None
        # The desk is on this machine: no proxy knows the way, and none should see the token.
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
        self._warned: set[str] = set()
        self._seen = ""
        self._told: Sizing | None = None
        """What `size` or `wait` returned last: what the program acts on."""
        self._stamp: tuple[int, int] | None = None

    @property
    def is_there(self) -> bool:
        """True inside of a task that can be resized or can report."""
        return self._size is not None

    def size(self) -> Sizing:
        """How big the job is now, and whether this member leaves; size 1 outside of Gangline."""
        found = self._read()
        self._seen, self._told = found.version, found
        return found

    def _read(self) -> Sizing:
        alone = Sizing(job=0, attempt=0, task="", rank=0, role="", size=1)
        try:
            return alone if self._size is None else msgspec.json.decode(self._size.read_bytes(), type=Sizing)
        except (OSError, *UNREADABLE):
            return alone

    def changed(self) -> bool:
        """True when there is news since `size` was last read; looks at the file's time only, so ask at every step."""
        if self._size is None:
            return False
        try:
            stat = self._size.stat()
        except OSError:
            return False
        stamp = (stat.st_mtime_ns, stat.st_ino)
        if stamp == self._stamp:
            return False
        before, told, self._stamp = self._seen, self._told, stamp
        self.size()
        # The program has not read it yet: what it met at is what it was told before.
        self._told = told
        return self._seen != before

    def wait(self, seconds: float = 30.0) -> Sizing | None:
        """Wait for news at the agent's desk; None when there was none in time."""
        body = self._ask("GET", f"/notice?after={self._seen}&wait_s={seconds}", wait_s=seconds + ANSWER_S_MAX)
        if not body:
            return None
        try:
            found = msgspec.json.decode(body, type=Sizing)
        except UNREADABLE as error:
            self._warn(f"the agent's answer cannot be read: {error}")
            return None
        self._seen, self._told = found.version, found
        return found

    def safe(self) -> bool:
        """This member leaves and has saved what it must; True when the agent heard it."""
        return self._ask("POST", "/safe", b"") is not None

    def confirm(self, sizing: Sizing | None = None) -> bool:
        """The gang met and works at its new size; any one member may say so, as often as it likes.

        Without an argument it is the size that `size` or `wait` told last: later news are neither met at nor read yet.
        """
        sizing = sizing or self._told or self._read()
        return self._ask("POST", "/confirm", msgspec.json.encode(Confirmed(sizing.resize, sizing.size))) is not None

    def report(
        self,
        *,
        step: int | None = None,
        percent: float | None = None,
        remaining_s: float | None = None,
        step_s: float | None = None,
        samples: int | None = None,
        batch: int | None = None,
        gathered: int = 0,
        grad_sqr: float | None = None,
        grad_var: float | None = None,
        checkpoint_step: int | None = None,
    ) -> bool:
        """How far the job is and how fast; everything may be left out. Any member may report, rank 0 usually does.

        Numbers may be those of numpy or torch. What is no number, or makes no sense, is left out with a warning.
        """
        self.beat()
        said = self._sensible(
            step=step,
            percent=percent,
            remaining_s=remaining_s,
            step_s=step_s,
            samples=samples,
            batch=batch,
            gathered=gathered,
            grad_sqr=grad_sqr,
            grad_var=grad_var,
            checkpoint_step=checkpoint_step,
        )
        return self._ask("POST", "/progress", msgspec.json.encode(said)) is not None

    def beat(self) -> None:
        """Show that this member makes progress, without saying how much."""
        if self._heartbeat is None:
            return
        try:
            self._heartbeat.touch()
        except OSError as error:
            self._warn(f"the heartbeat file cannot be touched: {error}")

    def _sensible(self, **values: Any) -> Report:
        """The report without what is no number or out of bounds."""
        found: dict[str, Any] = {}
        for name, value in values.items():
            if value is not None:
                try:
                    found[name] = int(value) if name in WHOLE else float(value)
                except (TypeError, ValueError, ArithmeticError, RuntimeError) as error:
                    self._warn(f"`{name}` is no number and was not reported: {error}")
        said = Report(**found)
        unsaid = asdict(Report())
        for name, why in out_of_bounds(said).items():
            self._warn(f"{why}; it was not reported", about=name)
            said = replace(said, **{name: unsaid[name]})
        return said

    def _warn(self, said: str, *, about: str = "") -> None:
        """Once per cause, not once per step."""
        cause = about or said
        if cause not in self._warned:
            self._warned.add(cause)
            log.warning("gangline: %s", said)

    def _ask(self, method: str, path: str, body: bytes | None = None, wait_s: float = ANSWER_S_MAX) -> bytes | None:
        """The answer's body; None when the agent did not hear, which is no reason to stop training."""
        if not self._url:
            return None
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self._url + path, data=body, headers=headers, method=method)
        try:
            with self._open(request, timeout=wait_s) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as refused:
            with refused, suppress(OSError, http.client.HTTPException):
                said = refused.read(SAID_BYTES_MAX).decode(errors="replace").strip()
                self._warn(f"the agent refused {path.partition('?')[0]}: {said}")
            return None
        except (http.client.HTTPException, OSError, ValueError):
            return None
