package server_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"

	"github.com/taskengine/taskengine/bulk"
	"github.com/taskengine/taskengine/bulk/jobs"
	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/tasklog"
	"github.com/taskengine/taskengine/workflow"
	"github.com/taskengine/taskengine/workflow/runner"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// discard is a log that drops its lines.
var discard = slog.New(slog.DiscardHandler)

// breakable is a store that can be made to fail.
type breakable struct {
	*memory.Store
	broken  atomic.Bool
	busy    atomic.Bool // another transaction keeps it from writing
	blocker atomic.Pointer[storage.Blocker]
	inserts atomic.Int32 // batches with new tasks
}

func (b *breakable) Update(ctx context.Context, fn func(storage.Tx) error) error {
	if b.broken.Load() {
		return storage.ErrBroken
	}
	if b.busy.Load() {
		return fmt.Errorf("a lock is held: %w", storage.ErrBusy)
	}
	return b.Store.Update(ctx, fn)
}

func (b *breakable) Blockers(context.Context) ([]storage.Blocker, error) {
	if by := b.blocker.Load(); by != nil {
		return []storage.Blocker{*by}, nil
	}
	return nil, nil
}

func (b *breakable) Commit(ctx context.Context, batch *storage.Batch) storage.Commit {
	if len(batch.Insert) > 0 {
		b.inserts.Add(1)
	}
	return storage.CommitLaterIn(ctx, b.Update, batch)
}

// node is an engine behind an API, over a real connection.
type node struct {
	engine   *engine.Engine
	store    *breakable
	metrics  *server.Metrics
	health   *server.Health
	api      *server.Listener
	log      *tasklog.Log
	handlers []server.HandlerStatus
	release  chan struct{} // lets the tasks of type hold go on
}

// newNode starts a node with the types echo, fail (for good), retry (waits an hour for
// its second attempt), hold (waits to be released, one at a time, and logs that), wait (for the signal paid), tree (waits for two
// of three children "page": an echo, a fail and an idle), and idle,
// full, calm, strict, latest and prompt, which have no handler. full has a backlog of two tasks at most, and calm of one: its
// sources pause. strict rejects requests with a taken key, and in latest they replace the task. prompt accepts times up to 20
// seconds in the past. An attempt may log
// three lines.
func newNode(t testing.TB) *node {
	t.Helper()
	return newMember(t, nil)
}

// newMember is newNode of a cluster.
func newMember(t testing.TB, cluster coord.Membership) *node {
	t.Helper()
	n := &node{store: &breakable{Store: memory.New()}, health: new(server.Health), release: make(chan struct{})}
	echo, hold, retry, full, calm := policy.DefaultType(), policy.DefaultType(), policy.DefaultType(), policy.DefaultType(), policy.DefaultType()
	echo.Nodes = policy.Nodes{policy.NodeName: {"n1"}}
	full.MaxBacklog.Max = 2
	calm.MaxBacklog = policy.Backlog{Max: 1, WhenFull: policy.PauseSource}
	hold.Concurrency = 1
	strict, latest := policy.DefaultType(), policy.DefaultType()
	strict.Unique.OnConflict, latest.Unique.OnConflict = policy.RejectNew, policy.ReplaceExisting
	prompt, idle := policy.DefaultType(), policy.DefaultType()
	idle.Ordering.Inherit = true
	prompt.MaxLateness = 20 * time.Second
	retry.Retry.Backoff = policy.Backoff{Kind: policy.Fixed, Delays: []time.Duration{time.Hour}}
	types := map[string]policy.Type{
		"echo": echo, "fail": policy.DefaultType(), "retry": retry, "hold": hold, "idle": idle,
		"wait": policy.DefaultType(), "tree": policy.DefaultType(), "full": full, "calm": calm, "strict": strict, "latest": latest, "prompt": prompt,
		workflow.Type: runner.TypePolicy(), bulk.Type: jobs.TypePolicy(),
	}
	n.log = tasklog.Open(tasklog.Options{AttemptLines: 3})
	t.Cleanup(func() {
		if err := n.log.Close(); err != nil {
			t.Errorf("closing the task log: %v", err)
		}
	})
	n.metrics = server.NewMetrics([]string{"echo", "fail", "retry", "hold", "idle", "wait"}, server.Build{Version: "v0"})
	var err error
	bus, _ := cluster.(coord.Bus)
	clock, _ := cluster.(coord.Clock)
	n.engine, err = engine.Open(t.Context(), engine.Config{
		Name: "n1", Store: n.store, Policies: policy.Set{Slots: 8, Types: types}, TaskLog: n.log, Coordinator: coord.Coordinator{Membership: cluster, Bus: bus, Clock: clock},
		Observer: server.Observers(n.metrics.Observer(), server.Ended(n.log.Ended)),
		Handlers: map[string]task.Handler{
			workflow.Type: runner.Handler,
			bulk.Type:     jobs.Handler(jobs.Config{Changed: server.ChangedByJobs(n.metrics, n.log.Ended)}),
			"echo":        task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) { return t.Payload, nil }),
			"wait": task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) {
				if w := t.Woken(); w.By != task.NotWoken {
					return w.Signal.Data, nil
				}
				return nil, task.WaitFor([]string{"paid"}, time.Time{})
			}),
			"tree": task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) {
				if w := t.Woken(); w.By != task.NotWoken {
					return []byte(w.By.String()), nil
				}
				return nil, task.WaitForChildren([]task.ChildrenWait{{Name: "page", Count: 2}}, time.Time{},
					task.WithChildren("page", task.Request{Type: "echo"}, task.Request{Type: "fail"}, task.Request{Type: "idle"}))
			}),
			"fail":  task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { return nil, task.Permanent(io.ErrUnexpectedEOF) }),
			"retry": task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { return nil, io.ErrUnexpectedEOF }),
			"hold": task.HandlerFunc(func(ctx context.Context, t *task.Task) ([]byte, error) {
				log := task.Logger(ctx)
				log.Warn("held", "attempt", t.Attempt)
				select {
				case <-n.release:
					log.Info("released")
					for range len(t.Payload) {
						log.Debug("more")
					}
					return nil, nil
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.health.Started(n.engine, func() []server.HandlerStatus { return n.handlers })
	n.metrics.Watch(n.engine, func() []server.HandlerStatus { return n.handlers })
	n.api = listenBoth(t, n.handler())
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // whatever runs is cancelled
		n.engine.Close(ctx)
	})
	return n
}

func (n *node) handler() *server.API {
	return server.NewAPI(server.APIConfig{
		Engine: n.engine, Build: server.Build{Version: "v0", Go: "go0"}, Node: "n1", Metrics: n.metrics, MaxRequest: 4 << 20, TaskLog: n.log,
		Workflows: map[string]*workflow.Definition{"greet": {Name: "greet", Steps: map[string]*workflow.Step{"say": {Type: "echo", Payload: []byte(`{"$input": "text"}`)}}, Output: []byte(`{"$result": "say"}`)}},
	})
}

func listen(t testing.TB, h http.Handler, strict bool) *server.Listener {
	t.Helper()
	return listenTo(t, server.ListenConfig{Handler: h, Strict: strict})
}

// listenBoth also has the connections of gRPC libraries served.
func listenBoth(t testing.TB, api *server.API) *server.Listener {
	t.Helper()
	return listenTo(t, server.ListenConfig{Handler: api, GRPC: api.GRPC()})
}

func listenTo(t testing.TB, c server.ListenConfig) *server.Listener {
	t.Helper()
	c.Address, c.Log = cmp.Or(c.Address, "127.0.0.1:0"), discard
	l, err := server.Listen(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			t.Errorf("closing the listener: %v", err)
		}
	})
	return l
}

// httpClient returns a client that speaks HTTP/2 without TLS, or HTTP/1.1.
func httpClient(t testing.TB, h2 bool) *http.Client {
	var p http.Protocols
	p.SetHTTP1(!h2)
	p.SetUnencryptedHTTP2(h2)
	transport := &http.Transport{Protocols: &p}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// client returns a client of the API that speaks gRPC.
func (n *node) client(t testing.TB) taskenginev1connect.TaskServiceClient {
	return n.clientOf(t, true, connect.WithGRPC())
}

func (n *node) clientOf(t testing.TB, h2 bool, o ...connect.ClientOption) taskenginev1connect.TaskServiceClient {
	return taskenginev1connect.NewTaskServiceClient(httpClient(t, h2), "http://"+n.api.Addr().String(), o...)
}

// submit adds one task.
func (n *node) submit(t *testing.T, m *taskenginev1.NewTask) string {
	t.Helper()
	res, err := n.client(t).Submit(t.Context(), &taskenginev1.SubmitRequest{Tasks: []*taskenginev1.NewTask{m}})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetReceipts()[0].GetId()
}

// settle waits for a task to end and returns it.
func (n *node) settle(t *testing.T, id string) *taskenginev1.Task {
	t.Helper()
	res, err := n.client(t).Wait(t.Context(), &taskenginev1.WaitRequest{Ids: []string{id}})
	if err != nil || !res.GetSettled() {
		t.Fatalf("waiting for %s returned %v, %v", id, res, err)
	}
	return res.GetTasks()[0]
}

// until waits for a task to be in a state.
func (n *node) until(t *testing.T, id, state string) *taskenginev1.Task {
	t.Helper()
	for {
		res, err := n.client(t).Get(t.Context(), &taskenginev1.GetRequest{Id: id})
		if err != nil {
			t.Fatal(err)
		}
		if res.GetTask().GetState() == state {
			return res.GetTask()
		}
		time.Sleep(time.Millisecond)
	}
}

// post sends a request as curl does, and returns the code and the body, parsed.
func (n *node) post(t *testing.T, method, body string) (int, map[string]any) {
	t.Helper()
	url := "http://" + n.api.Addr().String() + "/taskengine.v1.TaskService/" + method
	res, err := httpClient(t, false).Post(url, "application/json", bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var parsed map[string]any
	if err := json.NewDecoder(res.Body).Decode(&parsed); err != nil {
		t.Fatalf("%s answered no JSON: %v", method, err)
	}
	return res.StatusCode, parsed
}

func refOf(t *testing.T, id string) task.Ref {
	t.Helper()
	parsed, err := task.ParseID(id)
	if err != nil {
		t.Fatal(err)
	}
	return task.Ref{ID: parsed}
}

func contextWithTimeout(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}
