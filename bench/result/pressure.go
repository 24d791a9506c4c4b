package result

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/taskengine/taskengine/internal/machine"
)

// Campaign has the courses of several subjects through the same phases of load and pressure.
type Campaign struct {
	Schema  int          `json:"schema"`
	Began   time.Time    `json:"began"`
	Command []string     `json:"command"` // the arguments of the program
	Machine machine.Info `json:"machine"`
	Rate    float64      `json:"rate"`    // offered jobs a second where a phase does not say otherwise
	Courses []*Course    `json:"courses"` // in the order in which they were run
}

// Course is the way of one subject through the phases.
type Course struct {
	Subject  Subject  `json:"subject"`
	Database string   `json:"database,omitempty"` // the server of the jobs, and its settings; "" is none
	Phases   []Phase  `json:"phases"`
	Seconds  []Second `json:"seconds"` // the whole course, oldest first
	Check    Check    `json:"check"`
	Again    int64    `json:"run_again"` // calls of handlers beyond one for each ended job
}

// Phase is a part of a course with one pressure. Its counts are of the seconds that end in it.
type Phase struct {
	Kind      string     `json:"kind"`
	From      Duration   `json:"from_ns"` // since the begin of the course
	To        Duration   `json:"to_ns"`
	Offered   int64      `json:"offered"`
	Inserted  int64      `json:"inserted"` // acknowledged
	Refused   int64      `json:"refused"`  // their insert returned an error, or there was no process to insert them
	Started   int64      `json:"started"`  // calls of handlers
	Rate      float64    `json:"rate"`     // Started per second
	Last      float64    `json:"rate_of_last_quarter"`
	Start     *Histogram `json:"start"`   // from the time of the offer to the call of the handler
	Backlog   int64      `json:"backlog"` // not ended, the last count of the phase
	Dead      int64      `json:"dead_rows"`
	Tables    int64      `json:"tables_bytes"`
	Log       int64      `json:"log_bytes"` // of the write-ahead log
	Bystander *Histogram `json:"bystander"` // a query of another table by its key
	Failed    int64      `json:"bystander_failed"`
}

// Second has the figures of one second of a course. Figures of a database are the last that were read.
type Second struct {
	At           Duration `json:"at_ns"` // its end
	Offered      int64    `json:"offered"`
	Inserted     int64    `json:"inserted"`
	Refused      int64    `json:"refused"`
	Started      int64    `json:"started"`
	StartP50     Duration `json:"start_p50_ns"` // of the jobs that started in this second
	StartP99     Duration `json:"start_p99_ns"`
	Backlog      int64    `json:"backlog"`
	Dead         int64    `json:"dead_rows"`
	Tables       int64    `json:"tables_bytes"`
	Log          int64    `json:"log_bytes"`
	BystanderP50 Duration `json:"bystander_p50_ns"`
	BystanderP99 Duration `json:"bystander_p99_ns"`
}

// Write writes the document, indented.
func (c *Campaign) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(c); err != nil {
		return fmt.Errorf("write the campaign: %w", err)
	}
	return nil
}
