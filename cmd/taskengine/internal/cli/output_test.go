package cli

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/config"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func TestDurationsHaveUnits(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1.5h": 90 * time.Minute, "2d": 48 * time.Hour, "1d12h": 36 * time.Hour,
		"0.5d": 12 * time.Hour, "0s": 0, "250ms": 250 * time.Millisecond, "1d1m1s": 24*time.Hour + 61*time.Second,
	} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%s is %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "5", "0", "-1s", "-1d", "1d-1h", "d", "1dd", "1h1d", "NaNd", "1e9d", "tomorrow", "99999d9999999h", strings.Repeat("9", 400) + "d"} {
		if got, err := parseDuration(text); err == nil || !strings.Contains(err.Error(), "such as") {
			t.Errorf("%.20q is %v, %v", text, got, err)
		}
	}
}

func TestAnyTextIsADurationThatIsNotNegativeOrNone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[0-9.]{0,5}d?[0-9.hmsd-]{0,8}`).Draw(t, "text")
		if d, err := parseDuration(text); err == nil && d < 0 {
			t.Fatalf("%q is %v", text, d)
		}
	})
}

func TestNothingATerminalObeysIsShown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := clean(rapid.String().Draw(t, "text"))
		if strings.ContainsFunc(s, unicode.IsControl) {
			t.Fatalf("%q has control characters", s)
		}
	})
}

func TestNothingInTheNodesLogIsObeyedByATerminal(t *testing.T) {
	hostile := "\x1b]0;title\x07\u009b2J\u202e \\x1b[2J"
	for name, c := range map[string]struct {
		format config.LogFormat
		tty    bool
	}{
		"text":   {config.LogText, false},
		"colour": {config.LogText, true},
		"json":   {config.LogJSON, false},
	} {
		var out strings.Builder
		a := &app{stderr: &out, errTTY: c.tty, env: func(string) (string, bool) { return "", false }}
		a.newLog(config.Log{Format: c.format}).Error(hostile, hostile, hostile, "error", errors.New(hostile))
		for _, obeyed := range []string{"\x1b]", "\x07", "\x1b[2J", "\u009b", "\u202e"} {
			if strings.Contains(out.String(), obeyed) {
				t.Errorf("%s: %q is in the line %q", name, obeyed, out.String())
			}
		}
	}
}

func TestATombstoneIsShownAsOne(t *testing.T) {
	for name, c := range map[string]struct {
		task *taskenginev1.Task
		want string // the line of the result
	}{
		"tombstone":    {&taskenginev1.Task{State: "done", Key: "k", Tombstone: true}, "result         removed, as the payload: the task is a tombstone, which only remembers its key"},
		"empty result": {&taskenginev1.Task{State: "done", Key: "k"}, ""},
		"result":       {&taskenginev1.Task{State: "done", Key: "k", Result: []byte("42")}, "result         42"},
	} {
		var out strings.Builder
		if err := (&app{stdout: &out}).showTask(c.task); err != nil {
			t.Fatal(err)
		}
		got := ""
		for line := range strings.Lines(out.String()) {
			if strings.HasPrefix(line, "result") {
				got = strings.TrimSpace(line)
			}
		}
		if got != c.want {
			t.Errorf("%s: the line is %q, want %q", name, got, c.want)
		}
	}
}

func TestWhatIsNotDoneHasItsExitCode(t *testing.T) {
	task := func(state string) *taskenginev1.Task { return &taskenginev1.Task{Id: state, State: state} }
	for name, c := range map[string]struct {
		res  *taskenginev1.WaitResponse
		code int
	}{
		"all done":           {&taskenginev1.WaitResponse{Settled: true, Tasks: []*taskenginev1.Task{task("done"), task("done")}}, 0},
		"a type":             {&taskenginev1.WaitResponse{Settled: true}, 0},
		"one in error":       {&taskenginev1.WaitResponse{Settled: true, Tasks: []*taskenginev1.Task{task("done"), task("error")}}, 1},
		"one cancelled":      {&taskenginev1.WaitResponse{Settled: true, Tasks: []*taskenginev1.Task{task("cancelled")}}, 1},
		"one gone":           {&taskenginev1.WaitResponse{Settled: true, Tasks: []*taskenginev1.Task{task("done")}, Missing: []string{"m"}}, 4},
		"error before gone":  {&taskenginev1.WaitResponse{Settled: true, Tasks: []*taskenginev1.Task{task("failed")}, Missing: []string{"m"}}, 1},
		"time over":          {&taskenginev1.WaitResponse{Tasks: []*taskenginev1.Task{task("processing"), task("error")}}, 7},
		"time over, by type": {&taskenginev1.WaitResponse{}, 7},
		"ended meanwhile":    {&taskenginev1.WaitResponse{Tasks: []*taskenginev1.Task{task("done")}}, 7},
	} {
		if got := exit.Code(settlement(c.res)); got != c.code {
			t.Errorf("%s: the exit code is %d, want %d", name, got, c.code)
		}
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add(`{"type":"a","data":{"x":1},"in":"1d","at":null,"priority":3,"headers":{"a":"b"}}`)
	f.Add(`{"payload_base64":"AP8=","expires_at":"2099-01-01T00:00:00Z"}`)
	f.Add(`{"type":"a","data":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		task, err := parseLine([]byte(text), "fallback")
		if err != nil {
			return
		}
		if task.GetType() == "" {
			t.Errorf("%q has no type", text)
		}
		if task.GetIn() != nil && task.GetIn().AsDuration() < 0 {
			t.Errorf("%q is to run %v from now", text, task.GetIn().AsDuration())
		}
	})
}
