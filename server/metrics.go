package server

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/task"
)

const namespace = "taskengine"

// otherType is the label in metrics of all types that are not configured. Clients choose the types of tasks, and the
// number of series must not depend on them.
const otherType = "other"

// Metrics are the metrics of a node. They are created before the engine, because [Metrics.Observer] is part of its
// configuration.
type Metrics struct {
	registry *prometheus.Registry
	types    map[string]*typeMetrics // read only
	other    *typeMetrics            // of types that are not configured
	requests *prometheus.HistogramVec

	commits       prometheus.Observer
	commitsFailed prometheus.Counter
	stands        *standstills

	history history // of what tasks do; WatchActivity adds to it

	node    atomic.Pointer[nodeParts]                    // read at each scrape; nil before Watch
	health  atomic.Pointer[Health]                       // likewise; nil before WatchHealth
	sources atomic.Pointer[Sources]                      // likewise; nil before WatchSources
	slices  atomic.Pointer[[]slicesSeen]                 // likewise; nil while this node does not know them; WatchSlices stores them
	overdue atomic.Pointer[overdue]                      // likewise; nil while this node does not know it; WatchSchedules stores it
	hooks   atomic.Pointer[func() map[string]HookCounts] // likewise; nil before WatchHooks
	tokens  atomic.Pointer[func() time.Duration]         // likewise; nil before WatchTokens
}

// nodeParts are the parts of a running node that health and metrics read.
type nodeParts struct {
	engine   *engine.Engine
	handlers func() []HandlerStatus
}

// typeMetrics are the series of one type. They are looked up once, because they are updated while the engine holds its
// lock.
type typeMetrics struct {
	submitted, started prometheus.Counter
	finished           map[task.State]prometheus.Counter
	attempts           map[task.Outcome]prometheus.Counter
	signals            map[engine.SignalOutcome]prometheus.Counter
	startDelay, run    prometheus.Observer
	activity           activity
}

// NewMetrics returns metrics for the given types. Tasks of other types are counted together.
func NewMetrics(types []string, build Build) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), types: make(map[string]*typeMetrics, len(types)), stands: newStandstills()}
	f := families{
		submitted:  counters("tasks_submitted_total", "Tasks that became durable.", "type"),
		started:    counters("tasks_started_total", "Attempts with a call of the handler.", "type"),
		finished:   counters("tasks_finished_total", "Tasks that ended, by the state they ended in.", "type", "outcome"),
		signals:    counters("signals_total", "Signals to tasks, by what became of them.", "type", "outcome"),
		attempts:   counters("attempts_ended_total", "Attempts that ended, by how they did.", "type", "outcome"),
		startDelay: histograms("insert_to_start_seconds", "From when a task could first run, which is its insert or the time it was scheduled for, to its first call.", "type"),
		run:        histograms("run_seconds", "How long attempts took, from the grab to the answer.", "type"),
	}
	m.requests = histograms("api_request_seconds", "How long requests to the API took.", "method", "code")
	commits := histograms("store_commit_seconds", "How long the store took to make a batch of changes durable, or to fail. The wait for the disk is a part of it.")
	failed := counters("store_commits_failed_total", "Batches of changes that the store did not write, or with an unknown outcome. They are tried again.")
	m.commits, m.commitsFailed = commits.WithLabelValues(), failed.WithLabelValues()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "Which program this is; always 1.",
		ConstLabels: prometheus.Labels{"version": build.Version, "commit": build.Commit, "go": build.Go},
	})
	info.Set(1)
	m.registry.MustRegister(
		f.submitted, f.started, f.finished, f.attempts, f.signals, f.startDelay, f.run, m.requests, commits, failed, info, gatherer{m},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.other = f.of(otherType)
	for _, name := range types {
		m.types[name] = f.of(name)
	}
	return m
}

// Watch adds the metrics of the engine and its handlers. handlers may be nil.
func (m *Metrics) Watch(e *engine.Engine, handlers func() []HandlerStatus) {
	m.node.Store(&nodeParts{e, handlers})
}

// WatchSources adds the metrics of the sources of the node.
func (m *Metrics) WatchSources(s Sources) { m.sources.Store(&s) }

// WatchHealth adds whether the node is ready.
func (m *Metrics) WatchHealth(h *Health) { m.health.Store(h) }

// Handler serves the metrics to Prometheus.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// of returns the series of a type.
func (m *Metrics) of(typ string) *typeMetrics {
	if t, ok := m.types[typ]; ok {
		return t
	}
	return m.other
}

// families are the metrics with a label for the type.
type families struct {
	submitted, started, finished, attempts, signals *prometheus.CounterVec
	startDelay, run                                 *prometheus.HistogramVec
}

func (f families) of(typ string) *typeMetrics {
	t := &typeMetrics{
		submitted: f.submitted.WithLabelValues(typ), started: f.started.WithLabelValues(typ),
		finished: make(map[task.State]prometheus.Counter), attempts: make(map[task.Outcome]prometheus.Counter),
		signals:    make(map[engine.SignalOutcome]prometheus.Counter),
		startDelay: f.startDelay.WithLabelValues(typ), run: f.run.WithLabelValues(typ),
	}
	for _, s := range task.States() {
		if !s.Live() {
			t.finished[s] = f.finished.WithLabelValues(typ, s.String())
		}
	}
	for o := task.Completed; o <= task.Interrupted; o++ {
		t.attempts[o] = f.attempts.WithLabelValues(typ, o.String())
	}
	for o := engine.SignalWoke; o <= engine.SignalTaskEnded; o++ {
		t.signals[o] = f.signals.WithLabelValues(typ, o.String())
	}
	return t
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

// histograms returns histograms with classic buckets from 100 us to 1000 s, and native buckets.
func histograms(name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: name, Help: help,
		Buckets:                         prometheus.ExponentialBucketsRange(1e-4, 1e3, 15),
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  160,
		NativeHistogramMinResetDuration: time.Hour,
	}, labels)
}

// stopwatch measures the requests to the API.
type stopwatch struct{ metrics *Metrics }

// WrapUnary implements [connect.Interceptor].
func (w stopwatch) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		begin := time.Now()
		res, err := next(ctx, req)
		w.record(begin, req.Spec().Procedure, err)
		return res, err
	}
}

// WrapStreamingHandler implements [connect.Interceptor].
func (w stopwatch) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		begin := time.Now()
		err := next(ctx, conn)
		w.record(begin, conn.Spec().Procedure, err)
		return err
	}
}

// WrapStreamingClient implements [connect.Interceptor]. The server is no client.
func (stopwatch) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (w stopwatch) record(begin time.Time, procedure string, err error) {
	code := "ok"
	if err != nil {
		code = connect.CodeOf(err).String()
	}
	method := procedure[strings.LastIndexByte(procedure, '/')+1:]
	w.metrics.requests.WithLabelValues(method, code).Observe(time.Since(begin).Seconds())
}
