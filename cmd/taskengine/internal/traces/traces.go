// Package traces sends spans of a node to a collector of OpenTelemetry.
package traces

import (
	"context"
	"fmt"
	"log/slog"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/internal/ratelog"
	"github.com/taskengine/taskengine/tracing"
)

// Node describes the node that sends spans.
type Node struct {
	Name    string
	Version string
	Log     *slog.Logger // logs lost spans, at most once a minute
}

// Sender makes spans and sends them.
type Sender struct {
	*tracing.Tracer
	provider *sdktrace.TracerProvider
}

// Open begins to send spans. It waits for no connection. The exporter also follows the environment variables that
// OpenTelemetry defines for it, such as OTEL_EXPORTER_OTLP_HEADERS. The caller closes the result.
func Open(ctx context.Context, c config.Tracing, n Node) (*Sender, error) {
	client, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(c.Endpoint))
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", "taskengine"), attribute.String("service.instance.id", n.Name), attribute.String("service.version", n.Version),
	), resource.WithFromEnv())
	if err != nil {
		_ = client.Shutdown(ctx) // the first error says more
		return nil, fmt.Errorf("tracing: %w", err)
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(&exporter{SpanExporter: client, endpoint: c.Endpoint, log: n.Log}),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(c.Sample))),
		sdktrace.WithResource(about),
	)
	return &Sender{tracing.New(provider), provider}, nil
}

// Close sends the spans that are not sent yet, until ctx ends.
func (s *Sender) Close(ctx context.Context) error { return s.provider.Shutdown(ctx) }

// exporter logs that spans are lost. Otherwise the error would be passed to a function of the whole process.
type exporter struct {
	sdktrace.SpanExporter
	endpoint string
	log      *slog.Logger
	lines    ratelog.Limiter
}

// ExportSpans implements [sdktrace.SpanExporter].
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil && e.lines.Allow() {
		e.log.Warn("spans are lost: the collector does not accept them", "endpoint", e.endpoint, "spans", len(spans), "error", err)
	}
	return nil
}
