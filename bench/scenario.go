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
	"github.com/taskengine/taskengine/policy"
)

// Scenario describes a load, the node, and the conditions to check. [Parse] reads it from YAML;
// docs/benchmarks.md documents every key. Its JSON is the "config" of a result, with durations in
// nanoseconds.
type Scenario struct {
	Name      string            `json:"name"`
	Purpose   string            `json:"purpose"` // the question that it answers
	Load      Load              `json:"load"`
	WarmUp    time.Duration     `json:"warm_up"`
	Duration  time.Duration     `json:"duration,omitempty"` // of the load after the warm-up; 0 if the load has a number of tasks
	Runs      int               `json:"runs"`
	Slots     int               `json:"slots"`               // of the node; 0 is without limit
	Objective *result.Objective `json:"objective,omitempty"` // of all tasks together
	Tasks     []Flow            `json:"tasks"`
	Limits    []Limit           `json:"limits,omitempty"`
	Backlog   Backlog           `json:"backlog,omitzero"`
	Faults    Faults            `json:"faults,omitzero"`
	Ordered   bool              `json:"ordered,omitempty"` // tasks of one key must start in the order of their submits

	files fs.FS // has the trace
}

// Shape is the distribution of submits over time.
type Shape string

// The shapes. All but Closed and Idle are open: tasks come whether or not the engine keeps up.
const (
	Constant Shape = "constant" // at even intervals
	Poisson  Shape = "poisson"  // independently of each other
	Bursts   Shape = "bursts"   // many at once, at intervals
	Replay   Shape = "replay"   // according to a trace
	Closed   Shape = "closed"   // as soon as earlier tasks have ended: the maximum rate
	Idle     Shape = "idle"     // no tasks
)

// Load describes when tasks are submitted.
type Load struct {
	Shape    Shape         `json:"shape"`
	Rates    []float64     `json:"rates,omitempty"`     // Constant, Poisson: tasks/s; each rate is measured separately
	Burst    int           `json:"burst,omitempty"`     // Bursts: tasks at once
	Every    time.Duration `json:"every,omitempty"`     // Bursts: from one to the next
	Trace    string        `json:"trace,omitempty"`     // Replay: the file
	InFlight int           `json:"in_flight,omitempty"` // Closed: tasks submitted and not ended
	Tasks    int           `json:"tasks,omitempty"`     // in all; 0 is without a bound but Duration
	Batch    int           `json:"batch"`               // tasks in one submit
	Seed     uint64        `json:"seed"`
}

// Open reports whether tasks come whether or not the engine keeps up.
func (l Load) Open() bool { return l.Shape != Closed && l.Shape != Idle }

// Flow is a kind of tasks within a load.
type Flow struct {
	Name        string            `json:"name"`                // of the type; several types are numbered
	Share       float64           `json:"share"`               // of the load, relative to the other flows
	Types       int               `json:"types"`               // number of types, chosen evenly
	Payload     int               `json:"payload"`             // bytes
	Keys        int               `json:"keys"`                // number of keys; 0 is none
	Zipf        float64           `json:"zipf"`                // exponent of the distribution of keys, more than 1; 0 is evenly
	Priority    uint8             `json:"priority"`            // see policy.Type
	Tenant      string            `json:"tenant"`              // the header "tenant"; "" is none
	Handler     Work              `json:"handler"`             // the work of the tasks
	Weight      int               `json:"weight"`              // see policy.Type
	Concurrency int               `json:"concurrency"`         // of each type; 0 is without limit
	Limits      []string          `json:"limits"`              // see policy.Type
	AtMostOnce  bool              `json:"at_most_once"`        // see policy.Type
	Relaxed     bool              `json:"relaxed"`             // see policy.Type
	After       time.Duration     `json:"after"`               // delay after the start of the load; 0 is none
	Within      time.Duration     `json:"within"`              // length of the time over which they are spread evenly
	Apart       bool              `json:"apart"`               // has a result of its own, beside the result of all flows
	Objective   *result.Objective `json:"objective,omitempty"` // of that result
}

// Delayed reports whether the tasks are due at a given time.
func (f *Flow) Delayed() bool { return f.After > 0 }

// Kind is the kind of handler of a task.
type Kind string

// The kinds.
const (
	Noop   Kind = "noop"   // returns at once
	Sleep  Kind = "sleep"  // sleeps for a time
	Spin   Kind = "spin"   // computes for a time on an idle core
	Exec   Kind = "exec"   // starts a command
	Go     Kind = "go"     // a plugin written in Go, that returns at once
	Python Kind = "python" // a plugin written in Python, that returns at once
	Plugin Kind = "plugin" // any program that serves the type named like the flow
)

// Work is the work of a task.
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

// The values of Limit.Per.
const (
	PerKey    = "headers.key"
	PerTenant = "headers.tenant"
)

// Backlog describes tasks that are in the store before the load begins, and remain there.
type Backlog struct {
	Tasks   int  `json:"tasks"`
	Payload int  `json:"payload"` // bytes
	Delayed bool `json:"delayed"` // due in a year; otherwise ready, of a paused type
}

// Faults are injected faults.
type Faults struct {
	KillPlugin  time.Duration `json:"kill_plugin,omitempty"`  // interval of kill -9 of the plugin
	KillNode    time.Duration `json:"kill_node,omitempty"`    // interval of kill -9 of the node
	SlowCommits time.Duration `json:"slow_commits,omitempty"` // added to every commit
}

// clone returns a copy that a run may modify.
func (s *Scenario) clone() *Scenario {
	c := *s
	c.Tasks = slices.Clone(s.Tasks)
	return &c
}

//go:embed scenarios
var embedded embed.FS

const scenarios = "scenarios"

// ErrNoScenario means that there is no built-in scenario with a name.
var ErrNoScenario = errors.New("there is no scenario")

// Builtin returns the sorted names of the built-in scenarios.
func Builtin() []string {
	entries, err := embedded.ReadDir(scenarios)
	if err != nil {
		return nil // cannot happen: the folder is embedded
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

// Source returns the YAML of a built-in scenario.
func Source(name string) ([]byte, error) {
	text, err := embedded.ReadFile(path.Join(scenarios, name+".yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w called %.40q; name one of %s, or a file with a slash or .yaml", ErrNoScenario, name, strings.Join(Builtin(), ", "))
	}
	return text, err
}

// maxFile is the maximum size of a scenario.
const maxFile = 1 << 20

// LoadScenario reads a built-in scenario by its name, or a file if the name ends in .yaml or .yml or
// has a slash. Sets change it as in [Parse].
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
