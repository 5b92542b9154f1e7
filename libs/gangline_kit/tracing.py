"""Traces: one follows a job from HTTP submit to release; spans leave the process in the background or not at all."""

import logging
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import Span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

log = logging.getLogger(__name__)

HEADER = "traceparent"
QUEUE_MAX = 4096
"""Spans waiting to be sent; the oldest are dropped for newer ones."""
BATCH_MAX = 512
SEND_EVERY_S = 1.0
EXPORT_S_MAX = 2.0
CLOSE_S_MAX = 1.0
"""How long the exit waits for the last spans."""
COMPLAIN_EVERY = 60
"""Failed exports per line of the log."""

_propagator = TraceContextTextMapPropagator()


class Tracing:
    """The process's tracer. Without an endpoint it passes trace context on and records nothing."""

    def __init__(self, service: str, endpoint: str = "", instance: str = "") -> None:
        """`endpoint` is the base URL of an OTLP/HTTP collector."""
        self._pump: SpanPump | None = None
        self._tracer: trace.Tracer = trace.NoOpTracer()
        if not endpoint:
            return
        attributes = {
            "service.name": f"gangline-{service}",
            "service.namespace": "gangline",
            "service.instance.id": instance,
        }
        # The exporter complains at each batch it cannot deliver; SpanPump says it once in a while.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=EXPORT_S_MAX)
        self._pump = SpanPump(exporter)
        provider = TracerProvider(resource=Resource.create(attributes), shutdown_on_exit=False)
        provider.add_span_processor(self._pump)
        self._tracer = provider.get_tracer("gangline")

    @property
    def is_on(self) -> bool:
        """True when spans are recorded."""
        return self._pump is not None

    @property
    def dropped(self) -> int:
        """Spans thrown away since the start."""
        return self._pump.dropped if self._pump is not None else 0

    @contextmanager
    def span(self, name: str, parent: str = "", **attributes: str | int) -> Iterator[str]:
        """A span around a piece of work; gives the traceparent to pass on ("" when there is none).

        Without `parent` it belongs to the span around it, if there is one.
        """
        if self._pump is None:
            yield parent
            return
        context = _propagator.extract({HEADER: parent}) if parent else None
        with self._tracer.start_as_current_span(name, context=context, attributes=dict(attributes)) as span:
            yield traceparent(span)

    def close(self) -> None:
        """Send what is left, for a moment only: a dead collector cannot hold the exit up. Call it off the loop."""
        if self._pump is not None:
            self._pump.shutdown()


class SpanPump(SpanProcessor):
    """Moves ended spans to the collector from a thread of its own.

    The library's own batch processor waits for its thread without limit at exit and does not count what it drops.
    Ending a span here never waits: a full queue loses its oldest span, and that is counted.
    """

    def __init__(self, exporter: SpanExporter) -> None:
        """Begin to pump."""
        self.dropped = 0
        self._exporter = exporter
        self._failures = 0
        self._queue: deque[ReadableSpan] = deque(maxlen=QUEUE_MAX)
        self._awake = threading.Event()
        self._is_closing = False
        self._thread = threading.Thread(target=self._pump, name="spans", daemon=True)
        self._thread.start()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Nothing happens before a span ends."""

    def on_end(self, span: ReadableSpan) -> None:
        """Take a span along."""
        if len(self._queue) == QUEUE_MAX:
            self.dropped += 1
        self._queue.append(span)
        if len(self._queue) >= BATCH_MAX:
            self._awake.set()

    def shutdown(self) -> None:
        """Send what is left for a moment; the thread is a daemon and may be left behind."""
        self._is_closing = True
        self._awake.set()
        self._thread.join(CLOSE_S_MAX)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Never waits."""
        self._awake.set()
        return True

    def _pump(self) -> None:
        while not self._is_closing:
            self._awake.wait(SEND_EVERY_S)
            self._awake.clear()
            self._send_all()

    def _send_all(self) -> None:
        while self._queue:
            batch = [self._queue.popleft() for _ in range(min(BATCH_MAX, len(self._queue)))]
            if not self._send(batch):
                self.dropped += len(batch)
                if self._failures % COMPLAIN_EVERY == 0:
                    log.warning("the trace collector does not answer; %d spans dropped so far", self.dropped)
                self._failures += 1

    def _send(self, batch: list[ReadableSpan]) -> bool:
        try:
            return self._exporter.export(batch) is SpanExportResult.SUCCESS
        except Exception as error:  # noqa: BLE001 - whatever the exporter does, tracing must not disturb the service
            log.debug("export failed: %r", error)
            return False


def traceparent(span: Span) -> str:
    """The W3C text of a span's context, or ""."""
    context = span.get_span_context()
    if not context.is_valid:
        return ""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def is_traceparent(text: str) -> bool:
    """Whether a client's header may be passed on: version 00, well formed, not all zero."""
    parts = text.split("-")
    if [len(part) for part in parts] != [2, 32, 16, 2] or parts[0] != "00":
        return False
    hexadecimal = all(character in "0123456789abcdef" for part in parts for character in part)
    return hexadecimal and set(parts[1]) != {"0"} and set(parts[2]) != {"0"}
