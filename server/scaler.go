package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/server/proto/externalscaler"
	"github.com/taskengine/taskengine/server/proto/externalscaler/externalscalerconnect"
)

const (
	scalerEvery  = time.Second            // how often a stream looks whether the answer has changed
	scalerFresh  = 500 * time.Millisecond // for how long the demand of a type that was read is given to other callers
	maxScalerReq = 64 << 10
)

// The metrics of the scaler. All of them are about one type.
const (
	scaleByBacklog = "backlog" // tasks that are ready or run
	scaleByReady   = "ready"   // tasks that are ready
	scaleByAge     = "age"     // for how many seconds the oldest ready task has been ready
)

// scaler answers KEDA how many pods the tasks of a type need, as far as the metrics of Prometheus say that, too: only for types that
// are configured. It is an [externalscalerconnect.ExternalScalerHandler].
type scaler struct {
	health  *Health
	metrics *Metrics
	turn    chan struct{}         // full while a caller has the demands
	demands map[asked]askedDemand // owned by the caller that has filled turn
}

// asked is a question about the demand.
type asked struct {
	typ    string
	oldest bool // whether the oldest task was looked for
}

// askedDemand is a demand that was read.
type askedDemand struct {
	engine.Demand
	at time.Time
}

// newScaler returns the path of the scaler and its handler.
func newScaler(health *Health, metrics *Metrics) (string, http.Handler) {
	s := &scaler{health: health, metrics: metrics, turn: make(chan struct{}, 1), demands: make(map[asked]askedDemand)}
	path, h := externalscalerconnect.NewExternalScalerHandler(s, connect.WithReadMaxBytes(maxScalerReq))
	return path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == externalscalerconnect.ExternalScalerStreamIsActiveProcedure {
			control := http.NewResponseController(w)
			_, _ = control.SetReadDeadline(time.Time{}), control.SetWriteDeadline(time.Time{})
		}
		h.ServeHTTP(w, r)
	})
}

// trigger is the metadata of a trigger.
type trigger struct {
	typ, metric        string
	target, activation float64
}

// IsActive implements the method.
func (s *scaler) IsActive(ctx context.Context, ref *externalscaler.ScaledObjectRef) (*externalscaler.IsActiveResponse, error) {
	t, err := s.parse(ref)
	if err != nil {
		return nil, err
	}
	d, err := s.demand(ctx, t.asks())
	if err != nil {
		return nil, err
	}
	return &externalscaler.IsActiveResponse{Result: t.isActive(d)}, nil
}

// StreamIsActive implements the method. It ends when the node stops; KEDA then asks another one.
func (s *scaler) StreamIsActive(ctx context.Context, ref *externalscaler.ScaledObjectRef, stream *connect.ServerStream[externalscaler.IsActiveResponse]) error {
	t, err := s.parse(ref)
	if err != nil {
		return err
	}
	for sent, last := false, false; !s.health.draining.Load(); {
		d, err := s.demand(ctx, t.asks())
		if err != nil {
			return err
		}
		if active := t.isActive(d); !sent || active != last {
			if err := stream.Send(&externalscaler.IsActiveResponse{Result: active}); err != nil {
				return err
			}
			sent, last = true, active
		}
		select {
		case <-time.After(scalerEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// GetMetricSpec implements the method.
func (s *scaler) GetMetricSpec(_ context.Context, ref *externalscaler.ScaledObjectRef) (*externalscaler.GetMetricSpecResponse, error) {
	t, err := s.parse(ref)
	if err != nil {
		return nil, err
	}
	return &externalscaler.GetMetricSpecResponse{MetricSpecs: []*externalscaler.MetricSpec{{
		MetricName: t.name(), TargetSize: int64(math.Ceil(t.target)), TargetSizeFloat: t.target,
	}}}, nil
}

// GetMetrics implements the method.
func (s *scaler) GetMetrics(ctx context.Context, req *externalscaler.GetMetricsRequest) (*externalscaler.GetMetricsResponse, error) {
	t, err := s.parse(req.GetScaledObjectRef())
	if err != nil {
		return nil, err
	}
	d, err := s.demand(ctx, t.asks())
	if err != nil {
		return nil, err
	}
	value := t.value(d)
	return &externalscaler.GetMetricsResponse{MetricValues: []*externalscaler.MetricValue{{
		MetricName: t.name(), MetricValue: int64(math.Ceil(value)), MetricValueFloat: value,
	}}}, nil
}

// demand returns an answer that was read from the store less than scalerFresh ago. Callers read one after the other.
func (s *scaler) demand(ctx context.Context, q asked) (engine.Demand, error) {
	node := s.health.node.Load()
	switch {
	case node == nil:
		return engine.Demand{}, connect.NewError(connect.CodeUnavailable, errStarting)
	case s.health.draining.Load():
		return engine.Demand{}, connect.NewError(connect.CodeUnavailable, errDraining)
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return engine.Demand{}, ctx.Err()
	}
	if kept, ok := s.demands[q]; ok && time.Since(kept.at) < scalerFresh {
		return kept.Demand, nil
	}
	d, err := node.engine.Demand(ctx, q.typ, q.oldest)
	if err != nil {
		return engine.Demand{}, connect.NewError(connect.CodeUnavailable, err)
	}
	s.demands[q] = askedDemand{d, time.Now()}
	return d, nil
}

// parse reads the metadata of a trigger. Other metadata is KEDA's, such as the address of the scaler.
func (s *scaler) parse(ref *externalscaler.ScaledObjectRef) (t trigger, err error) {
	given := ref.GetScalerMetadata()
	if t.typ = given["type"]; t.typ == "" {
		return t, refusedTrigger(errors.New("type is missing: the type of the tasks"))
	}
	if _, ok := s.metrics.types[t.typ]; !ok {
		return t, connect.NewError(connect.CodeNotFound, fmt.Errorf("the configuration of this node has no type %.80q; add it to types", t.typ))
	}
	all := []string{scaleByBacklog, scaleByReady, scaleByAge}
	if t.metric = given["metric"]; t.metric == "" {
		t.metric = scaleByBacklog
	}
	if !slices.Contains(all, t.metric) {
		return t, refusedTrigger(fmt.Errorf("metric is %.80q; it can be %s", t.metric, strings.Join(all, ", ")))
	}
	if t.target, err = strconv.ParseFloat(given["target"], 64); err != nil || !(t.target > 0) || t.target > math.MaxInt32 {
		return t, refusedTrigger(fmt.Errorf("target is %.80q; write a number above 0: the value of the metric for one pod", given["target"]))
	}
	if text, ok := given["activation"]; ok {
		if t.activation, err = strconv.ParseFloat(text, 64); err != nil || !(t.activation >= 0) {
			return t, refusedTrigger(fmt.Errorf("activation is %.80q; write a number of 0 or more: the first pod starts above it", text))
		}
	}
	return t, nil
}

func refusedTrigger(err error) error {
	return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("the metadata of the trigger: %w", err))
}

// asks returns the question that the metric needs answered.
func (t trigger) asks() asked { return asked{t.typ, t.metric == scaleByAge} }

// name returns the name of the metric.
func (t trigger) name() string { return "taskengine-" + t.metric }

// value returns the value of the metric. Tasks of a paused type are not ready for a pod.
func (t trigger) value(d engine.Demand) float64 {
	ready := d.Ready
	if d.Paused {
		ready = 0
	}
	switch {
	case t.metric == scaleByBacklog:
		return float64(ready + d.Running)
	case t.metric == scaleByReady:
		return float64(ready)
	case ready == 0 || d.Oldest.IsZero():
		return 0
	default:
		return max(0, d.At.Sub(d.Oldest).Seconds())
	}
}

// isActive reports whether there has to be a pod: a task runs, or the metric is above the activation. A pod that runs a task is not taken away.
func (t trigger) isActive(d engine.Demand) bool {
	return d.Running > 0 || t.value(d) > t.activation || t.activation == 0 && d.Ready > 0 && !d.Paused
}

var _ externalscalerconnect.ExternalScalerHandler = (*scaler)(nil)
