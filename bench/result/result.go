// Package result is what a measurement leaves behind: a versioned JSON document with
// everything that is needed to read it again, compare it and draw it. It knows nothing
// of engines.
package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/taskengine/taskengine/internal/machine"
)

// Schema is the version of the document. Readers refuse newer ones; a field is never
// given another meaning within one version.
const Schema = 1

// Result is one scenario measured on one subject, several times.
type Result struct {
	Schema    int             `json:"schema"`
	Scenario  string          `json:"scenario"`         // its name
	Purpose   string          `json:"purpose"`          // what question it answers, one line
	Config    json.RawMessage `json:"config,omitempty"` // the scenario as it was run
	Subject   Subject         `json:"subject"`
	Machine   machine.Info    `json:"machine"`
	Limits    []Limit         `json:"limits,omitempty"`    // of the machine, measured in the same session
	Objective *Evaluation     `json:"objective,omitempty"` // what was wanted, and whether it was had
	Runs      []Run           `json:"runs"`                // without the warm-up
}

// Subject is what was measured.
type Subject struct {
	Name       string `json:"name"`               // taskengine, or a peer
	Version    string `json:"version"`            // of the module or package
	Revision   string `json:"revision,omitempty"` // of the source, if it is known
	Store      string `json:"store"`              // pebble, bolt, memory, PostgreSQL 15, Redis 7 ...
	Durability string `json:"durability"`         // what is on disk when an insert is acknowledged, in words
	Settings   string `json:"settings,omitempty"` // those that are not the defaults, in words
}

// Limit is what the machine can do at best, measured bare.
type Limit struct {
	Name  string  `json:"name"`  // fsync/append/p50, lives/pebble ...; see package limits
	Value float64 `json:"value"` // median of the repetitions
	Unit  string  `json:"unit"`  // ns or ops/s
	Low   float64 `json:"low"`   // smallest and largest repetition
	High  float64 `json:"high"`
}

// Names of the latencies of a run. All but TriggerToGrab count from the time at which
// the load intended to submit the task, so that a stall is charged to every task that it
// held up.
const (
	InsertAck     = "insert_ack"      // intended to acknowledged as durable
	TriggerToGrab = "trigger_to_grab" // ready to run and durable, to its handler called
	InsertToStart = "insert_to_start" // intended to handler called
	FinishAck     = "finish_ack"      // handler returned to its outcome durable
	EndToEnd      = "end_to_end"      // intended to outcome durable
	Lateness      = "lateness"        // of tasks with a time of their own: that time to handler called
)

// Latencies are the names in the order to show them in.
func Latencies() []string {
	return []string{InsertAck, TriggerToGrab, InsertToStart, FinishAck, EndToEnd, Lateness}
}

// Run is one repetition.
type Run struct {
	Began     time.Time             `json:"began"`
	Elapsed   Duration              `json:"elapsed_ns"` // from the first submit to the last outcome, without warm-up
	Offered   float64               `json:"offered"`    // tasks/s the load intended, a recorded one too; 0 is as many as go (closed loop)
	Submitted int64                 `json:"submitted"`
	Finished  int64                 `json:"finished"` // ended as they should
	Failed    int64                 `json:"failed"`   // ended otherwise, as the scenario wants it
	Attempts  int64                 `json:"attempts"` // calls of handlers
	Rate      float64               `json:"rate"`     // (Finished+Failed) / Elapsed, tasks/s
	Latency   map[string]*Histogram `json:"latency"`
	Points    []Point               `json:"points,omitempty"` // over time, oldest first
	Cost      Cost                  `json:"cost"`
	Check     Check                 `json:"check"`
	Late      int64                 `json:"late,omitempty"`         // submits called more than 1 ms after their intended time
	Restart   Duration              `json:"restart_ns,omitempty"`   // of a store that has a backlog, or whose node was killed: until the first task started, at longest
	Others    float64               `json:"others_cores,omitempty"` // cores that neither the load nor its subject used; 0 is none, or unknown
	Notes     []string              `json:"notes,omitempty"`        // what to know when reading it
}

// SameLoad reports whether two loads that were offered are the same, give or take a
// fiftieth: some results have what came of a load in place of what was meant.
func SameLoad(a, b float64) bool {
	const share = 0.02
	return math.Abs(a-b) <= share*max(math.Abs(a), math.Abs(b))
}

// Disturbed is from how many cores in use by others on the figures of a run are not those
// of the subject alone.
const Disturbed = 0.1

// Point is how things went in one interval of a run.
type Point struct {
	At        Duration `json:"at_ns"` // end of the interval since Began
	Submitted int64    `json:"submitted"`
	Finished  int64    `json:"finished"`
	StartP50  Duration `json:"start_p50_ns"` // insert_to_start in the interval
	StartP99  Duration `json:"start_p99_ns"`
	CPU       float64  `json:"cpu"` // cores in use
	Resident  int64    `json:"resident_bytes"`
}

// Cost is what a run took of the machine: all processes of the subject together. It is
// zero in a result that is of a part of the tasks only.
type Cost struct {
	CPU       Duration `json:"cpu_ns"`
	Resident  int64    `json:"resident_bytes"`            // at most
	Written   int64    `json:"written_bytes,omitempty"`   // to disk; 0 is none, or unknown
	StoreSize int64    `json:"store_bytes,omitempty"`     // of the folder afterwards
	Wakeups   float64  `json:"wakeups_per_s,omitempty"`   // voluntary context switches
	Allocated int64    `json:"allocated_bytes,omitempty"` // by Go; 0 is none, or unknown
}

// Check is what a run found out about its own correctness.
type Check struct {
	OK       bool     `json:"ok"`
	Lost     int64    `json:"lost"`            // acknowledged, and never ended
	Doubled  int64    `json:"doubled"`         // run more often than their delivery promises
	Disorder int64    `json:"disorder"`        // run before one that was to come first
	Exceeded int64    `json:"exceeded"`        // times that more ran than a limit allows
	Notes    []string `json:"notes,omitempty"` // the first few of each, with ids
	Checked  []string `json:"checked"`         // what was looked at, in words
}

// Sound reports whether the run is right. One that says so and counts a loss is not.
func (c *Check) Sound() bool {
	return c.OK && c.Lost == 0 && c.Doubled == 0 && c.Disorder == 0 && c.Exceeded == 0
}

// Duration is a time.Duration that is written as nanoseconds.
type Duration = time.Duration

// ErrSchema says that a document is of a version that this program cannot read.
var ErrSchema = errors.New("the result is of a version that cannot be read")

// Read reads documents that were written by Write.
func Read(r io.Reader) ([]*Result, error) {
	d := json.NewDecoder(r)
	var out []*Result
	if err := d.Decode(&out); err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	for i, res := range out {
		if res == nil || res.Schema < 1 || res.Schema > Schema {
			return nil, fmt.Errorf("read results: document %d: %w (want schema 1 to %d)", i+1, ErrSchema, Schema)
		}
	}
	return out, nil
}

// Write writes documents as one JSON array, indented.
func Write(w io.Writer, results []*Result) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(results); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}
