package bench

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/engine/policy"
)

// Scenario is a load, what it is put on, and what is to hold. It is read from YAML by
// [Parse]; docs/benchmarks.md says what every key means. Its JSON is the "config" of a
// result; durations in it are nanoseconds.
type Scenario struct {
	Name      string            `json:"name"`
	Purpose   string            `json:"purpose"` // the question that it answers
	Load      Load              `json:"load"`
	WarmUp    time.Duration     `json:"warm_up"`
	Duration  time.Duration     `json:"duration,omitempty"` // of the load after the warm-up; 0 if the load ends by itself
	Runs      int               `json:"runs"`
	Slots     int               `json:"slots"`               // of the node; 0 is without limit
	Objective *result.Objective `json:"objective,omitempty"` // of all tasks together
	Tasks     []Flow            `json:"tasks"`
	Limits    []Limit           `json:"limits,omitempty"`
	Backlog   Backlog           `json:"backlog,omitzero"`
	Faults    Faults            `json:"faults,omitzero"`
	Ordered   bool              `json:"ordered,omitempty"` // tasks of one key have to start in the order of their submits

	files fs.FS // where the trace is
}

// Shape is how submits are spread over time.
type Shape string

// The shapes. All but Closed and Idle are open: tasks come whether or not the engine
// keeps up.
const (
	Constant Shape = "constant" // one after the other, evenly
	Poisson  Shape = "poisson"  // independently of each other
	Bursts   Shape = "bursts"   // many at once, again and again
	Replay   Shape = "replay"   // as a trace says
	Closed   Shape = "closed"   // as soon as others have ended: the most that goes
	Idle     Shape = "idle"     // none at all
)

// Load is when tasks are submitted.
type Load struct {
	Shape    Shape         `json:"shape"`
	Rates    []float64     `json:"rates,omitempty"`     // Constant, Poisson: tasks/s; each is measured by itself
	Burst    int           `json:"burst,omitempty"`     // Bursts: tasks at once
	Every    time.Duration `json:"every,omitempty"`     // Bursts: from one to the next
	Trace    string        `json:"trace,omitempty"`     // Replay: the file
	InFlight int           `json:"in_flight,omitempty"` // Closed: tasks submitted and not ended
	Tasks    int           `json:"tasks,omitempty"`     // how many in all; 0 is as many as Duration allows
	Batch    int           `json:"batch"`               // tasks in one submit
	Seed     uint64        `json:"seed"`
}

// Open reports whether tasks come whether or not the engine keeps up.
func (l Load) Open() bool { return l.Shape != Closed && l.Shape != Idle }

// Flow is one kind of tasks within a load.
type Flow struct {
	Name        string            `json:"name"`                // of the type; types are numbered if they are many
	Share       float64           `json:"share"`               // of the load, relative to the other flows
	Types       int               `json:"types"`               // how many types, chosen evenly
	Payload     int               `json:"payload"`             // bytes
	Keys        int               `json:"keys"`                // ordering keys; 0 is none
	Zipf        float64           `json:"zipf"`                // how unevenly keys are chosen, more than 1; 0 is evenly
	Priority    uint8             `json:"priority"`            // see policy.Type
	Tenant      string            `json:"tenant"`              // the header "tenant"; "" is none
	Handler     Work              `json:"handler"`             // what the tasks do
	Weight      int               `json:"weight"`              // see policy.Type
	Concurrency int               `json:"concurrency"`         // of each type; 0 is without limit
	Limits      []string          `json:"limits"`              // see policy.Type
	AtMostOnce  bool              `json:"at_most_once"`        // see policy.Type
	Relaxed     bool              `json:"relaxed"`             // see policy.Type
	After       time.Duration     `json:"after"`               // not before this long after the start of the load; 0 is at once
	Within      time.Duration     `json:"within"`              // spread evenly over so long
	Apart       bool              `json:"apart"`               // has a result of its own beside that of all
	Objective   *result.Objective `json:"objective,omitempty"` // of that result
}

// Delayed reports whether the tasks have a time of their own.
func (f *Flow) Delayed() bool { return f.After > 0 }

// Kind is what kind of handler runs a task.
type Kind string

// The kinds.
const (
	Noop   Kind = "noop"   // returns at once
	Sleep  Kind = "sleep"  // sleeps for a time
	Spin   Kind = "spin"   // computes what takes one idle core a time
	Exec   Kind = "exec"   // starts a command
	Go     Kind = "go"     // a plugin written in Go, that returns at once
	Python Kind = "python" // a plugin written in Python, that returns at once
	Plugin Kind = "plugin" // any program that serves the type named like the flow
)

// Work is what a task does.
type Work struct {
	Kind    Kind          `json:"kind"`
	Time    time.Duration `json:"time,omitempty"`    // Sleep, Spin
	Command []string      `json:"command,omitempty"` // Exec, Plugin
}

func (w Work) plugin() bool { return w.Kind == Go || w.Kind == Python || w.Kind == Plugin }

// Limit is a limit of the node; see policy.Limit.
type Limit struct {
	Name string      `json:"name"`
	Max  int         `json:"max,omitempty"` // 0 is without limit
	Rate policy.Rate `json:"rate,omitzero"`
	Of   string      `json:"of,omitempty"`
	Per  string      `json:"per,omitempty"` // PerKey, PerTenant or ""
}

// What a limit may be for each of.
const (
	PerKey    = "ordering_key"
	PerTenant = "headers.tenant"
)

// Backlog is what is in the store before the load begins, and stays there.
type Backlog struct {
	Tasks   int  `json:"tasks"`
	Payload int  `json:"payload"` // bytes
	Delayed bool `json:"delayed"` // due in a year; otherwise ready, of a paused type
}

// Faults are what goes wrong on purpose.
type Faults struct {
	KillPlugin  time.Duration `json:"kill_plugin,omitempty"`  // kill -9 of the plugin so often
	KillNode    time.Duration `json:"kill_node,omitempty"`    // kill -9 of the whole process so often
	SlowCommits time.Duration `json:"slow_commits,omitempty"` // every commit takes so much longer
}

// clone returns a copy that a run may complete.
func (s *Scenario) clone() *Scenario {
	c := *s
	c.Tasks = slices.Clone(s.Tasks)
	return &c
}

//go:embed scenarios
var embedded embed.FS

const scenarios = "scenarios"

// ErrNoScenario says that no scenario that comes with the program has a name.
var ErrNoScenario = errors.New("there is no scenario")

// Builtin returns the names of the scenarios that come with the program, sorted.
func Builtin() []string {
	entries, err := embedded.ReadDir(scenarios)
	if err != nil {
		return nil // the folder is embedded, or this would not compile
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".yaml"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Source returns the text of a scenario that comes with the program, to be copied.
func Source(name string) ([]byte, error) {
	text, err := embedded.ReadFile(path.Join(scenarios, name+".yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w called %.40q; name one of %s, or a file with a slash or .yaml", ErrNoScenario, name, strings.Join(Builtin(), ", "))
	}
	return text, err
}

// maxFile is how large a scenario may be.
const maxFile = 1 << 20

// LoadScenario reads a scenario: one that comes with the program by its name, or a file if the
// name ends in .yaml or .yml or has a slash. Sets change it as in [Parse].
func LoadScenario(name string, sets ...string) (*Scenario, error) {
	if ext := filepath.Ext(name); ext != ".yaml" && ext != ".yml" && !strings.ContainsAny(name, `/\`) {
		text, err := Source(name)
		if err != nil {
			return nil, err
		}
		s, err := Parse(name+".yaml", text, sets...)
		if err != nil {
			return nil, err
		}
		s.files, err = fs.Sub(embedded, scenarios)
		return s, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read the scenario: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the scenario: %w", err)
	}
	s, err := Parse(name, text, sets...)
	if err != nil {
		return nil, err
	}
	s.files = os.DirFS(filepath.Dir(name))
	return s, nil
}
