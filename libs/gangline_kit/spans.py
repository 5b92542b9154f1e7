"""Recording spans and moving them to an OTLP/HTTP collector; loaded only when there is one."""

import logging
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import Span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

log = logging.getLogger(__name__)

QUEUE_MAX = 4096
"""Spans waiting to be sent; the oldest are dropped for newer ones."""
BATCH_MAX = 512
SEND_EVERY_S = 1.0
EXPORT_S_MAX = 2.0
CLOSE_S_MAX = 1.0
"""How long the exit waits for the last spans."""
NANOS_PER_MS = 1_000_000
COMPLAIN_EVERY = 60
"""Failed exports per line of the log."""


class Recorder:
    """A tracer whose spans go to a collector in the background."""

    def __init__(self, service: str, endpoint: str, instance: str) -> None:
        """`endpoint` is the collector's base URL."""
        attributes = {
            "service.name": f"gangline-{service}",
            "service.namespace": "gangline",
            "service.instance.id": instance,
        }
        # The exporter complains at each batch it cannot deliver; SpanPump says it once in a while.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self.pump = SpanPump(OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=EXPORT_S_MAX))
        provider = TracerProvider(resource=Resource.create(attributes), shutdown_on_exit=False)
        provider.add_span_processor(self.pump)
        self._tracer = provider.get_tracer("gangline")
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def span(self, name: str, parent: str, attributes: dict[str, str | int]) -> Iterator[str]:
        """See Tracing.span."""
        context = self._propagator.extract({"traceparent": parent}) if parent else None
        with self._tracer.start_as_current_span(name, context=context, attributes=attributes) as span:
            yield traceparent(span)

    def phase(self, name: str, parent: str, *, start_ms: int, end_ms: int, attributes: dict[str, str | int]) -> None:
        """See Tracing.phase."""
        context = self._propagator.extract({"traceparent": parent})
        span = self._tracer.start_span(name, context, attributes=attributes, start_time=start_ms * NANOS_PER_MS)
        span.end(max(start_ms, end_ms) * NANOS_PER_MS)


class SpanPump(SpanProcessor):
    """Moves ended spans to the collector from a thread of its own.

    The library's own batch processor waits for its thread without limit at exit and does not count what it drops.
    Ending a span here never waits: a full queue loses its oldest span, and that is counted.
    """

    def __init__(self, exporter: SpanExporter) -> None:
        """Begin to pump."""
        self.dropped = 0
        """Spans thrown away since the start."""
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
