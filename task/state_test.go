package task_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/task"
)

func TestEveryStateHasANameThatIsReadBack(t *testing.T) {
	seen := map[string]bool{}
	for i, s := range task.States() {
		if int(s) != i+1 {
			t.Errorf("%v has the number %d at place %d; the numbers are stored", s, s, i+1)
		}
		if got, ok := task.ParseState(s.String()); !ok || got != s || seen[s.String()] {
			t.Errorf("%v was read back as %v", s, got)
		}
		seen[s.String()] = true
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var got task.State
		if err := json.Unmarshal(text, &got); err != nil || got != s {
			t.Errorf("%s was read back as %v, %v", text, got, err)
		}
		if !s.Valid() {
			t.Errorf("%v is not valid", s)
		}
	}
}

func TestStateNumbersAreWhatStoresHold(t *testing.T) {
	want := map[task.State]uint8{
		task.Waiting: 1, task.Submitted: 2, task.Processing: 3, task.Done: 4,
		task.Error: 5, task.Failed: 6, task.Cancelled: 7,
	}
	for s, n := range want {
		if uint8(s) != n {
			t.Errorf("%v is stored as %d, was %d", s, uint8(s), n)
		}
	}
	for o, n := range map[task.Outcome]uint8{
		task.Completed: 0, task.Errored: 1, task.Crashed: 2, task.TimedOut: 3,
		task.Snoozed: 4, task.HandedBack: 5, task.Overruled: 6, task.Interrupted: 7,
	} {
		if uint8(o) != n {
			t.Errorf("%v is stored as %d, was %d", o, uint8(o), n)
		}
	}
}

func TestWhatIsNoStateIsRefused(t *testing.T) {
	for _, name := range []string{"", "Done", "done ", "state(9)", "submit"} {
		if s, ok := task.ParseState(name); ok || s.Valid() {
			t.Errorf("ParseState(%q) returned %v, %v", name, s, ok)
		}
		s := task.Done
		err := s.UnmarshalText([]byte(name))
		if err == nil || s != task.Done {
			t.Errorf("UnmarshalText(%q) returned %v and made %v", name, err, s)
		} else if !strings.Contains(err.Error(), "waiting submitted") {
			t.Errorf("%q does not name the states", err)
		}
	}
	for _, s := range []task.State{0, 8, 255} {
		if s.Valid() || s.Live() || !strings.HasPrefix(s.String(), "state(") {
			t.Errorf("state %d passes for one: %v", uint8(s), s)
		}
		if text, err := s.MarshalText(); err == nil {
			t.Errorf("state %d became %q", uint8(s), text)
		}
		for _, next := range task.States() {
			if s.CanBecome(next) || next.CanBecome(s) {
				t.Errorf("state %d and %v can follow each other", uint8(s), next)
			}
		}
	}
}

func TestLiveStatesAreThoseTheEngineWorksOn(t *testing.T) {
	for _, s := range task.States() {
		want := s == task.Waiting || s == task.Submitted || s == task.Processing
		if s.Live() != want {
			t.Errorf("%v.Live() is %v", s, s.Live())
		}
	}
}

func TestAnOutcomeHasAName(t *testing.T) {
	seen := map[string]bool{}
	for o := task.Completed; o <= task.Edited; o++ {
		if name := o.String(); name == "" || strings.Contains(name, "(") || seen[name] {
			t.Errorf("outcome %d is called %q", uint8(o), name)
		}
		seen[o.String()] = true
	}
	if got := task.Outcome(200).String(); got != "outcome(200)" {
		t.Errorf("an unknown outcome is called %q", got)
	}
}

// edge is a transition in docs/states.md.
type edge struct{ from, to string }

func TestTheTableInTheDocumentIsTheOneInTheCode(t *testing.T) {
	shown := documentedTable(t)
	for _, from := range task.States() {
		for _, to := range task.States() {
			allowed, ok := shown[edge{from.String(), to.String()}]
			if !ok {
				t.Errorf("docs/states.md has no cell for %v to %v", from, to)
			}
			if allowed != from.CanBecome(to) {
				t.Errorf("docs/states.md says %v for %v to %v, CanBecome says %v", allowed, from, to, from.CanBecome(to))
			}
		}
	}
	if n := len(task.States()); len(shown) != n*n {
		t.Errorf("docs/states.md has %d cells, want %d", len(shown), n*n)
	}
}

func TestTheDiagramInTheDocumentIsTheTableInTheCode(t *testing.T) {
	arrow := regexp.MustCompile(`(?m)^\s+(\w+) --> (\w+): .+$`)
	drawn := map[edge]bool{}
	for _, m := range arrow.FindAllStringSubmatch(document(t), -1) {
		drawn[edge{m[1], m[2]}] = true
	}
	for _, from := range task.States() {
		for _, to := range task.States() {
			e := edge{from.String(), to.String()}
			if drawn[e] != from.CanBecome(to) {
				t.Errorf("the arrow from %v to %v is drawn: %v, CanBecome: %v", from, to, drawn[e], from.CanBecome(to))
			}
			delete(drawn, e)
		}
	}
	for e := range drawn {
		t.Errorf("the arrow from %s to %s is between no states", e.from, e.to)
	}
}

func document(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/states.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// documentedTable reads the cells of the table with the first heading "from \ to".
func documentedTable(t *testing.T) map[edge]bool {
	t.Helper()
	cells := func(line string) []string {
		var out []string
		for _, c := range strings.Split(strings.Trim(line, "| "), "|") {
			out = append(out, strings.Trim(c, " `"))
		}
		return out
	}
	lines := strings.Split(document(t), "\n")
	start := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, `| from \ to`) })
	if start < 0 {
		t.Fatal("docs/states.md has no table of transitions")
	}
	columns := cells(lines[start])
	shown := map[edge]bool{}
	for _, line := range lines[start+2:] {
		if !strings.HasPrefix(line, "|") {
			break
		}
		row := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|"), "|")
		if len(row) != len(columns) {
			t.Fatalf("%q has %d cells, want %d", line, len(row), len(columns))
		}
		from := strings.Trim(row[0], " `")
		for i, cell := range row[1:] {
			switch strings.TrimSpace(cell) {
			case "x":
				shown[edge{from, columns[i+1]}] = true
			case "":
				shown[edge{from, columns[i+1]}] = false
			default:
				t.Errorf("%q in %q is neither x nor empty", cell, line)
			}
		}
	}
	return shown
}
