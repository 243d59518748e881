"""OpenTelemetry traces, where a setting says where to send them."""

from __future__ import annotations

from collections.abc import Callable

from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from service.problems import ProblemError, problem
from service.version import VERSION


def send_to(url: str) -> Callable[[], None]:
    """Send this process's spans to an OTLP/HTTP endpoint, in batches.

    Returns what sends the spans that still wait, and ends sending; a process that ends by itself
    does so anyway, one that a signal ends must do it before.

    Raises:
        ProblemError: The packages that can are not installed.
    """
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise ProblemError(
            problem(
                503,
                "no-tracing",
                "Traces cannot be sent",
                "STAGECUT_TRACES_URL is set, and the packages that send traces are not installed.",
                hint="Install stagecut[traces].",
            )
        ) from None
    resource = Resource.create({"service.name": "stagecut", "service.version": VERSION})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=url)))
    trace.set_tracer_provider(provider)
    return provider.shutdown


def current() -> str | None:
    """The span that this work is part of, as W3C Trace Context writes it; None without one."""
    carried: dict[str, str] = {}
    _PROPAGATOR.inject(carried)
    return carried.get("traceparent")


def context(trace_parent: str | None) -> Context | None:
    """The context in which that span is the parent; None, which is the current one, without it."""
    return _PROPAGATOR.extract({"traceparent": trace_parent}) if trace_parent else None


_PROPAGATOR = TraceContextTextMapPropagator()
