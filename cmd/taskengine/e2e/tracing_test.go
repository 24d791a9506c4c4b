//go:build !race

package e2e

import (
	"context"
	"encoding/hex"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/taskengine/taskengine/client"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/task"
)

// spanCollector accepts spans as a collector of OpenTelemetry does.
type spanCollector struct {
	collector.UnimplementedTraceServiceServer
	address string

	mu       sync.Mutex
	services map[string]bool // guarded by mu: names of senders
	spans    []*spans.Span   // guarded by mu
}

// Export implements collector.TraceServiceServer.
func (c *spanCollector) Export(_ context.Context, req *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range req.GetResourceSpans() {
		for _, a := range r.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				c.services[a.GetValue().GetStringValue()] = true
			}
		}
		for _, s := range r.GetScopeSpans() {
			c.spans = append(c.spans, s.GetSpans()...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// named returns the spans with a name.
func (c *spanCollector) named(name string) (found []*spans.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.GetName() == name {
			found = append(found, s)
		}
	}
	return found
}

func collectSpans(t *testing.T) *spanCollector {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &spanCollector{address: "http://" + l.Addr().String(), services: make(map[string]bool)}
	s := grpc.NewServer()
	collector.RegisterTraceServiceServer(s, c)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.Serve(l); err != nil {
			t.Errorf("the collector: %v", err)
		}
	}()
	t.Cleanup(func() { s.Stop(); <-ended })
	return c
}

// tracedFile is a configuration with handlers that return the trace context that they are given.
const tracedFile = `
storage: {driver: memory}
handlers: {echo: {exec: [/bin/sh, -c, 'printf %s "$TRACEPARENT"']}}
types: {echo: {handler: echo}}
`

func TestARequestAndTheTaskThatItAddsAreOneTraceAtACollector(t *testing.T) {
	t.Parallel()
	collected := collectSpans(t)
	n := start(t, nil, "run", "-c", write(t, "taskengine.yaml", tracedFile+"tracing: {endpoint: "+collected.address+"}\n"))
	c, err := client.Open([]string{n.api}, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	conn, err := grpc.NewClient(n.api, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	req := &taskenginev1.SubmitRequest{Tasks: []*taskenginev1.NewTask{{Type: "echo"}}}
	var res taskenginev1.SubmitResponse
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-"+trace+"-"+span+"-01")
	if err := conn.Invoke(ctx, taskenginev1connect.TaskServiceSubmitProcedure, req, &res); err != nil {
		t.Fatal(err)
	}
	id, err := task.ParseID(res.GetReceipts()[0].GetId())
	if err != nil {
		t.Fatal(err)
	}
	ended, err := c.Wait(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	n.signal(t, syscall.SIGTERM) // a node that stops sends the spans that it has
	if code := n.exit(t); code != 0 {
		t.Errorf("the node ended with %d", code)
	}
	submits, attempts := collected.named("submit echo"), collected.named("process echo")
	if len(submits) != 1 || len(attempts) != 1 || !collected.services["taskengine"] {
		t.Fatalf("the collector has %v and %v of %v", submits, attempts, collected.services)
	}
	submit, attempt := submits[0], attempts[0]
	if hex.EncodeToString(submit.GetTraceId()) != trace || hex.EncodeToString(submit.GetParentSpanId()) != span {
		t.Errorf("the submit is %v", submit)
	}
	if hex.EncodeToString(attempt.GetTraceId()) != trace || string(attempt.GetParentSpanId()) != string(submit.GetSpanId()) {
		t.Errorf("the attempt is %v, not below %v", attempt, submit)
	}
	if want := "00-" + trace + "-" + hex.EncodeToString(attempt.GetSpanId()) + "-01"; string(ended.Result) != want {
		t.Errorf("the handler has the trace context %q, not %q", ended.Result, want)
	}
}

func TestACollectorThatIsAwayHoldsUpNoTask(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0") // accepts connections, and answers nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := start(t, []string{"OTEL_BSP_SCHEDULE_DELAY=10", "OTEL_BSP_EXPORT_TIMEOUT=100"}, "run", "-c",
		write(t, "taskengine.yaml", tracedFile+"tracing: {endpoint: 'http://"+l.Addr().String()+"'}\n"))
	if got := n.ok(t, "task", "add", "echo", "--wait"); !strings.Contains(got, "00-") {
		t.Errorf("the task has the result %q", got)
	}
	n.says(t, "spans are lost")
	n.signal(t, syscall.SIGTERM)
	if code := n.exit(t); code != 0 {
		t.Errorf("the node ended with %d", code)
	}
}
