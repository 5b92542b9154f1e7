"""Traces: one follows a job from HTTP submit to release. Without a collector the context is passed on, nothing more."""

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gangline_kit.spans import Recorder

HEADER = "traceparent"


class Tracing:
    """The process's tracer."""

    def __init__(self, service: str, endpoint: str = "", instance: str = "") -> None:
        """`endpoint` is the base URL of an OTLP/HTTP collector."""
        self._recorder: Recorder | None = None
        if endpoint:
            # The libraries take a third of a second to load, which a service without a collector need not pay.
            from gangline_kit import spans

            self._recorder = spans.Recorder(service, endpoint, instance)

    @property
    def is_on(self) -> bool:
        """True when spans are recorded."""
        return self._recorder is not None

    @property
    def dropped(self) -> int:
        """Spans thrown away since the start."""
        return self._recorder.pump.dropped if self._recorder is not None else 0

    def span(self, name: str, parent: str = "", **attributes: str | int) -> AbstractContextManager[str]:
        """A span around a piece of work; gives the traceparent to pass on ("" when there is none).

        Without `parent` it belongs to the span around it, if there is one.
        """
        if self._recorder is None:
            return nullcontext(parent)
        return self._recorder.span(name, parent, attributes)

    def phase(self, name: str, parent: str, *, start_ms: int, end_ms: int, **attributes: str | int) -> None:
        """A span of something that is already over, such as a wait, in a job's own trace; nothing without `parent`."""
        if self._recorder is not None and parent:
            self._recorder.phase(name, parent, start_ms=start_ms, end_ms=end_ms, attributes=attributes)

    def close(self) -> None:
        """Send what is left, for a moment only: a dead collector cannot hold the exit up. Call it off the loop."""
        if self._recorder is not None:
            self._recorder.pump.shutdown()


def is_traceparent(text: str) -> bool:
    """Whether a client's header may be passed on: version 00, well formed, not all zero."""
    parts = text.split("-")
    if [len(part) for part in parts] != [2, 32, 16, 2] or parts[0] != "00":
        return False
    hexadecimal = all(character in "0123456789abcdef" for part in parts for character in part)
    return hexadecimal and set(parts[1]) != {"0"} and set(parts[2]) != {"0"}
