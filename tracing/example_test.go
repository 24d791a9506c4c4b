package tracing_test

import (
	"context"
	"fmt"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/tracing"
)

// A program that has a provider of spans gives it to its engine. Its tasks are in the traces of what adds them.
func ExampleNew() {
	ctx := context.Background()
	provider := sdktrace.NewTracerProvider() // with an exporter, which is left out here
	defer provider.Shutdown(ctx)
	store := memory.New()
	defer store.Close()

	tracer := tracing.New(provider)
	traces := make(chan trace.TraceID, 1)
	e, err := engine.Open(ctx, engine.Config{
		Store: store, Wrap: tracer.Wrap, Decorate: tracer.Decorate,
		Handlers: map[string]task.Handler{"mail": task.HandlerFunc(func(ctx context.Context, _ *task.Task) ([]byte, error) {
			traces <- trace.SpanContextFromContext(ctx).TraceID()
			return nil, nil
		})},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close(ctx)

	ctx, span := provider.Tracer("shop").Start(ctx, "checkout")
	defer span.End()
	if _, err := e.Submit(ctx, engine.Request{Type: "mail"}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(<-traces == span.SpanContext().TraceID())
	// Output: true
}
