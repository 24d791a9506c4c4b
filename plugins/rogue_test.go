package plugins

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

const (
	rogueSlots   = 100
	rogueCredits = 3
)

// rogue is a handler without an SDK that breaks the protocol as the payload says. It exits if it gets more runs than it
// gave credits for.
func rogue() {
	path := filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer()
	wire.RegisterHandlerServer(server, rogueServer{})
	fmt.Printf("1|1|unix|%s|grpc|\n", path)
	_ = server.Serve(l)
}

type rogueServer struct {
	wire.UnimplementedHandlerServer
}

func (rogueServer) Work(stream grpc.BidiStreamingServer[wire.ToHandler, wire.FromHandler]) error {
	defer os.Exit(0)
	if _, err := stream.Recv(); err != nil {
		return err
	}
	hello := &wire.Hello{Protocol: wire.Protocol, Types: []string{"rogue"}, Slots: rogueSlots}
	if err := stream.Send(&wire.FromHandler{Hello: hello, Credits: rogueCredits}); err != nil {
		return err
	}
	credits := rogueCredits
	for {
		frame, err := stream.Recv()
		if err != nil {
			return err
		}
		if credits -= len(frame.GetRuns()); credits < 0 {
			fmt.Fprintln(os.Stderr, "more runs than credits")
			os.Exit(42)
		}
		for _, run := range frame.GetRuns() {
			answer := rogueAnswer(run)
			answer.Credits = 1
			credits++
			if err := stream.Send(answer); err != nil {
				return err
			}
		}
	}
}

func rogueAnswer(run *wire.Run) *wire.FromHandler {
	good := &wire.Finish{RunId: run.GetRunId(), Outcome: &wire.Finish_Result{Result: []byte("good")}}
	switch string(run.GetPayload()) {
	case "twice":
		return &wire.FromHandler{Finishes: []*wire.Finish{good, good}}
	case "unknown run":
		return &wire.FromHandler{Finishes: []*wire.Finish{{RunId: 1 << 60}, {}, good}}
	case "no outcome":
		return &wire.FromHandler{Finishes: []*wire.Finish{{RunId: run.GetRunId()}}}
	case "children":
		good.Children = []*wire.Child{{Type: "child"}}
	case "negative delay":
		good.Outcome = &wire.Finish_Snooze{Snooze: &wire.Snooze{Delay: -1 << 63}}
	case "empty outcome":
		good.Outcome = &wire.Finish_Error{}
	case "the future":
		return &wire.FromHandler{
			Finishes: []*wire.Finish{good}, Pong: 77,
			Progress:    []*wire.Progress{{RunId: run.GetRunId(), Done: 1}},
			Checkpoints: []*wire.Checkpoint{{Data: []byte("x")}},
			Logs:        []*wire.LogLine{{RunId: run.GetRunId(), Level: 8, Message: "hello", Fields: map[string]string{"k": "v"}}, {}},
		}
	case "large":
		good.Outcome = &wire.Finish_Result{Result: make([]byte, 3<<20)}
	case "monstrous":
		good.Outcome = &wire.Finish_Result{Result: make([]byte, 30<<20)}
	case "exit":
		os.Exit(0)
	}
	return &wire.FromHandler{Finishes: []*wire.Finish{good}}
}

func TestRunsNeverExceedCredits(t *testing.T) {
	h := start(t, self(t, "rogue"))
	var wg sync.WaitGroup
	for range 500 {
		wg.Go(func() {
			if got := must(t, h, "rogue", ""); got != "good" {
				t.Errorf("got %q", got)
			}
		})
	}
	wg.Wait()
	if st := h.Status(); st.Starts != 1 || st.Slots != rogueSlots {
		t.Errorf("%+v", st)
	}
}

func TestAResultThatIsTooLargeDoesNotEndTheProcess(t *testing.T) {
	h := start(t, self(t, "rogue"))
	if n := len(must(t, h, "rogue", "large")); n != 3<<20 { // the engine refuses it
		t.Errorf("the result has %d bytes", n)
	}
	if st := h.Status(); st.Starts != 1 {
		t.Errorf("%d processes were started", st.Starts)
	}
}

func TestAnAnswerThatIsTooLargeToReceiveIsNoCrash(t *testing.T) {
	lines := script(t, `echo '1|1|stdio||json|'
while read -r frame; do case $frame in
*welcome*) echo '{"hello":{"protocol":1,"types":["rogue"],"slots":1},"credits":1}' ;;
*runs*) printf '{"finishes":[{"run_id":1,"result":"'; head -c 40000000 /dev/zero | tr '\0' A; echo '"}],"credits":1}' ;;
esac done`)
	for name, c := range map[string]Config{"gRPC": self(t, "rogue"), "lines": lines} {
		t.Run(name, func(t *testing.T) {
			v := task.VerdictOf(start(t, c).Handle(t.Context(), newTask("rogue", "monstrous")))
			if v.Outcome != task.Errored || !v.GiveUp || v.Class != "result_too_large" || !strings.Contains(v.Error, "max_result") {
				t.Errorf("got %+v", v)
			}
		})
	}
}

func TestStrangeAnswers(t *testing.T) {
	c := self(t, "rogue")
	h := start(t, c)
	for payload, check := range map[string]func(task.Verdict) bool{
		"twice":          func(v task.Verdict) bool { return string(v.Result) == "good" },
		"unknown run":    func(v task.Verdict) bool { return string(v.Result) == "good" },
		"the future":     func(v task.Verdict) bool { return string(v.Result) == "good" },
		"no outcome":     func(v task.Verdict) bool { return v.Outcome == task.Errored && strings.Contains(v.Error, "no outcome") },
		"children":       func(v task.Verdict) bool { return string(v.Result) == "good" && len(v.Rerun.Tasks) == 1 },
		"negative delay": func(v task.Verdict) bool { return v.Outcome == task.Snoozed && v.Delay == 0 },
		"empty outcome":  func(v task.Verdict) bool { return v.Outcome == task.Errored },
	} {
		t.Run(payload, func(t *testing.T) {
			if v := task.VerdictOf(h.Handle(t.Context(), newTask("rogue", payload))); !check(v) {
				t.Errorf("got %+v", v)
			}
		})
	}
	t.Run("an exit with status 0 is a crash all the same", func(t *testing.T) {
		if _, err := h.Handle(t.Context(), newTask("rogue", "exit")); !errors.Is(err, task.ErrCrashed) {
			t.Errorf("got %v", err)
		}
	})
}
