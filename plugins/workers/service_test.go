package workers

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// answer to a first frame: the welcome, or the status.
func greet(t *testing.T, n *node, frame *wire.FromHandler) (*wire.Welcome, error) {
	t.Helper()
	conn, err := grpc.NewClient(n.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); conn.Close() })
	s, err := wire.NewWorkersClient(conn).Work(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(frame); err != nil {
		t.Fatal(err)
	}
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

func TestAWorkerThatIsNotWantedIsToldWhy(t *testing.T) {
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

func TestFramesWithoutSenseDoNoHarm(t *testing.T) {
	n := serve(t, Config{})
	conn, err := grpc.NewClient(n.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := wire.NewWorkersClient(conn).Work(ctx)
	if err != nil {
		t.Fatal(err)
	}
	first := offer(func(o *wire.Offer, h *wire.Hello) {
		o.Runs, h.Slots, o.Name = []uint64{1, 1, 0, 1 << 63}, 1<<31, "\x00"+strings.Repeat("n", 1<<16)
	})
	for _, frame := range []*wire.FromHandler{
		first,
		{},
		first,
		{Finishes: []*wire.Finish{{RunId: 7}, {}}, Credits: 1<<32 - 1},
		{Logs: []*wire.LogLine{{RunId: 9, Message: "\x01"}}, Progress: []*wire.Progress{{RunId: 9}}, Checkpoints: []*wire.Checkpoint{{}}},
		{Pong: 5, Credits: 1<<32 - 1},
	} {
		if err := s.Send(frame); err != nil {
			t.Fatal(err)
		}
	}
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
