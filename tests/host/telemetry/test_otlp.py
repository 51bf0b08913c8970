"""OpenTelemetry's own definitions read our handwritten encoding."""

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bollard.host.telemetry.otlp_export import SpanEncoder
from bollard.host.telemetry.tracer import Span, TraceContext

KINDS = {"internal": 1, "server": 2, "client": 3}
STATUS_ERROR = 2

words = st.text(max_size=300)
values = st.one_of(
    words, st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False)
)
ids = st.integers(1, 2**64 - 1).map(lambda number: f"{number:016x}")
spans = st.builds(
    Span,
    name=words,
    kind=st.sampled_from(sorted(KINDS)),
    context=st.builds(
        TraceContext, trace_id=st.integers(1, 2**128 - 1).map(lambda number: f"{number:032x}"), span_id=ids, sampled=...
    ),
    parent_id=st.none() | ids,
    start_ns=st.integers(0, 2**64 - 1),
    end_ns=st.integers(0, 2**64 - 1),
    attributes=st.dictionaries(words.filter(lambda key: key != "error.type"), values, max_size=12),
    error=st.none() | words,
)


def _value(found) -> object:
    return getattr(found, found.WhichOneof("value"))


@given(st.lists(spans, max_size=5))
def test_every_span_is_encoded_completely(made: list[Span]) -> None:
    encode = SpanEncoder({"service.name": "bollard", "n": 300}, scope="bollard.host", version="1.2")
    (of_resource,) = ExportTraceServiceRequest.FromString(encode(made)).resource_spans
    named = {each.key: _value(each.value) for each in of_resource.resource.attributes}
    assert named == {"service.name": "bollard", "n": 300}
    (of_scope,) = of_resource.scope_spans
    assert (of_scope.scope.name, of_scope.scope.version) == ("bollard.host", "1.2")
    assert len(of_scope.spans) == len(made)
    for read, span in zip(of_scope.spans, made, strict=True):
        assert read.trace_id.hex() == span.context.trace_id
        assert read.span_id.hex() == span.context.span_id
        assert read.parent_span_id.hex() == (span.parent_id or "")
        assert (read.name, read.kind) == (span.name, KINDS[span.kind])
        assert (read.start_time_unix_nano, read.end_time_unix_nano) == (span.start_ns, span.end_ns)
        told = {each.key: _value(each.value) for each in read.attributes}
        wanted = span.attributes if span.error is None else {**span.attributes, "error.type": span.error}
        assert told == wanted
        assert {key: type(value) for key, value in told.items()} == {k: type(v) for k, v in wanted.items()}
        assert read.status.code == (0 if span.error is None else STATUS_ERROR)
        assert read.status.message == (span.error or "")


def test_an_invalid_character_does_not_cost_the_batch() -> None:
    context = TraceContext("1" * 32, "2" * 16, True)
    broken = Span(
        name="a\ud800b",
        kind="client",
        context=context,
        parent_id=None,
        start_ns=0,
        end_ns=1,
        attributes={"k": "\udfff"},
    )
    read = ExportTraceServiceRequest.FromString(SpanEncoder({}, scope="s", version="1")([broken]))
    (span,) = read.resource_spans[0].scope_spans[0].spans
    assert (span.name, span.attributes[0].value.string_value) == ("a?b", "?")
