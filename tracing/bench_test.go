package tracing_test

import (
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/tracing"
)

func samplers() map[string]sdktrace.Sampler {
	return map[string]sdktrace.Sampler{"sampled": sdktrace.AlwaysSample(), "not": sdktrace.NeverSample()}
}

func BenchmarkDecorate(b *testing.B) {
	for name, sampler := range samplers() {
		b.Run(name, func(b *testing.B) {
			tracer := tracing.New(sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler)))
			for b.Loop() {
				r := task.Request{Type: "mail", Headers: make(map[string]string)}
				if err := tracer.Decorate(b.Context(), &r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkWrap(b *testing.B) {
	for name, sampler := range samplers() {
		b.Run(name, func(b *testing.B) {
			tracer := tracing.New(sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler)))
			r := task.Request{Type: "mail", Headers: make(map[string]string)}
			if err := tracer.Decorate(b.Context(), &r); err != nil {
				b.Fatal(err)
			}
			h := tracer.Wrap("mail", task.HandlerFunc(done))
			job := &task.Task{Type: "mail", Attempt: 1, Headers: r.Headers}
			for b.Loop() {
				if _, err := h.Handle(b.Context(), job); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
