// Package result has the result of a measurement: a versioned JSON document with everything that is
// needed to compare it and draw it. It does not depend on the engine.
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

// Schema is the version of the document. Readers refuse newer versions. The meaning of a field does
// not change within one version.
const Schema = 1

// Result has the runs of one scenario on one subject.
type Result struct {
	Schema    int             `json:"schema"`
	Scenario  string          `json:"scenario"`         // its name
	Purpose   string          `json:"purpose"`          // the question that it answers, one line
	Config    json.RawMessage `json:"config,omitempty"` // the scenario as it was run
	Subject   Subject         `json:"subject"`
	Machine   machine.Info    `json:"machine"`
	Limits    []Limit         `json:"limits,omitempty"`    // of the machine, measured in the same session
	Objective *Evaluation     `json:"objective,omitempty"` // and whether it was met
	Runs      []Run           `json:"runs"`                // without the warm-up
}

// Subject is the measured program.
type Subject struct {
	Name       string `json:"name"`               // taskengine, or a peer
	Version    string `json:"version"`            // of the module or package
	Revision   string `json:"revision,omitempty"` // of the source, if it is known
	Store      string `json:"store"`              // pebble, bolt, memory, PostgreSQL 15, Redis 7 ...
	Durability string `json:"durability"`         // the guarantee of an acknowledged insert, in words
	Settings   string `json:"settings,omitempty"` // settings other than the defaults, in words
}

// Limit is the best that the machine can do, measured without an engine.
type Limit struct {
	Name  string  `json:"name"`  // fsync/append/p50, lives/pebble ...; see package limits
	Value float64 `json:"value"` // median of the repetitions
	Unit  string  `json:"unit"`  // ns or ops/s
	Low   float64 `json:"low"`   // smallest and largest repetition
	High  float64 `json:"high"`
}

// Names of the latencies of a run. All but TriggerToGrab count from the intended time of the submit, so
// that a stall counts for every task that it delayed.
const (
	InsertAck     = "insert_ack"      // intended to acknowledged as durable
	TriggerToGrab = "trigger_to_grab" // ready to run and durable, to its handler called
	InsertToStart = "insert_to_start" // intended to handler called
	FinishAck     = "finish_ack"      // handler returned to its outcome durable
	EndToEnd      = "end_to_end"      // intended to outcome durable
	Lateness      = "lateness"        // of delayed tasks: due to handler called
)

// Latencies returns the names in the order to show them in.
func Latencies() []string {
	return []string{InsertAck, TriggerToGrab, InsertToStart, FinishAck, EndToEnd, Lateness}
}

// Run is one repetition.
type Run struct {
	Began     time.Time             `json:"began"`
	Elapsed   Duration              `json:"elapsed_ns"` // from the first submit to the last outcome, without warm-up
	Offered   float64               `json:"offered"`    // intended rate in tasks/s, also of a recorded load; 0 is a closed loop
	Submitted int64                 `json:"submitted"`
	Finished  int64                 `json:"finished"` // ended as they should
	Failed    int64                 `json:"failed"`   // ended otherwise, as the scenario intends
	Attempts  int64                 `json:"attempts"` // calls of handlers
	Rate      float64               `json:"rate"`     // (Finished+Failed) / Elapsed, tasks/s
	Latency   map[string]*Histogram `json:"latency"`
	Points    []Point               `json:"points,omitempty"` // over time, oldest first
	Cost      Cost                  `json:"cost"`
	Check     Check                 `json:"check"`
	Late      int64                 `json:"late,omitempty"`         // submits called more than 1 ms after their intended time
	Restart   Duration              `json:"restart_ns,omitempty"`   // of a store with a backlog or a killed node: longest time until the first task started
	Others    float64               `json:"others_cores,omitempty"` // cores that other processes than load and subject used; 0 is none, or unknown
	Notes     []string              `json:"notes,omitempty"`        // remarks on the figures
}

// SameLoad reports whether two offered loads are the same within a fiftieth: some results have the
// achieved load in place of the intended one.
func SameLoad(a, b float64) bool {
	const share = 0.02
	return math.Abs(a-b) <= share*max(math.Abs(a), math.Abs(b))
}

// Disturbed is the least number of cores in use by other processes that makes the figures of a run
// unreliable.
const Disturbed = 0.1

// Point has the figures of one interval of a run.
type Point struct {
	At        Duration `json:"at_ns"` // end of the interval since Began
	Submitted int64    `json:"submitted"`
	Finished  int64    `json:"finished"`
	StartP50  Duration `json:"start_p50_ns"` // insert_to_start in the interval
	StartP99  Duration `json:"start_p99_ns"`
	CPU       float64  `json:"cpu"` // cores in use
	Resident  int64    `json:"resident_bytes"`
}

// Cost is the resource usage of all processes of the subject together during a run. It is zero in the
// result of a single flow.
type Cost struct {
	CPU       Duration `json:"cpu_ns"`
	Resident  int64    `json:"resident_bytes"`            // peak
	Written   int64    `json:"written_bytes,omitempty"`   // to disk; 0 is none, or unknown
	StoreSize int64    `json:"store_bytes,omitempty"`     // of the folder afterwards
	Wakeups   float64  `json:"wakeups_per_s,omitempty"`   // voluntary context switches
	Allocated int64    `json:"allocated_bytes,omitempty"` // by Go; 0 is none, or unknown
}

// Check is the result of the checks of a run.
type Check struct {
	OK       bool     `json:"ok"`
	Lost     int64    `json:"lost"`            // acknowledged, and never ended
	Doubled  int64    `json:"doubled"`         // run more often than their delivery promises
	Disorder int64    `json:"disorder"`        // run before an earlier one
	Exceeded int64    `json:"exceeded"`        // times that more tasks ran than a limit allows
	Notes    []string `json:"notes,omitempty"` // on the first few of each kind, with ids
	Checked  []string `json:"checked"`         // the checks, in words
}

// Sound reports whether all checks passed and nothing was counted.
func (c *Check) Sound() bool {
	return c.OK && c.Lost == 0 && c.Doubled == 0 && c.Disorder == 0 && c.Exceeded == 0
}

// Duration is a time.Duration that is written as nanoseconds.
type Duration = time.Duration

// ErrSchema means that a document has a version that this program cannot read.
var ErrSchema = errors.New("the result is of a version that cannot be read")

// Read reads documents that Write has written.
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
