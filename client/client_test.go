package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/taskengine/taskengine/client"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/server"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice/slicer"
	"github.com/taskengine/taskengine/workflow"
	"github.com/taskengine/taskengine/workflow/runner"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// maxRequest is how large a request the nodes of the tests accept.
const maxRequest = 2 << 20

// tasks is an engine with an API that several listeners may serve: the nodes of a cluster.
type tasks struct {
	engine  *engine.Engine
	sources server.Sources  // nil for none
	slices  *slicer.Sources // nil for none
}

// newTasks opens an engine with the types echo, fail, idle, which has no handler, full, which has a backlog of one, and tree, which waits
// for three children of the type idle.
func newTasks(t testing.TB) tasks {
	t.Helper()
	full, strict := policy.DefaultType(), policy.DefaultType()
	strict.Unique.OnConflict = policy.RejectNew
	prompt := policy.DefaultType()
	prompt.MaxLateness = 20 * time.Second
	full.MaxBacklog.Max = 1
	brief := policy.DefaultType()
	brief.Retention.Done, brief.Unique.Remember = 0, time.Hour
	e, err := engine.Open(t.Context(), engine.Config{
		Store: memory.New(), Policies: policy.Set{Slots: 8, Types: map[string]policy.Type{"echo": policy.DefaultType(), "fail": policy.DefaultType(), "full": full, "strict": strict, "prompt": prompt, "brief": brief, "tree": policy.DefaultType(), workflow.Type: runner.TypePolicy()}},
		Handlers: map[string]task.Handler{
			"echo":        task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) { return t.Payload, nil }),
			"brief":       task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) { return t.Payload, nil }),
			workflow.Type: runner.Handler,
			"tree": task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) {
				idle := task.Request{Type: "idle"}
				return nil, task.WaitForChildren([]task.ChildrenWait{{Name: "page"}}, time.Time{}, task.WithChildren("page", idle, idle, idle))
			}),
			"fail": task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { return nil, task.Permanent(io.ErrUnexpectedEOF) }),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		e.Close(ctx)
	})
	return tasks{engine: e}
}

// count returns how many tasks of a type there are.
func (n tasks) count(t testing.TB, typ string) (count int) {
	t.Helper()
	counts, err := n.engine.Count(t.Context(), storage.Filter{Types: []string{typ}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range counts {
		count += int(c)
	}
	return count
}

// serve serves the API at an address of its own. stop has it end as a node does.
func (n tasks) serve(t testing.TB) (address string, stop func()) {
	t.Helper()
	api := server.NewAPI(server.APIConfig{Engine: n.engine, MaxRequest: maxRequest, Sources: n.sources, Slices: n.slices})
	l, err := server.Listen(t.Context(), server.ListenConfig{Address: "127.0.0.1:0", Handler: api, GRPC: api.GRPC(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		api.Drain()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			t.Errorf("closing the listener: %v", err)
		}
	})
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

func open(t testing.TB, o client.Options, addresses ...string) *client.Client {
	t.Helper()
	c, err := client.Open(addresses, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// newClient returns a client of a node.
func newClient(t testing.TB) (*client.Client, tasks) {
	t.Helper()
	n := newTasks(t)
	address, _ := n.serve(t)
	return open(t, client.Options{}, address), n
}

type greeting struct{ To string }

var echo = client.Type[greeting, greeting]("echo")

func TestATaskIsSubmittedAndItsResultIsRead(t *testing.T) {
	c, _ := newClient(t)
	receipt, err := echo.Submit(t.Context(), c, greeting{"a"}, client.Key("k"), client.Header("h", "v"), client.Priority(3))
	if err != nil || !receipt.Created {
		t.Fatalf("submit returns %v, %v", receipt, err)
	}
	if got, err := echo.Result(t.Context(), c, receipt.ID); err != nil || got != (greeting{"a"}) {
		t.Errorf("the result is %v, %v", got, err)
	}
	again, err := echo.Submit(t.Context(), c, greeting{"b"}, client.Key("k"))
	if err != nil || again.Created || again.ID != receipt.ID {
		t.Errorf("a second task with the key gives %v, %v", again, err)
	}
	got, err := c.Get(t.Context(), receipt.ID)
	if err != nil || got.Headers["h"] != "v" || got.Priority != 3 || string(got.Payload) != `{"To":"a"}` {
		t.Errorf("the task is %v, %v", got, err)
	}
	if payload, err := echo.Payload(got); err != nil || payload != (greeting{"a"}) || !got.HasEnded() {
		t.Errorf("the payload of %v is %v, %v", got, payload, err)
	}
	if _, err := client.Type[int, int]("echo").Payload(got); err == nil || !strings.Contains(err.Error(), "the payload of task "+receipt.ID.String()) {
		t.Errorf("the payload is a number: %v", err)
	}
	var raw client.Raw
	if err := c.Result(t.Context(), receipt.ID, &raw); err != nil || string(raw) != `{"To":"a"}` {
		t.Errorf("its result as it is: %q, %v", raw, err)
	}
	failed, err := c.Submit(t.Context(), "fail", nil)
	if err != nil {
		t.Fatal(err)
	}
	var ended *client.NotDoneError
	if err := c.Result(t.Context(), failed.ID, nil); !errors.As(err, &ended) || ended.State != "error" || !strings.Contains(ended.Reason, "EOF") {
		t.Errorf("the result of a failed task is %v", err)
	}
}

func TestARemovedResultIsNoEmptyOne(t *testing.T) {
	c, _ := newClient(t)
	brief := client.Type[greeting, greeting]("brief")
	receipt, err := brief.Submit(t.Context(), c, greeting{"a"}, client.Key("k"))
	if err != nil {
		t.Fatal(err)
	}
	var removed *client.ResultRemovedError
	if got, err := brief.Result(t.Context(), c, receipt.ID); !errors.As(err, &removed) || removed.ID != receipt.ID {
		t.Errorf("the result is %v, %v", got, err)
	}
	raw := client.Raw("x")
	if err := c.Result(t.Context(), receipt.ID, &raw); !errors.As(err, &removed) || string(raw) != "x" {
		t.Errorf("the result as it is: %q, %v", raw, err)
	}
	if err := c.Result(t.Context(), receipt.ID, nil); err != nil {
		t.Errorf("waiting without a result: %v", err)
	}
	again, err := brief.Submit(t.Context(), c, greeting{"a"}, client.Key("k"))
	if err != nil || again.ID != receipt.ID || again.Outcome != "already_done" {
		t.Errorf("a second request with the key gives %v, %v", again, err)
	}
	if got, err := c.Find(t.Context(), "brief", "k"); err != nil || !got.Tombstone || got.State != "done" {
		t.Errorf("the task is %v, %v", got, err)
	}
	empty, err := c.Submit(t.Context(), "echo", []byte{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Result(t.Context(), empty.ID, &raw); err != nil || len(raw) > 0 {
		t.Errorf("an empty result is %q, %v", raw, err)
	}
}

// The zero id and the zero time mean none in a Request. A caller of an option means a value.
func TestAnOptionWithoutAValueIsRefused(t *testing.T) {
	c, n := newClient(t)
	for name, o := range map[string]client.Option{"ID": client.ID(task.ID{}), "At": client.At(time.Time{}), "ExpiresAt": client.ExpiresAt(time.Time{})} {
		var e *client.Error
		if _, err := c.Submit(t.Context(), "idle", nil, o); !errors.Is(err, client.ErrInvalid) || !errors.As(err, &e) || !strings.Contains(e.Message, "the option "+name+" ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.SubmitAll(t.Context(), client.Request{Type: "idle"}, client.Request{}); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("a request of no type: %v", err)
	}
	if got := n.count(t, "idle"); got != 0 {
		t.Errorf("there are %d tasks", got)
	}
	if each := c.SubmitEach(t.Context(), client.Request{Type: "idle"}); each[0].Err != nil || n.count(t, "idle") != 1 {
		t.Errorf("a request that New has not made: %+v", each)
	}
}

func TestErrorsAreMatchedByTheirKind(t *testing.T) {
	c, n := newClient(t)
	if _, err := c.Submit(t.Context(), "full", nil); err != nil {
		t.Fatal(err)
	}
	submit := func(typ string, payload any, o ...client.Option) error {
		_, err := c.Submit(t.Context(), typ, payload, o...)
		return err
	}
	ended, err := c.Submit(t.Context(), "echo", "x")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Result(t.Context(), ended.ID, nil); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ err, kind error }{
		"no type":        {submit("", nil), client.ErrInvalid},
		"a long key":     {submit("idle", nil, client.Key(strings.Repeat("x", 600))), client.ErrInvalid},
		"a key no text":  {submit("idle", nil, client.Key("\xff")), client.ErrInvalid},
		"a full backlog": {submit("full", nil), client.ErrBacklog},
		"too large":      {submit("idle", client.Raw(make([]byte, 2*maxRequest))), client.ErrTooLarge},
		"no such task":   {second(c.Cancel(t.Context(), task.ID{1}, "")), client.ErrNotFound},
		"it has ended":   {second(c.Cancel(t.Context(), ended.ID, "")), client.ErrNotAllowed},
		"no such limit":  {second(c.Limit(t.Context(), "nothing", "")), client.ErrNotFound},
		"no such sched":  {second(c.Schedule(t.Context(), "nothing")), client.ErrNotFound},
		"wait for none":  {second(c.Wait(t.Context(), task.ID{1})), client.ErrNotFound},
	} {
		var e *client.Error
		if !errors.Is(test.err, test.kind) || !errors.As(test.err, &e) || e.Message == "" {
			t.Errorf("%s: the error is %v, want one of the kind %v", name, test.err, test.kind)
		}
	}
	if _, err := client.New("idle", func() {}); err == nil {
		t.Error("a function is a payload")
	}
	if got := n.count(t, "idle"); got != 0 {
		t.Errorf("requests that were refused have added %d tasks", got)
	}
}

func second[T any](_ T, err error) error { return err }

// One of many tasks is too large for the node, and others are not valid: the others are added.
func TestOfManyTasksThoseAreAddedThatCanBe(t *testing.T) {
	c, n := newClient(t)
	var requests []client.Request
	for i := range 3000 {
		var payload any = i
		typ := "idle"
		switch {
		case i == 1500:
			payload = client.Raw(make([]byte, maxRequest+1))
		case i%1000 == 7:
			typ = ""
		}
		r, err := client.New(typ, payload)
		if err != nil {
			t.Fatal(err)
		}
		requests = append(requests, r)
	}
	ids := make(map[task.ID]bool)
	for i, o := range c.SubmitEach(t.Context(), requests...) {
		switch {
		case i == 1500:
			if !errors.Is(o.Err, client.ErrTooLarge) {
				t.Errorf("the large one: %v", o.Err)
			}
		case i%1000 == 7:
			if !errors.Is(o.Err, client.ErrInvalid) {
				t.Errorf("the one without a type: %v", o.Err)
			}
		case o.Err != nil || !o.Receipt.Created:
			t.Fatalf("task %d: %v", i, o)
		default:
			ids[o.Receipt.ID] = true
		}
	}
	if len(ids) != 2996 || n.count(t, "idle") != 2996 {
		t.Errorf("there are %d ids and %d tasks", len(ids), n.count(t, "idle"))
	}
	if _, err := c.SubmitAll(t.Context(), requests[0], requests[7]); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("all or none: %v", err)
	}
	if receipts, err := c.SubmitAll(t.Context(), requests[:7]...); err != nil || len(receipts) != 7 || !receipts[6].Created {
		t.Errorf("all: %v, %v", receipts, err)
	}
	if got := n.count(t, "idle"); got != 2996+7 {
		t.Errorf("there are %d tasks", got)
	}
}

func TestARequestWithATakenKeyIsRejected(t *testing.T) {
	c, n := newClient(t)
	first, err := c.Submit(t.Context(), "strict", 1, client.Key("k"))
	if err != nil || first.Outcome != "created" {
		t.Fatalf("the first: %+v, %v", first, err)
	}
	if _, err := c.Submit(t.Context(), "strict", 2, client.Key("k")); !errors.Is(err, client.ErrExists) {
		t.Errorf("the second: %v", err)
	}
	again, err := client.New("strict", 3, client.Key("k"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := client.New("idle", 4)
	if err != nil {
		t.Fatal(err)
	}
	each := c.SubmitEach(t.Context(), other, again)
	if each[0].Err != nil || !each[0].Receipt.Created || !errors.Is(each[1].Err, client.ErrExists) {
		t.Errorf("each: %+v", each)
	}
	all, err := c.SubmitAll(t.Context(), other, again)
	if !errors.Is(err, client.ErrExists) || len(all) != 2 || !all[0].Created || all[1].ID != first.ID {
		t.Errorf("all: %+v, %v", all, err)
	}
	if got := n.count(t, "idle"); got != 2 {
		t.Errorf("there are %d of the other tasks", got)
	}
}

func TestALateRequestIsRefused(t *testing.T) {
	c, n := newClient(t)
	at := time.Now().Add(-time.Hour)
	if _, err := c.Submit(t.Context(), "prompt", nil, client.At(at)); !errors.Is(err, client.ErrLate) || errors.Is(err, client.ErrInvalid) {
		t.Errorf("alone: %v", err)
	}
	var requests []client.Request
	for _, typ := range []string{"idle", "prompt"} {
		r, err := client.New(typ, nil, client.At(at))
		if err != nil {
			t.Fatal(err)
		}
		requests = append(requests, r)
	}
	each := c.SubmitEach(t.Context(), requests...)
	if each[0].Err != nil || !each[0].Receipt.Created || !errors.Is(each[1].Err, client.ErrLate) {
		t.Errorf("each: %+v", each)
	}
	all, err := c.SubmitAll(t.Context(), requests...)
	if !errors.Is(err, client.ErrLate) || errors.Is(err, client.ErrExists) || len(all) != 2 || !all[0].Created || all[1] != (client.Receipt{Outcome: "late"}) ||
		!strings.Contains(err.Error(), at.UTC().Format(time.RFC3339Nano)) {
		t.Errorf("all: %+v, %v", all, err)
	}
	if got := n.count(t, "idle"); got != 2 {
		t.Errorf("there are %d of the other tasks", got)
	}
	if got := n.count(t, "prompt"); got != 0 {
		t.Errorf("there are %d late tasks", got)
	}
}

func TestDecorateChangesWhatIsSubmitted(t *testing.T) {
	n := newTasks(t)
	address, _ := n.serve(t)
	type key struct{}
	why := errors.New("no tenant")
	c := open(t, client.Options{Decorate: func(ctx context.Context, r *client.Request) error {
		if r.Key == "bad" {
			return why
		}
		r.Type = "idle"
		client.Header("traceparent", fmt.Sprint(ctx.Value(key{})))(r)
		return nil
	}}, address)
	ctx := context.WithValue(t.Context(), key{}, "00-1-2-01")
	request, err := client.New("none", nil, client.Header("h", "of the task"))
	if err != nil {
		t.Fatal(err)
	}
	bad, err := client.New("none", nil, client.Key("bad"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.SubmitAll(ctx, request, request) // the request itself stays as it is
	if err != nil {
		t.Fatal(err)
	}
	each := c.SubmitEach(ctx, request, bad)
	for _, id := range []task.ID{all[0].ID, all[1].ID, each[0].Receipt.ID} {
		got, err := c.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if got.Type != "idle" || !maps.Equal(got.Headers, map[string]string{"traceparent": "00-1-2-01", "h": "of the task"}) {
			t.Errorf("of type %q with headers %v", got.Type, got.Headers)
		}
	}
	if err := each[1].Err; !errors.Is(err, why) || !errors.Is(err, client.ErrInvalid) {
		t.Errorf("a task that could not be decorated: %v", err)
	}
	if _, err := c.SubmitAll(ctx, request, bad); !errors.Is(err, why) {
		t.Errorf("tasks of which one could not be decorated: %v", err)
	}
	if got := n.count(t, "idle"); got != 3 {
		t.Errorf("%d tasks were added", got)
	}
}

// A version without SubmitStream is asked by unary requests.
func TestANodeWithoutSubmitStreamIsAskedByUnaryRequests(t *testing.T) {
	n := newTasks(t)
	api := server.NewAPI(server.APIConfig{Engine: n.engine, MaxRequest: maxRequest, Sources: n.sources, Slices: n.slices})
	var streams atomic.Int32
	old := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == taskenginev1connect.TaskServiceSubmitStreamProcedure {
			streams.Add(1)
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Grpc-Status", "12")
			return
		}
		api.ServeHTTP(w, r)
	})
	l, err := server.Listen(t.Context(), server.ListenConfig{Address: "127.0.0.1:0", Handler: old, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(t.Context())
	c := open(t, client.Options{}, l.Addr().String())
	defer c.Close()
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			if r, err := c.Submit(t.Context(), "idle", i); err != nil || !r.Created {
				t.Errorf("task %d: %v, %v", i, r, err)
			}
		})
	}
	all.Wait()
	if _, err := c.Submit(t.Context(), "", nil); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("without a type: %v", err)
	}
	if got := n.count(t, "idle"); got != 100 || streams.Load() != 1 {
		t.Errorf("there are %d tasks, and the stream was tried %d times", got, streams.Load())
	}
}

func TestAClientWithoutANodeEndsWithItsContext(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	c := open(t, client.Options{Timeout: 300 * time.Millisecond}, l.Addr().String(), "unix:"+t.TempDir()+"/none")
	if _, err := c.Submit(t.Context(), "idle", nil); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("submit: %v", err)
	}
	if _, err := c.Get(t.Context(), task.ID{1}); !errors.Is(err, client.ErrUnavailable) || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("get: %v", err)
	}
	waiting := make(chan error)
	go func() {
		_, err := c.Submit(t.Context(), "idle", nil)
		waiting <- err
	}()
	c.Close()
	if err := <-waiting; !errors.Is(err, client.ErrClosed) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("closing: %v", err)
	}
	if _, err := c.Submit(t.Context(), "idle", nil); !errors.Is(err, client.ErrClosed) {
		t.Errorf("after closing: %v", err)
	}
	for _, bad := range []string{"", "ftp://x", "http://user:secret@x", "a b:1", "unix:"} {
		_, err := client.Open([]string{bad}, client.Options{})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("the address %q: %v", bad, err)
		}
	}
	if _, err := client.Open(nil, client.Options{}); err == nil {
		t.Error("no address is accepted")
	}
}

func TestBytesAreSentAsTheyAreAndTextsAsJSON(t *testing.T) {
	c, _ := newClient(t)
	for want, payload := range map[string]any{"hello": []byte("hello"), "raw": client.Raw("raw"), `"text"`: "text"} {
		r, err := c.Submit(t.Context(), "echo", payload)
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		if err := c.Result(t.Context(), r.ID, &got); err != nil || string(got) != want {
			t.Errorf("the result of the payload %v is %q, %v", payload, got, err)
		}
	}
}
