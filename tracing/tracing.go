// Package tracing records the life of tasks as spans of OpenTelemetry, so that a request, the tasks that it
// adds, their attempts, and the tasks that these add in turn are one trace.
//
// A task carries its trace context in its headers "traceparent" and "tracestate", as the W3C recommendation
// "Trace Context" defines them. A [Tracer] has two functions for an engine:
//
//	tracer := tracing.New(provider)
//	engine.Open(ctx, engine.Config{Wrap: tracer.Wrap, Decorate: tracer.Decorate, ...})
package tracing

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/taskengine/taskengine/task"
)

// Attributes of spans. Attributes of messaging have the names of the semantic conventions of
// OpenTelemetry.
const (
	attrSystem    = attribute.Key("messaging.system") // always "taskengine"
	attrOperation = attribute.Key("messaging.operation.type")
	attrType      = attribute.Key("messaging.destination.name") // the type of the task
	attrID        = attribute.Key("messaging.message.id")
	attrErrorType = attribute.Key("error.type") // the class of an error, or "_OTHER"
	attrAttempt   = attribute.Key("taskengine.attempt")
	attrOutcome   = attribute.Key("taskengine.outcome")
	attrWaited    = attribute.Key("taskengine.waited") // seconds from being ready to the first start
)

// Tracer makes the spans of an engine. It is safe for concurrent use.
type Tracer struct {
	tracer  trace.Tracer
	context propagation.TraceContext
}

// New returns a Tracer that makes its spans with p.
func New(p trace.TracerProvider) *Tracer {
	return &Tracer{tracer: p.Tracer("github.com/taskengine/taskengine/tracing")}
}

// Decorate gives a request without a trace context one: that of a span for the submit, which is a child of the span in
// ctx, or the first of a new trace. A request that has a trace context keeps it. It is for Decorate of engine.Config.
func (t *Tracer) Decorate(ctx context.Context, r *task.Request) error {
	if t.of(r.Headers).IsValid() {
		return nil
	}
	attributes := about("send", r.Type)
	if !r.ID.IsZero() {
		attributes = append(attributes, attrID.String(r.ID.String()))
	}
	ctx, span := t.tracer.Start(ctx, "submit "+r.Type, trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(attributes...))
	t.set(ctx, r.Headers)
	span.End()
	return nil
}

// Wrap returns a handler that makes a span of each attempt, which is a child of the trace context of the task. The
// context and the headers of next's task have that of the span, and so have the tasks that next adds with the end of
// its attempt and that have none. It is for Wrap of engine.Config.
func (t *Tracer) Wrap(typ string, next task.Handler) task.Handler {
	return task.HandlerFunc(func(ctx context.Context, job *task.Task) ([]byte, error) {
		ctx, span := t.begin(ctx, job)
		defer span.End() // after a panic, too
		own := *job
		own.Headers = t.with(ctx, job.Headers)
		result, err := next.Handle(ctx, &own)
		v := task.VerdictOf(result, err)
		note(span, v)
		if v.Outcome == task.Completed && v.Rerun != nil && len(v.Rerun.Tasks) > 0 {
			err = t.following(ctx, v)
		}
		return result, err
	})
}

// FromRequest returns a context with the trace context of a request to a server, if it has one, so that Decorate gives
// it to the tasks that the request adds. header returns the value of a header of the request by its name in lower case,
// "" if it has none.
func (t *Tracer) FromRequest(ctx context.Context, header func(name string) string) context.Context {
	return t.context.Extract(ctx, headers(header))
}

// headers are the headers of a request, as a carrier that is read only.
type headers func(name string) string

// Get implements [propagation.TextMapCarrier].
func (h headers) Get(name string) string { return h(name) }

// Set implements [propagation.TextMapCarrier].
func (h headers) Set(string, string) {}

// Keys implements [propagation.TextMapCarrier].
func (h headers) Keys() []string { return nil }

// begin begins the span of an attempt.
func (t *Tracer) begin(ctx context.Context, job *task.Task) (context.Context, trace.Span) {
	attributes := append(about("process", job.Type), attrID.String(job.ID.String()), attrAttempt.Int64(int64(job.Attempt)))
	if job.Attempt == 1 {
		attributes = append(attributes, attrWaited.Float64(max(0, job.StartedAt.Sub(job.ReadyAt).Seconds())))
	}
	if parent := t.of(job.Headers); parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	}
	return t.tracer.Start(ctx, "process "+job.Type, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(attributes...))
}

// note says in the span of an attempt how it has ended. An attempt that was handed back or interrupted has not failed.
func note(span trace.Span, v task.Verdict) {
	if v.Ended {
		span.SetAttributes(attrOutcome.String("ended"))
		return
	}
	span.SetAttributes(attrOutcome.String(v.Outcome.String()))
	switch v.Outcome {
	case task.Errored:
		span.SetAttributes(attrErrorType.String(cmp.Or(v.Class, "_OTHER")))
		span.SetStatus(codes.Error, v.Error)
	case task.Crashed:
		span.SetAttributes(attrErrorType.String(v.Outcome.String()))
		span.SetStatus(codes.Error, v.Error)
	}
}

// following returns the error of a handler that adds tasks, which have the trace context of ctx.
func (t *Tracer) following(ctx context.Context, v task.Verdict) error {
	r := *v.Rerun // the handler may return its error again
	r.Tasks, r.Children = t.inTrace(ctx, r.Tasks), slices.Clone(r.Children)
	for i := range r.Children {
		r.Children[i].Requests = t.inTrace(ctx, r.Children[i].Requests)
	}
	return task.AgainAs(v, r.Options()...)
}

// inTrace returns requests that have the trace context of ctx, unless they have another.
func (t *Tracer) inTrace(ctx context.Context, reqs []task.Request) []task.Request {
	reqs = slices.Clone(reqs)
	for i := range reqs {
		if !t.of(reqs[i].Headers).IsValid() {
			reqs[i].Headers = t.with(ctx, reqs[i].Headers)
		}
	}
	return reqs
}

// of returns the trace context of headers, which is not valid if they have none.
func (t *Tracer) of(headers map[string]string) trace.SpanContext {
	found := make(propagation.MapCarrier, 2)
	for name, value := range headers {
		if isContext(name) {
			found[strings.ToLower(name)] = value
		}
	}
	if len(found) == 0 {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(t.context.Extract(context.Background(), found))
}

// with returns headers with the trace context of ctx instead of their own.
func (t *Tracer) with(ctx context.Context, headers map[string]string) map[string]string {
	own := make(map[string]string, len(headers)+2)
	maps.Copy(own, headers)
	t.set(ctx, own)
	return own
}

// set replaces the trace context of headers by that of ctx.
func (t *Tracer) set(ctx context.Context, headers map[string]string) {
	maps.DeleteFunc(headers, func(name, _ string) bool { return isContext(name) })
	t.context.Inject(ctx, propagation.MapCarrier(headers))
}

// isContext reports whether a header is a part of a trace context. Names may be in any case.
func isContext(name string) bool {
	return strings.EqualFold(name, "traceparent") || strings.EqualFold(name, "tracestate")
}

// about returns the attributes of an operation on a task of a type.
func about(operation, typ string) []attribute.KeyValue {
	return append(make([]attribute.KeyValue, 0, 6), attrSystem.String("taskengine"), attrOperation.String(operation), attrType.String(typ))
}
