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

// Schema is the version of the document of [Curves]. A field never gets another meaning
// within one version.
const Schema = 4

// ErrSchema says that curves are of a version that this program cannot read.
var ErrSchema = errors.New("the curves are of a version that cannot be read")

// Curves are what things take on one machine with one store.
type Curves struct {
	Schema   int          `json:"schema"`
	Measured time.Time    `json:"measured"`
	Machine  machine.Info `json:"machine"`
	Store    string       `json:"store"` // one of Stores
	Costs    sim.Costs    `json:"costs"`

	KeptRow     float64 `json:"kept_row_bytes"`     // size of the store for each task that is kept
	KeptPayload float64 `json:"kept_payload_bytes"` // and for each byte of its payload
	Base        int64   `json:"base_memory_bytes"`  // memory of the process without tasks
	Trigger     float64 `json:"trigger_bytes"`      // memory for each task that waits, up to the look-ahead

	// Pacing and Late are what the loads of Calibrate and Verify add to what they ask for,
	// and no plan counts: how late Submit is called, by how long no task was submitted
	// before, and how much longer than asked handlers wait.
	// What is submitted with large payloads is late more often.
	Pacing      sim.ByIdleness `json:"pacing"`
	PacingLarge sim.ByIdleness `json:"pacing_large"`
	Late        sim.Quantiles  `json:"late_ns"`

	Fit []Fit `json:"fit"` // how well the model gives back what it was made from
}

// Fit is one run of the calibration beside the model of it.
type Fit struct {
	Run      string  `json:"run"`
	Foreign  float64 `json:"foreign_cores"` // what others used of the machine meanwhile
	Measured Figures `json:"measured"`
	Model    Figures `json:"model"`
}

// Figures are what a load needs and gets.
type Figures struct {
	P50     time.Duration `json:"start_p50_ns"` // from the intended submit to the call of the handler
	P99     time.Duration `json:"start_p99_ns"`
	Rate    float64       `json:"tasks_per_s"`
	CPU     float64       `json:"cores"` // in use, on average
	Running float64       `json:"running"`
	Commits float64       `json:"commits_per_s"`
	Bytes   float64       `json:"bytes_per_s"`
}

// Disturbed returns how many cores others used during the run that was disturbed most. Of
// more than a tenth, curves are not those of the machine alone.
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

// maxCurves is how large a document of curves may be.
const maxCurves = 16 << 20

// ReadCurves reads what Write has written. The error wraps [ErrSchema] if another version
// has written it.
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
