"""Trace context, and spans that never wait."""

import threading
import time
from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from tests.patience import LONG_S

from gangline_kit import spans
from gangline_kit.spans import SpanPump
from gangline_kit.tracing import Tracing, is_traceparent

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Collector(SpanExporter):
    """Takes spans, or does not."""

    def __init__(self, *, answers: bool = True) -> None:
        self.names: list[str] = []
        self.may_answer = threading.Event()
        if answers:
            self.may_answer.set()

    def export(self, batch: Sequence[ReadableSpan]) -> SpanExportResult:
        self.may_answer.wait(10 * LONG_S)
        self.names.extend(span.name for span in batch)
        return SpanExportResult.SUCCESS


def make_spans(pump: SpanPump, count: int) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(pump)
    tracer = provider.get_tracer("test")
    for number in range(count):
        tracer.start_span(f"span {number}").end()


def test_without_a_collector_the_context_passes_through_unchanged() -> None:
    tracing = Tracing("test")
    with tracing.span("submit", PARENT) as context:
        assert context == PARENT
    assert not tracing.is_on
    assert tracing.dropped == 0


def test_with_a_collector_a_span_continues_its_parents_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    collector = Collector()
    monkeypatch.setattr(spans, "CLOSE_S_MAX", LONG_S)
    monkeypatch.setattr(spans, "OTLPSpanExporter", lambda **settings: collector)
    tracing = Tracing("test", "http://127.0.0.1:1")
    with tracing.span("outer", PARENT, job=42) as outer, tracing.span("inner") as inner:
        assert is_traceparent(outer)
        assert outer.split("-")[1] == inner.split("-")[1] == PARENT.split("-")[1]
        assert len({PARENT.split("-")[2], outer.split("-")[2], inner.split("-")[2]}) == 3
    tracing.close()
    assert collector.names == ["inner", "outer"]


def test_a_dead_collector_costs_the_oldest_spans_and_they_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Field case O10."""
    monkeypatch.setattr(spans, "CLOSE_S_MAX", 0.05)
    collector = Collector(answers=False)
    pump = SpanPump(collector)
    began = time.perf_counter()
    make_spans(pump, spans.QUEUE_MAX + 2000)
    assert time.perf_counter() - began < LONG_S, "ending a span never waits for the collector"
    assert pump.dropped >= 2000 - 2 * spans.BATCH_MAX
    began = time.perf_counter()
    pump.shutdown()
    assert time.perf_counter() - began < LONG_S, "the exit does not wait for the collector"
    collector.may_answer.set()


def test_an_exporter_that_raises_does_not_end_the_pump(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "CLOSE_S_MAX", LONG_S)
    collector = Collector()
    pump = SpanPump(collector)
    failing = True
    export = collector.export

    def sometimes(batch: Sequence[ReadableSpan]) -> SpanExportResult:
        if failing:
            raise ConnectionError("no route")
        return export(batch)

    collector.export = sometimes  # type: ignore[method-assign]  # this collector is ours
    make_spans(pump, spans.BATCH_MAX)
    deadline = time.perf_counter() + LONG_S
    while pump.dropped == 0 and time.perf_counter() < deadline:
        time.sleep(0.01)
    failing = False
    make_spans(pump, 1)
    pump.shutdown()
    assert collector.names == ["span 0"]
    assert pump.dropped == spans.BATCH_MAX


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (PARENT, True),
        ("", False),
        ("hello", False),
        (PARENT.replace("00-", "ff-", 1), False),
        (PARENT.upper(), False),
        ("00-" + "0" * 32 + "-b7ad6b7169203331-01", False),
        ("00-0af7651916cd43dd8448eb211c80319c-" + "0" * 16 + "-01", False),
        (PARENT + "\r\nEvil: 1", False),
    ],
)
def test_only_a_well_formed_traceparent_is_passed_on(text: str, is_one: bool) -> None:
    assert is_traceparent(text) == is_one
