package tracing_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/taskenginetest"
	"github.com/taskengine/taskengine/tracing"
)

// scene is an engine with tracing.
type scene struct {
	*taskenginetest.Engine
	spans    *tracetest.InMemoryExporter
	provider *sdktrace.TracerProvider
}

// play runs a test in made-up time with an engine that has these handlers. Attempts are made twice, one second apart.
func play(t *testing.T, sampler sdktrace.Sampler, handlers map[string]task.HandlerFunc, test func(t *testing.T, s *scene)) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans), sdktrace.WithSampler(sampler))
	tracer := tracing.New(provider)
	c := engine.Config{
		Wrap: tracer.Wrap, Decorate: tracer.Decorate, Handlers: make(map[string]task.Handler),
		Policies: policy.Set{Types: make(map[string]policy.Type)},
	}
	for typ, h := range handlers {
		p := policy.DefaultType()
		p.Retry.Max, p.Retry.Backoff = 2, policy.Backoff{Kind: policy.Fixed, Delays: []time.Duration{time.Second}}
		c.Handlers[typ], c.Policies.Types[typ] = h, p
	}
	taskenginetest.Run(t, c, func(t *testing.T, e *taskenginetest.Engine) { test(t, &scene{e, spans, provider}) })
}

// named returns the spans with a name, in the order in which they ended.
func (s *scene) named(name string) (found tracetest.SpanStubs) {
	for _, span := range s.spans.GetSpans() {
		if span.Name == name {
			found = append(found, span)
		}
	}
	return found
}

func (s *scene) only(t *testing.T, name string) tracetest.SpanStub {
	t.Helper()
	found := s.named(name)
	if len(found) != 1 {
		t.Fatalf("there are %d spans %q, of %v", len(found), name, s.spans.GetSpans())
	}
	return found[0]
}

// above returns the span that another is a child of, the zero value if it was not recorded.
func (s *scene) above(child tracetest.SpanStub) (parent tracetest.SpanStub) {
	for _, span := range s.spans.GetSpans() {
		if span.SpanContext.SpanID() == child.Parent.SpanID() {
			parent = span
		}
	}
	return parent
}

func value(span tracetest.SpanStub, key string) string {
	set := attribute.NewSet(span.Attributes...)
	v, _ := set.Value(attribute.Key(key))
	return v.String()
}

func done(context.Context, *task.Task) ([]byte, error) { return nil, nil }

func TestASubmitAndEachAttemptAreSpansOfOneTrace(t *testing.T) {
	play(t, sdktrace.AlwaysSample(), map[string]task.HandlerFunc{"mail": func(_ context.Context, job *task.Task) ([]byte, error) {
		if job.Attempt == 1 {
			return nil, task.WithClass("smtp", errors.New("no connection"))
		}
		return nil, nil
	}}, func(t *testing.T, s *scene) {
		receipts, err := s.Submit(t.Context(), engine.Request{Type: "mail"})
		if err != nil {
			t.Fatal(err)
		}
		s.Wait(receipts[0].ID)
		submit, attempts := s.only(t, "submit mail"), s.named("process mail")
		if len(attempts) != 2 {
			t.Fatalf("there are %d spans of attempts", len(attempts))
		}
		if submit.SpanKind != trace.SpanKindProducer || submit.Parent.IsValid() {
			t.Errorf("the submit is %v below %v", submit.SpanKind, submit.Parent)
		}
		for i, a := range attempts {
			if a.SpanContext.TraceID() != submit.SpanContext.TraceID() || a.Parent.SpanID() != submit.SpanContext.SpanID() {
				t.Errorf("attempt %d is not below the submit", i+1)
			}
			if a.SpanKind != trace.SpanKindConsumer || value(a, "messaging.message.id") != receipts[0].ID.String() || value(a, "messaging.destination.name") != "mail" {
				t.Errorf("attempt %d is %v of %v", i+1, a.SpanKind, a.Attributes)
			}
		}
		first, second := attempts[0], attempts[1]
		if first.Status.Code != codes.Error || first.Status.Description != "no connection" || value(first, "error.type") != "smtp" || value(first, "taskengine.attempt") != "1" {
			t.Errorf("the first attempt is %v %v", first.Status, first.Attributes)
		}
		if second.Status.Code != codes.Unset || value(second, "taskengine.outcome") != "completed" || value(second, "taskengine.attempt") != "2" {
			t.Errorf("the second attempt is %v %v", second.Status, second.Attributes)
		}
	})
}

func TestATaskBelongsToTheTraceOfItsSubmitter(t *testing.T) {
	const parent, state = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "vendor=1"
	for name, headers := range map[string]map[string]string{
		"by its headers":         {"traceparent": parent, "tracestate": state, "own": "x"},
		"by headers in any case": {"TraceParent": parent, "Tracestate": state, "own": "x"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, sdktrace.ParentBased(sdktrace.NeverSample()), map[string]task.HandlerFunc{"mail": done}, func(t *testing.T, s *scene) {
				receipts, err := s.Submit(t.Context(), engine.Request{Type: "mail", Headers: headers})
				if err != nil {
					t.Fatal(err)
				}
				if got := s.Wait(receipts[0].ID)[0]; !maps.Equal(got.Headers, headers) {
					t.Errorf("the headers that are stored are %v", got.Headers)
				}
				span := s.only(t, "process mail")
				if span.Parent.SpanID().String() != "00f067aa0ba902b7" || span.SpanContext.TraceID().String() != "4bf92f3577b34da6a3ce929d0e0e4736" || span.SpanContext.TraceState().String() != state {
					t.Errorf("the attempt is %v below %v", span.SpanContext, span.Parent)
				}
				if len(s.spans.GetSpans()) != 1 {
					t.Errorf("there are other spans: %v", s.spans.GetSpans())
				}
			})
		})
	}
}

func TestATaskBelongsToTheSpanOfTheContextThatAddsIt(t *testing.T) {
	play(t, sdktrace.AlwaysSample(), map[string]task.HandlerFunc{"mail": done}, func(t *testing.T, s *scene) {
		ctx, span := s.provider.Tracer("the program").Start(t.Context(), "checkout")
		receipts, err := s.Submit(ctx, engine.Request{Type: "mail"})
		span.End()
		if err != nil {
			t.Fatal(err)
		}
		s.Wait(receipts[0].ID)
		submit, attempt := s.only(t, "submit mail"), s.only(t, "process mail")
		if submit.Parent.SpanID() != span.SpanContext().SpanID() || attempt.Parent.SpanID() != submit.SpanContext.SpanID() {
			t.Errorf("the submit is below %v, the attempt below %v", submit.Parent, attempt.Parent)
		}
	})
}

func TestTasksThatATaskAddsAreInItsTrace(t *testing.T) {
	ends := map[string]task.HandlerFunc{
		"with its end": func(context.Context, *task.Task) ([]byte, error) {
			return []byte("kept"), task.Again(time.Time{}, task.WithTasks(task.Request{Type: "child", Headers: map[string]string{"own": "x"}}))
		},
		"when it runs again": func(ctx context.Context, job *task.Task) ([]byte, error) {
			if string(job.Checkpoint()) == "c" {
				return []byte("kept"), nil
			}
			return nil, task.Again(time.Now().Add(time.Minute), task.WithCheckpoint([]byte("c")), task.WithTasks(task.Request{Type: "child", Headers: map[string]string{"own": "x"}}))
		},
		"by a submit of its own": func(ctx context.Context, _ *task.Task) ([]byte, error) {
			e, _ := engine.FromContext(ctx)
			_, err := e.Submit(ctx, engine.Request{Type: "child", Headers: map[string]string{"own": "x"}})
			return []byte("kept"), err
		},
	}
	for name, h := range ends {
		t.Run(name, func(t *testing.T) {
			play(t, sdktrace.AlwaysSample(), map[string]task.HandlerFunc{"mail": h, "child": func(_ context.Context, job *task.Task) ([]byte, error) {
				if job.Headers["own"] != "x" {
					t.Errorf("the headers of the child are %v", job.Headers)
				}
				return nil, nil
			}}, func(t *testing.T, s *scene) {
				receipts, err := s.Submit(t.Context(), engine.Request{Type: "mail"})
				if err != nil {
					t.Fatal(err)
				}
				if got := s.Wait(receipts[0].ID)[0]; got.State != task.Done || string(got.Result) != "kept" {
					t.Errorf("the task is %v with %q: %s", got.State, got.Result, got.LastError)
				}
				s.Wait(s.Only("child").ID)
				child := s.only(t, "process child")
				above := s.above(child)
				if above.Name == "submit child" { // the task was added by a submit, which has a span
					above = s.above(above)
				}
				if above.Name != "process mail" {
					t.Errorf("the child is not below an attempt of its parent, but below %q", above.Name)
				}
			})
		})
	}
}

func TestAHandlerHasTheSpanOfItsAttempt(t *testing.T) {
	type seen struct {
		span    trace.SpanContext
		headers map[string]string
	}
	attempts := make(chan seen, 1)
	play(t, sdktrace.AlwaysSample(), map[string]task.HandlerFunc{"mail": func(ctx context.Context, job *task.Task) ([]byte, error) {
		attempts <- seen{trace.SpanContextFromContext(ctx), job.Headers}
		return nil, nil
	}}, func(t *testing.T, s *scene) {
		receipts, err := s.Submit(t.Context(), engine.Request{Type: "mail", Headers: map[string]string{"own": "x"}})
		if err != nil {
			t.Fatal(err)
		}
		stored := s.Wait(receipts[0].ID)
		got, span := <-attempts, s.only(t, "process mail").SpanContext
		if !got.span.Equal(span) {
			t.Errorf("the context of the handler has %v, not %v", got.span, span)
		}
		want := map[string]string{"own": "x", "traceparent": "00-" + span.TraceID().String() + "-" + span.SpanID().String() + "-01"}
		if !maps.Equal(got.headers, want) {
			t.Errorf("the headers of the handler's task are %v, not %v", got.headers, want)
		}
		if stored[0].Headers["traceparent"] == want["traceparent"] {
			t.Error("the headers of the stored task have changed")
		}
	})
}

func TestNoSpanIsRecordedOfATraceThatIsNotSampled(t *testing.T) {
	var child string
	play(t, sdktrace.NeverSample(), map[string]task.HandlerFunc{"mail": func(context.Context, *task.Task) ([]byte, error) {
		return nil, task.Again(time.Time{}, task.WithTasks(task.Request{Type: "child"}))
	}, "child": func(_ context.Context, job *task.Task) ([]byte, error) {
		child = job.Headers["traceparent"]
		return nil, nil
	}}, func(t *testing.T, s *scene) {
		receipts, err := s.Submit(t.Context(), engine.Request{Type: "mail"})
		if err != nil {
			t.Fatal(err)
		}
		parent := s.Wait(receipts[0].ID)[0].Headers["traceparent"]
		s.Wait(s.Only("child").ID)
		if len(s.spans.GetSpans()) > 0 {
			t.Errorf("recorded: %v", s.spans.GetSpans())
		}
		if len(parent) != len(child) || len(parent) != 55 || parent[:35] != child[:35] || parent[53:] != "00" || child[53:] != "00" {
			t.Errorf("the task has %q, and the task that it adds has %q", parent, child)
		}
	})
}

func TestATraceContextThatIsNoneIsReplaced(t *testing.T) {
	play(t, sdktrace.AlwaysSample(), map[string]task.HandlerFunc{"mail": done}, func(t *testing.T, s *scene) {
		receipts, err := s.Submit(t.Context(), engine.Request{Type: "mail", Headers: map[string]string{"Traceparent": "00-1", "tracestate": "a=b"}})
		if err != nil {
			t.Fatal(err)
		}
		got := s.Wait(receipts[0].ID)[0].Headers
		if len(got) != 1 || len(got["traceparent"]) != 55 {
			t.Errorf("the headers that are stored are %v", got)
		}
		if s.only(t, "process mail").Parent.SpanID() != s.only(t, "submit mail").SpanContext.SpanID() {
			t.Error("the attempt is not below the submit")
		}
	})
}

func TestTheSpanOfAnAttemptThatPanicsEnds(t *testing.T) {
	play(t, sdktrace.AlwaysSample(), map[string]task.HandlerFunc{"mail": func(context.Context, *task.Task) ([]byte, error) { panic("oh") }}, func(t *testing.T, s *scene) {
		receipts, err := s.Submit(t.Context(), engine.Request{Type: "mail"})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Wait(receipts[0].ID)[0]; got.State != task.Error {
			t.Errorf("the task is %v", got.State)
		}
		for _, span := range s.named("process mail") {
			if len(span.Events) != 1 || span.Events[0].Name != "exception" {
				t.Errorf("the span has the events %v", span.Events)
			}
		}
		if n := len(s.named("process mail")); n != 2 {
			t.Errorf("there are %d spans of attempts", n)
		}
	})
}

func TestTheTraceOfARequestToAServerIsThatOfItsTasks(t *testing.T) {
	tracer := tracing.New(sdktrace.NewTracerProvider())
	r := task.Request{Type: "mail", Headers: map[string]string{}}
	ctx := tracer.FromRequest(t.Context(), func(name string) string {
		return map[string]string{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}[name]
	})
	if err := tracer.Decorate(ctx, &r); err != nil {
		t.Fatal(err)
	}
	if got := r.Headers["traceparent"]; len(got) != 55 || got[3:35] != "4bf92f3577b34da6a3ce929d0e0e4736" {
		t.Errorf("the task has %q", got)
	}
}

func TestAnAttemptInATraceSendsItsSignalsAndAddsItsChildren(t *testing.T) {
	tracer := tracing.New(sdktrace.NewTracerProvider())
	h := tracer.Wrap("mail", task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) {
		waits := []task.ChildrenWait{{Name: "page"}}
		return nil, task.WaitForChildren(waits, time.Time{}, task.WithTasks(task.Request{Type: "other"}), task.WithSignals(task.SignalRequest{Name: "paid"}),
			task.WithChildren("page", task.Request{Type: "child"}))
	}))
	v := task.VerdictOf(h.Handle(t.Context(), &task.Task{}))
	if r := v.Rerun; r == nil || len(r.Signals) != 1 || r.Signals[0].Name != "paid" || len(r.Tasks) != 1 || len(v.Children) != 1 || len(r.Children) != 1 {
		t.Errorf("the verdict is %+v with %+v", v, r)
	} else if got := r.Children[0].Requests[0].Headers["traceparent"]; len(got) != 55 {
		t.Errorf("the child has the trace context %q", got)
	}
}
