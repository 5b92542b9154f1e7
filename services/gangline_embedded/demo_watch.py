"""Showing how the demo goes: a bar that is redrawn on a terminal, a line every few seconds elsewhere."""

from typing import TextIO

from gangline_client.client import Client
from gangline_client.errors import ClientError
from gangline_core.job import ENDS
from gangline_core.spec import GPU_MILLI
from gangline_embedded.demo_submit import Answers
from gangline_kit.clock import Clock
from gangline_lab.progress import filled
from gangline_wire.views import ClusterView

LOOK_S = 1.0
LINE_S = 5.0
"""Time between lines where there is no terminal."""
BAR_WIDTH = 26


class Watch:
    """Looks at the platform as a user would, through the HTTP API, until all that was submitted has ended."""

    def __init__(self, client: Client, answers: Answers, stream: TextIO, clock: Clock) -> None:
        """Shows on the stream."""
        self._client = client
        self._answers = answers
        self._stream = stream
        self._clock = clock
        self._began_s = clock.monotonic_s()
        self._shown_s = -LINE_S
        self._is_terminal = stream.isatty()
        self._drawn = False

    async def until_all_ended(self, *, seconds_max: float) -> bool:
        """True when all jobs came to an end in time."""
        while True:
            try:
                view = await self._client.cluster()
            except ClientError:
                view = None  # a gateway that was killed is back soon; the next look finds it
            now_s = self._clock.monotonic_s() - self._began_s
            if view is not None:
                ended = ended_jobs(view)
                self._show(view, ended, now_s)
                if self._answers.all_in and ended >= len(self._answers.accepted):
                    self._finish_line()
                    return True
            if now_s > seconds_max:
                self._finish_line()
                return False
            await self._clock.sleep(LOOK_S)

    def say(self, text: str) -> None:
        """A line of its own beside the bar."""
        if self._drawn:
            self._stream.write("\r\x1b[K")
        self._stream.write(f"{text}\n")
        self._stream.flush()
        self._drawn = False

    def _show(self, view: ClusterView, ended: int, now_s: float) -> None:
        if not self._is_terminal and now_s - self._shown_s < LINE_S:
            return
        self._shown_s = now_s
        text = status_line(view, ended=ended, expected=self._answers.expected, seconds=now_s)
        self._stream.write(f"\r{text}\x1b[K" if self._is_terminal else f"{text}\n")
        self._stream.flush()
        self._drawn = self._is_terminal

    def _finish_line(self) -> None:
        if self._drawn:
            self._stream.write("\n")
            self._stream.flush()
        self._drawn = False


def ended_jobs(view: ClusterView) -> int:
    """Jobs that came to an end."""
    return sum(count for state, count in view.jobs.items() if state in ENDS)


def status_line(view: ClusterView, *, ended: int, expected: int, seconds: float) -> str:
    """How it stands now, in one line."""
    bar = filled(ended / expected if expected else 1.0, BAR_WIDTH)
    used, total = round(view.gpus_used_milli / GPU_MILLI), view.gpus_total
    share = used / total if total else 0.0
    return (
        f"[{bar}] {ended}/{expected} done  running {view.running:>3}  waiting {view.waiting:>3}  "
        f"GPUs {used}/{total} ({share:.0%})  {seconds:3.0f} s"
    )
