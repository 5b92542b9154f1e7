"""Traces: one follows a job from HTTP submit to release; spans leave the process in the background or not at all."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

HEADER = "traceparent"
QUEUE_MAX = 2048
"""Spans waiting to be sent; more are dropped."""
EXPORT_S_MAX = 2
CLOSE_S_MAX = 1.0
"""How long the exit waits for the last spans."""

_propagator = TraceContextTextMapPropagator()


class Tracing:
    """The process's tracer. Without an endpoint it passes trace context on and records nothing."""

    def __init__(self, service: str, endpoint: str = "", instance: str = "") -> None:
        """`endpoint` is the base URL of an OTLP/HTTP collector."""
        self._provider: TracerProvider | None = None
        if endpoint:
            resource = Resource.create(
                {
                    "service.name": f"gangline-{service}",
                    "service.namespace": "gangline",
                    "service.instance.id": instance,
                }
            )
            exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=EXPORT_S_MAX)
            # The library would join its thread at exit for as long as the collector keeps us waiting.
            self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
            self._provider.add_span_processor(
                BatchSpanProcessor(exporter, max_queue_size=QUEUE_MAX, export_timeout_millis=EXPORT_S_MAX * 1000)
            )
            self._tracer = self._provider.get_tracer("gangline")
        else:
            self._tracer = trace.NoOpTracer()

    @property
    def is_on(self) -> bool:
        """True when spans are recorded."""
        return self._provider is not None

    @contextmanager
    def span(self, name: str, parent: str = "", **attributes: str | int) -> Iterator[str]:
        """A span around a piece of work; gives the traceparent to pass on ("" when there is none)."""
        if self._provider is None:
            yield parent
            return
        context = _propagator.extract({HEADER: parent}) if parent else None
        with self._tracer.start_as_current_span(
            name, context=context, kind=SpanKind.INTERNAL, attributes=dict(attributes)
        ) as span:
            yield traceparent(span)

    def close(self) -> None:
        """Send what is left, for a moment only; a dead collector cannot hold the exit up. Call it off the loop."""
        if self._provider is None:
            return
        closing = threading.Thread(target=self._provider.shutdown, name="trace shutdown", daemon=True)
        closing.start()
        closing.join(CLOSE_S_MAX)


def traceparent(span: Span) -> str:
    """The W3C text of a span's context, or ""."""
    context: SpanContext = span.get_span_context()
    if not context.is_valid:
        return ""
    flags = TraceFlags(context.trace_flags)
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{flags:02x}"


def is_traceparent(text: str) -> bool:
    """Whether a client's header may be passed on: version 00, well formed, not all zero."""
    parts = text.split("-")
    if [len(part) for part in parts] != [2, 32, 16, 2] or parts[0] != "00":
        return False
    hexadecimal = all(character in "0123456789abcdef" for part in parts for character in part)
    return hexadecimal and set(parts[1]) != {"0"} and set(parts[2]) != {"0"}
