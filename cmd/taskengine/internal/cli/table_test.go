package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/rivo/uniseg"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// onTerminal returns an app with a terminal of a width as its standard output, and the output.
func onTerminal(width int, env ...string) (*app, *bytes.Buffer) {
	var out bytes.Buffer
	return &app{stdout: &out, outTTY: true, width: func() int { return width }, env: func(name string) (string, bool) {
		for _, v := range env {
			if value, ok := strings.CutPrefix(v, name+"="); ok {
				return value, true
			}
		}
		return "", false
	}}, &out
}

const anID = "0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69"

func manyTasks() []*taskenginev1.Task {
	return []*taskenginev1.Task{
		{Id: anID, Type: "a.type.with.a.long.name", State: "error", Error: strings.Repeat("no route to host ", 20), CreatedAt: timestamppb.Now()},
		{Id: anID, Type: "mail", State: "done", Error: "日本語のエラー\x1b[2J日本語のエラー日本語のエラー"},
	}
}

func TestATableIsAsWideAsItsTerminalAndShortensIDs(t *testing.T) {
	for _, width := range []int{80, 100, 132, 500} {
		a, out := onTerminal(width, "NO_COLOR=1")
		if err := a.showTasks(manyTasks()...); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if got := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); got > width {
				t.Errorf("at %d columns a line has %d: %s", width, got, line)
			}
		}
		id := anID[:shortIDs[0]]
		if width == 500 {
			id = anID
		}
		if strings.Count(out.String(), id+"  ") != 2 || strings.Contains(out.String(), "\x1b") {
			t.Errorf("at %d columns the table is\n%s", width, out)
		}
		if cutOff := strings.Contains(out.String(), "…"); cutOff != (width < 500) {
			t.Errorf("at %d columns the table is\n%s", width, out)
		}
	}
}

func TestColumnsWithoutAValueAreLeftOutBeforeOthers(t *testing.T) {
	a, out := onTerminal(40, "NO_COLOR=1")
	head, rows := []string{"NAME", "EMPTY", "SPARE", "SINCE", "LATER"}, [][]string{{"a name that is long", "", "12345678", "12345678", "12345678"}}
	if err := a.printTable(head, rows, "SPARE"); err != nil {
		t.Fatal(err)
	}
	if want := "NAME        SPARE     SINCE     LATER\n"; !strings.HasPrefix(strings.ReplaceAll(out.String(), " ", ""), strings.ReplaceAll(want, " ", "")) {
		t.Errorf("the table is\n%s", out)
	}
	if head[1] != "EMPTY" || rows[0][2] != "12345678" {
		t.Error("the caller's rows have changed")
	}
}

func TestStatesHaveColoursOnATerminalAlone(t *testing.T) {
	now := &taskenginev1.WhyResponse{Task: &taskenginev1.Task{Id: anID, State: "error"}}
	for name, c := range map[string]struct {
		env      []string
		tty      bool
		coloured bool
	}{
		"a terminal":               {nil, true, true},
		"a file":                   {nil, false, false},
		"NO_COLOR":                 {[]string{"NO_COLOR=1"}, true, false},
		"an empty NO_COLOR":        {[]string{"NO_COLOR="}, true, true},
		"a terminal that has none": {[]string{"TERM=dumb"}, true, false},
	} {
		a, out := onTerminal(120, c.env...)
		a.outTTY = c.tty
		if err := a.showTasks(manyTasks()...); err != nil {
			t.Fatal(err)
		}
		if err := a.showTask(manyTasks()[0]); err != nil {
			t.Fatal(err)
		}
		out.WriteString(a.whyText(now, time.Now()))
		want := 0
		if c.coloured {
			want = 3
		}
		if got := strings.Count(out.String(), "\x1b[31;1merror\x1b[0m"); got != want {
			t.Errorf("%s: %d states in error are red, want %d:\n%s", name, got, want, out)
		}
	}
}

func TestNoTableIsTornOrObeyed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(1, 200).Draw(t, "width")
		rows := rapid.SliceOfN(rapid.SliceOfN(rapid.String(), 3, 3), 0, 5).Draw(t, "rows")
		a, out := onTerminal(width, "NO_COLOR=1")
		if err := a.printTable([]string{"ID", "STATE", "ERROR"}, rows); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(out.String(), "\n")
		if len(lines) != len(rows)+2 {
			t.Fatalf("%d rows are %d lines", len(rows), len(lines)-2)
		}
		for _, line := range lines {
			if strings.ContainsFunc(line, unicode.IsControl) {
				t.Fatalf("%q has control characters", line)
			}
		}
	})
}

func TestATerminalShowsWhatACommandWaitsFor(t *testing.T) {
	var errs bytes.Buffer
	a := &app{stderr: &errs}
	if a.patient() != nil {
		t.Error("a script gets a line about the wait")
	}
	a.errTTY = true
	w := waiter{req: &taskenginev1.WaitRequest{Ids: []string{anID}}, say: a.patient()}
	begin := time.Now().Add(-time.Minute)
	w.printProgress(begin, nil)
	w.printProgress(begin, &taskenginev1.WaitResponse{Tasks: []*taskenginev1.Task{{Id: anID, State: "processing", UpdatedAt: timestamppb.New(begin)}}})
	w.req = &taskenginev1.WaitRequest{Type: "mail"}
	w.printProgress(begin, nil)
	for _, want := range []string{"waiting for task " + anID + " to end", "still waiting after 1m", anID + " is processing for 1m", "waiting for all tasks of type mail"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("it does not say %q but\n%s", want, errs.String())
		}
	}
}

func TestNoErrorTellsThePasswordOfAURL(t *testing.T) {
	for _, args := range [][]string{
		{"doctor", "https://u:hunter2@example.com/x"},
		{"copy", "--from", "mysql://u:hunter2@h/db?password=hunter2", "--to", "bolt:x"},
		{"task", "list", "--address", "ftp://u:hunter2@h"},
		{"migrate", "plan", "--url", "postgres://u:hunter2@127.0.0.1:1/db?connect_timeout=1"},
		{"task", "list", "--address", "http://u:hunter2@127.0.0.1:1"},
	} {
		if code, said := called(t, args...); code == exit.OK || strings.Contains(said, "hunter2") {
			t.Errorf("%q ends with %d: %s", args, code, said)
		}
	}
}

func TestNoErrorOrNoteIsObeyedByATerminal(t *testing.T) {
	for _, tty := range []bool{false, true} {
		var errs bytes.Buffer
		a := &app{stderr: &errs, errTTY: tty}
		a.note("type %s is\nwhat a client named it", "a\x1b]0;title\a")
		a.complain(exit.Errorf(exit.Failure, "the handler said %s", "\x1b[2J\u202e"))
		if strings.ContainsAny(errs.String(), "\x1b\a\u202e") || strings.Count(errs.String(), "\n") != 3 {
			t.Errorf("it wrote %q", errs.String())
		}
	}
}

func TestJSONOnATerminalHasTheSameValueAndIsNotObeyed(t *testing.T) {
	const text = "\u009b2J \u202e \x7f \x1b[2J <b> 日本"
	for _, tty := range []bool{false, true} {
		a, out := onTerminal(80)
		a.outTTY = tty
		if err := a.printJSON(map[string]string{"text": text}); err != nil {
			t.Fatal(err)
		}
		var got map[string]string
		if err := json.Unmarshal(out.Bytes(), &got); err != nil || got["text"] != text {
			t.Errorf("it is read back as %q, %v", got["text"], err)
		}
		if tty && strings.ContainsAny(out.String(), "\u009b\u202e\x7f\x1b") {
			t.Errorf("a terminal gets %q", out)
		}
	}
}

func TestTheHistoryOfATaskIsOneLineForEachThingThatItWaitedFor(t *testing.T) {
	since := time.Date(2026, 11, 29, 1, 0, 0, 0, time.UTC)
	text := historyText(&taskenginev1.WhyResponse{Node: "n1", NotedSince: timestamppb.New(since), Waits: []*taskenginev1.Wait{
		{Code: "paused", Text: "type x was paused\x1b", Total: durationpb.New(90 * time.Second)},
		{Code: "limit", Text: "limit l had no room", Total: durationpb.New(time.Hour)},
	}})
	want := "history, by the notes of node n1 since 2026-11-29T01:00:00Z:\n" +
		"  paused      1m30s     type x was paused\\x1b\n" +
		"  limit       1h0m      limit l had no room\n"
	if text != want {
		t.Errorf("%q, want %q", text, want)
	}
}
