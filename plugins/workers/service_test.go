package workers

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// greet returns the answer to a first frame: the welcome, or the status.
func greet(t *testing.T, n *node, frame *wire.FromHandler) (*wire.Welcome, error) {
	t.Helper()
	s, _ := dial(t, n, frame)
	got, err := s.Recv()
	return got.GetWelcome(), err
}

// offer returns the first frame of a worker that is wanted.
func offer(change func(*wire.Offer, *wire.Hello)) *wire.FromHandler {
	f := &wire.FromHandler{
		Offer: &wire.Offer{Session: make([]byte, 16), Labels: map[string]string{"region": "eu", "disk": "fast"}, Name: "w"},
		Hello: &wire.Hello{Protocol: wire.Protocol, Types: append([]string{"other"}, types...), Slots: 5},
	}
	change(f.Offer, f.Hello)
	return f
}

func TestAWorkerGetsTheHandlerThatFits(t *testing.T) {
	n := serve(t,
		Config{Name: "mail", Labels: map[string]string{"region": "eu"}},
		Config{Name: "mail-us", Labels: map[string]string{"region": "us"}},
		Config{Name: "pdf", Types: []string{"pdf"}, Slots: 2})
	for name, change := range map[string]func(*wire.Offer, *wire.Hello){
		"mail":    func(*wire.Offer, *wire.Hello) {},
		"mail-us": func(o *wire.Offer, _ *wire.Hello) { o.Labels["region"] = "us" },
		"pdf": func(o *wire.Offer, h *wire.Hello) {
			h.Types = append(h.Types, "pdf")
			o.Handler = "pdf"
		},
	} {
		t.Run(name, func(t *testing.T) {
			welcome, err := greet(t, n, offer(change))
			if err != nil {
				t.Fatal(err)
			}
			slots := uint32(5)
			if name == "pdf" {
				slots = 2
			}
			if welcome.GetName() != name || welcome.GetSlots() != slots || welcome.GetResumed() {
				t.Errorf("the welcome is %v", welcome)
			}
		})
	}
}

func TestAWorkerThatIsNotWantedLearnsWhy(t *testing.T) {
	n := serve(t, Config{Name: "mail", Labels: map[string]string{"region": "eu"}}, Config{Name: "any"})
	for _, c := range []struct {
		name   string
		change func(*wire.Offer, *wire.Hello)
		code   codes.Code
		says   string
	}{
		{"two handlers fit", func(*wire.Offer, *wire.Hello) {}, codes.FailedPrecondition, "more than one handler (mail, any)"},
		{"another handler", func(o *wire.Offer, _ *wire.Hello) { o.Handler = "post" }, codes.NotFound, `no handler "post" with remote, only mail, any`},
		{"a type is missing", func(o *wire.Offer, h *wire.Hello) { o.Handler, h.Types = "mail", []string{"upper"} }, codes.FailedPrecondition, `has to serve the type "until"`},
		{"no type", func(_ *wire.Offer, h *wire.Hello) { h.Types = nil }, codes.FailedPrecondition, `has to serve the type "upper"`},
		{"another label", func(o *wire.Offer, _ *wire.Hello) { o.Handler, o.Labels["region"] = "mail", "us" }, codes.FailedPrecondition, `label region=eu, this one has "us"`},
		{"no slot", func(_ *wire.Offer, h *wire.Hello) { h.Slots = 0 }, codes.InvalidArgument, "no slot"},
		{"a short session", func(o *wire.Offer, _ *wire.Hello) { o.Session = o.Session[:15] }, codes.InvalidArgument, "15 bytes"},
		{"another protocol", func(_ *wire.Offer, h *wire.Hello) { h.Protocol = 2 }, codes.FailedPrecondition, "version 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := greet(t, n, offer(c.change))
			if status.Code(err) != c.code || !strings.Contains(status.Convert(err).Message(), c.says) {
				t.Errorf("the answer is %v, want %v with %q", err, c.code, c.says)
			}
		})
	}
	for name, frame := range map[string]*wire.FromHandler{
		"an empty frame": {}, "a hello alone": {Hello: &wire.Hello{}}, "an offer alone": {Offer: &wire.Offer{}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := greet(t, n, frame); status.Code(err) != codes.InvalidArgument {
				t.Errorf("the answer is %v", err)
			}
		})
	}
	if st := n.Status(); st.Workers != 0 {
		t.Errorf("the state is %+v", st)
	}
}

// dial opens a stream to a node and sends frames.
func dial(t *testing.T, n *node, frames ...*wire.FromHandler) (wire.Workers_WorkClient, context.CancelFunc) {
	t.Helper()
	conn, err := grpc.NewClient(n.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), long)
	t.Cleanup(func() { cancel(); conn.Close() })
	s, err := wire.NewWorkersClient(conn).Work(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range frames {
		if err := s.Send(f); err != nil {
			t.Fatal(err)
		}
	}
	return s, cancel
}

func TestAWorkerLearnsHowManyAnswersHaveArrived(t *testing.T) {
	n := serve(t, Config{Reconnect: time.Hour, Liveness: time.Hour})
	hello := func(runs ...uint64) *wire.FromHandler {
		return offer(func(o *wire.Offer, h *wire.Hello) { h.Slots, o.Runs = 200, runs })
	}
	s, cut := dial(t, n, hello(), &wire.FromHandler{Credits: 200})
	n.up(t, 1)
	const tasks = 2 * acknowledgeEvery // however many were acknowledged with other frames, as many follow
	outs := make([]<-chan ran, tasks)
	for i := range outs {
		outs[i] = n.run(t.Context(), newTask("noop", ""))
	}
	last, answered, received := uint64(0), 0, uint64(0)
	for received < acknowledgeEvery || answered < tasks {
		frame, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		received = max(received, frame.GetReceived())
		for _, run := range frame.GetRuns() {
			if answered++; answered == tasks {
				last = run.GetRunId() // is not answered
				break
			}
			finish := &wire.Finish{RunId: run.GetRunId(), Outcome: &wire.Finish_Result{}}
			if err := s.Send(&wire.FromHandler{Finishes: []*wire.Finish{finish}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, "the answers have arrived", func() bool { return n.Status().Running == 1 })
	cut()
	n.up(t, 0)
	again, _ := dial(t, n, hello(last))
	frame, err := again.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if w := frame.GetWelcome(); !w.GetResumed() || w.GetReceived() != tasks-1 || !slices.Equal(w.GetRuns(), []uint64{last}) {
		t.Errorf("the welcome is %v, want one with %d answers and the run %d", w, tasks-1, last)
	}
}

func TestANodeThatStopsTellsItsWorkersToConnectAgain(t *testing.T) {
	n := serve(t, Config{})
	s, _ := dial(t, n, offer(func(*wire.Offer, *wire.Hello) {}), &wire.FromHandler{Credits: 5})
	n.up(t, 1)
	if err := n.Close(t.Context()); err != nil {
		t.Error(err)
	}
	drains := 0
	for {
		frame, err := s.Recv()
		if err == nil {
			if frame.GetDrain() != nil {
				drains++
			}
			continue
		}
		if status.Code(err) != codes.Unavailable || drains != 1 {
			t.Errorf("the stream ended with %v after %d drains", err, drains)
		}
		break
	}
	if _, err := greet(t, n, offer(func(*wire.Offer, *wire.Hello) {})); status.Code(err) != codes.Unavailable {
		t.Errorf("a worker that connects then gets %v", err)
	}
}

func TestADrainThatIsLostOnTheWayIsSentAgain(t *testing.T) {
	n := serve(t, Config{Reconnect: time.Hour, Liveness: time.Hour})
	s, cut := dial(t, n, offer(func(*wire.Offer, *wire.Hello) {}), &wire.FromHandler{Credits: 5})
	n.up(t, 1)
	out := n.run(t.Context(), newTask("noop", ""))
	run := uint64(0)
	for drained := false; !drained; {
		frame, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if runs := frame.GetRuns(); len(runs) > 0 {
			run = runs[0].GetRunId()
			n.mu.Lock()
			n.beginDrain(n.dispatch.Sessions()[0].Owner)
			n.mu.Unlock()
		}
		drained = frame.GetDrain() != nil
	}
	cut()
	eventually(t, "the connection is gone", func() bool { n.mu.Lock(); defer n.mu.Unlock(); return !n.dispatch.Sessions()[0].Connected() })
	again, _ := dial(t, n, offer(func(o *wire.Offer, _ *wire.Hello) { o.Runs = []uint64{run} }))
	for {
		frame, err := again.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if frame.GetDrain() != nil {
			break
		}
	}
	if err := again.Send(&wire.FromHandler{Finishes: []*wire.Finish{{RunId: run, Outcome: &wire.Finish_Result{}}}}); err != nil {
		t.Fatal(err)
	}
	if r := after(t, out); r.err != nil {
		t.Error(r.err)
	}
}

func TestFramesWithoutSenseDoNoHarm(t *testing.T) {
	n := serve(t, Config{})
	first := offer(func(o *wire.Offer, h *wire.Hello) {
		o.Runs, h.Slots, o.Name = []uint64{1, 1, 0, 1 << 63}, 1<<31, "\x00"+strings.Repeat("n", 1<<16)
	})
	s, _ := dial(t, n, []*wire.FromHandler{
		first,
		{},
		first,
		{Finishes: []*wire.Finish{{RunId: 7}, {}}, Credits: 1<<32 - 1},
		{Logs: []*wire.LogLine{{RunId: 9, Message: "\x01"}}, Progress: []*wire.Progress{{RunId: 9}}, Checkpoints: []*wire.Checkpoint{{}}},
		{Pong: 5, Credits: 1<<32 - 1},
	}...)
	n.up(t, 1)
	out := n.run(t.Context(), newTask("upper", "a"))
	for {
		frame, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range frame.GetRuns() {
			answer := &wire.Finish{RunId: run.GetRunId(), Outcome: &wire.Finish_Result{Result: []byte("A")}}
			if err := s.Send(&wire.FromHandler{Finishes: []*wire.Finish{answer, answer}}); err != nil {
				t.Fatal(err)
			}
			if r := after(t, out); string(r.value) != "A" || r.err != nil {
				t.Errorf("the task ended with %q and %v", r.value, r.err)
			}
			return
		}
	}
}
