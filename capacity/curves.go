package capacity

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/taskengine/taskengine/engine/sim"
	"github.com/taskengine/taskengine/internal/machine"
)

// Schema is the version of the JSON of [Curves]. The meaning of a field does not change within one
// version.
const Schema = 4

// ErrSchema means that curves have a version that this program cannot read.
var ErrSchema = errors.New("the curves are of a version that cannot be read")

// Curves are the costs of the engine on one machine with one store.
type Curves struct {
	Schema   int          `json:"schema"`
	Measured time.Time    `json:"measured"`
	Machine  machine.Info `json:"machine"`
	Store    string       `json:"store"` // one of Stores
	Costs    sim.Costs    `json:"costs"`

	KeptRow     float64 `json:"kept_row_bytes"`     // size of the store per task
	KeptPayload float64 `json:"kept_payload_bytes"` // and per byte of payload
	Base        int64   `json:"base_memory_bytes"`  // memory of the process without tasks
	Trigger     float64 `json:"trigger_bytes"`      // memory per waiting task, up to the look-ahead

	// Pacing and Late are the errors of the loads of Calibrate and Verify: how late Submit is
	// called, by the time since the task before, and how much longer than wanted handlers
	// wait. A plan does not include them. Tasks with large payloads are late more often.
	Pacing      sim.ByIdleness `json:"pacing"`
	PacingLarge sim.ByIdleness `json:"pacing_large"`
	Late        sim.Quantiles  `json:"late_ns"`

	Fit []Fit `json:"fit"` // how well the model reproduces the runs that it was made from
}

// Fit is one run of the calibration beside the model of it.
type Fit struct {
	Run      string  `json:"run"`
	Foreign  float64 `json:"foreign_cores"` // used by other processes during the run
	Measured Figures `json:"measured"`
	Model    Figures `json:"model"`
}

// Figures are the latencies of a load, and its use of the machine.
type Figures struct {
	P50     time.Duration `json:"start_p50_ns"` // from the intended submit to the call of the handler
	P99     time.Duration `json:"start_p99_ns"`
	Rate    float64       `json:"tasks_per_s"`
	CPU     float64       `json:"cores"` // in use, on average
	Running float64       `json:"running"`
	Commits float64       `json:"commits_per_s"`
	Bytes   float64       `json:"bytes_per_s"`
}

// Disturbed returns the number of cores that other processes used, in the run with the highest use.
// With more than 0.1, the curves do not describe the machine alone.
func (c *Curves) Disturbed() (cores float64, much bool) {
	for _, f := range c.Fit {
		cores = max(cores, f.Foreign)
	}
	return cores, cores > disturbed
}

// Write writes the curves as JSON.
func (c *Curves) Write(w io.Writer) error {
	if err := json.NewEncoder(w).Encode(c); err != nil {
		return fmt.Errorf("write curves: %w", err)
	}
	return nil
}

// maxCurves is the maximum size of the JSON of curves.
const maxCurves = 16 << 20

// ReadCurves reads curves that Write has written. The error wraps [ErrSchema] if they have another
// version.
func ReadCurves(r io.Reader) (*Curves, error) {
	var c Curves
	if err := json.NewDecoder(io.LimitReader(r, maxCurves)).Decode(&c); err != nil {
		return nil, fmt.Errorf("read curves: %w", err)
	}
	if c.Schema != Schema {
		return nil, fmt.Errorf("read curves: %w: they have schema %d, this program reads %d; calibrate again", ErrSchema, c.Schema, Schema)
	}
	if c.Machine.Cores < 1 {
		return nil, fmt.Errorf("read curves: the machine has %d cores (want 1 or more)", c.Machine.Cores)
	}
	return &c, nil
}
