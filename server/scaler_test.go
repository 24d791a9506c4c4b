package server_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/taskengine/taskengine/server"
	"github.com/taskengine/taskengine/server/proto/externalscaler"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// kedaClient calls the admin listener of a node as KEDA does.
type kedaClient struct {
	*testing.T
	conn *grpc.ClientConn
}

func newKEDA(t *testing.T, n *node, on bool) kedaClient {
	t.Helper()
	l := listen(t, server.NewAdmin(server.AdminConfig{Health: n.health, Metrics: n.metrics, Scaler: on}), true)
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin":{}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return kedaClient{t, conn}
}

// trigger returns the metadata of a trigger, of pairs of a key and a value.
func trigger(pairs ...string) *externalscaler.ScaledObjectRef {
	all := map[string]string{"scalerAddress": "taskengine:7421"}
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i]] = pairs[i+1]
	}
	return &externalscaler.ScaledObjectRef{Name: "worker", Namespace: "default", ScalerMetadata: all}
}

// call returns the response to a request.
func call[Res any](k kedaClient, method string, req any) (*Res, error) {
	res := new(Res)
	return res, k.conn.Invoke(k.Context(), "/externalscaler.ExternalScaler/"+method, req, res)
}

// expect checks whether a trigger is active, and the value of its metric; -1 is any above 0.
func (k kedaClient) expect(ref *externalscaler.ScaledObjectRef, active bool, value float64) {
	k.Helper()
	is, err := call[externalscaler.IsActiveResponse](k, "IsActive", ref)
	if err != nil {
		k.Fatal(err)
	}
	spec, err := call[externalscaler.GetMetricSpecResponse](k, "GetMetricSpec", ref)
	if err != nil || len(spec.GetMetricSpecs()) != 1 {
		k.Fatal(spec, err)
	}
	name := spec.GetMetricSpecs()[0].GetMetricName()
	got, err := call[externalscaler.GetMetricsResponse](k, "GetMetrics", &externalscaler.GetMetricsRequest{ScaledObjectRef: ref, MetricName: name})
	if err != nil || len(got.GetMetricValues()) != 1 || got.GetMetricValues()[0].GetMetricName() != name {
		k.Fatal(got, err)
	}
	v := got.GetMetricValues()[0]
	if is.GetResult() != active || v.GetMetricValueFloat() != value && !(value < 0 && v.GetMetricValueFloat() > 0) || float64(v.GetMetricValue()) < v.GetMetricValueFloat() {
		k.Errorf("%v: active is %v, want %v, and the metric is %v, want %v", ref.GetScalerMetadata(), is.GetResult(), active, v, value)
	}
}

func TestKEDALearnsHowManyTasksOfATypeWaitAndRun(t *testing.T) {
	n := newNode(t)
	k := newKEDA(t, n, true)
	client := n.client(t)
	add := func(typ string, count int) {
		t.Helper()
		req := new(taskenginev1.SubmitRequest)
		for range count {
			req.Tasks = append(req.Tasks, &taskenginev1.NewTask{Type: typ})
		}
		if _, err := client.Submit(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}

	spec, err := call[externalscaler.GetMetricSpecResponse](k, "GetMetricSpec", trigger("type", "idle", "target", "2.5"))
	if err != nil || spec.GetMetricSpecs()[0].GetTargetSizeFloat() != 2.5 || spec.GetMetricSpecs()[0].GetTargetSize() != 3 {
		t.Errorf("the target is %v, %v", spec, err)
	}
	stream, err := k.conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, "/externalscaler.ExternalScaler/StreamIsActive")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.SendMsg(trigger("type", "idle", "target", "1")); err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	pushed := func() bool {
		t.Helper()
		res := new(externalscaler.IsActiveResponse)
		if err := stream.RecvMsg(res); err != nil {
			t.Fatal(err)
		}
		return res.GetResult()
	}
	if pushed() {
		t.Error("a type without tasks is active")
	}

	add("idle", 3)
	add("hold", 3)
	n.waitRunning(t, "hold", 1)
	if !pushed() {
		t.Error("a type with ready tasks is not active")
	}
	for _, metric := range []string{"backlog", "ready"} {
		k.expect(trigger("type", "idle", "metric", metric, "target", "8"), true, 3)
		k.expect(trigger("type", "echo", "metric", metric, "target", "8"), false, 0)
	}
	k.expect(trigger("type", "idle", "metric", "age", "target", "30"), true, -1)
	k.expect(trigger("type", "idle", "target", "8", "activation", "3"), false, 3)
	k.expect(trigger("type", "hold", "target", "8"), true, 3)
	k.expect(trigger("type", "hold", "metric", "ready", "target", "8", "activation", "100"), true, 2)

	for name, wrong := range map[string]*externalscaler.ScaledObjectRef{
		"no type": trigger("target", "1"), "no target": trigger("type", "idle"), "a target of zero": trigger("type", "idle", "target", "0"),
		"another metric": trigger("type", "idle", "target", "1", "metric", "lag"), "an activation below zero": trigger("type", "idle", "target", "1", "activation", "-1"),
	} {
		if _, err := call[externalscaler.IsActiveResponse](k, "IsActive", wrong); status.Code(err) != codes.InvalidArgument {
			t.Errorf("with %s, the answer is %v", name, err)
		}
	}
	if _, err := call[externalscaler.IsActiveResponse](k, "IsActive", trigger("type", "unknown", "target", "1")); status.Code(err) != codes.NotFound {
		t.Errorf("of a type that is not configured, the answer is %v", err)
	}

	n.health.Draining()
	if err := stream.RecvMsg(new(externalscaler.IsActiveResponse)); err == nil || err.Error() != "EOF" {
		t.Errorf("the stream of a node that stops ends with %v", err)
	}
	if _, err := call[externalscaler.IsActiveResponse](k, "IsActive", trigger("type", "idle", "target", "1")); status.Code(err) != codes.Unavailable {
		t.Errorf("while the node stops, the answer is %v", err)
	}
}

// waitRunning waits until so many tasks of a type run.
func (n *node) waitRunning(t *testing.T, typ string, count int) {
	t.Helper()
	within(t, "running tasks", func() bool {
		for _, s := range n.engine.Types() {
			if s.Name == typ {
				return s.Running == count
			}
		}
		return false
	})
}

func TestTheScalerIsServedOnlyIfTheConfigurationSaysSo(t *testing.T) {
	k := newKEDA(t, newNode(t), false)
	if err := k.conn.Invoke(context.Background(), "/externalscaler.ExternalScaler/IsActive", trigger("type", "idle", "target", "1"), new(externalscaler.IsActiveResponse)); status.Code(err) != codes.Unimplemented {
		t.Errorf("the answer is %v", err)
	}
}
