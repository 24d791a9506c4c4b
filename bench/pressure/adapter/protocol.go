package adapter

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/taskengine/taskengine/bench/result"
)

// Descriptor is the first line of an adapter. Its fields are also in the file adapter.json of the comparison, which reads it
// before it starts the process.
type Descriptor struct {
	Kind          string    `json:"kind"` // descriptor
	System        string    `json:"system"`
	EventTables   []string  `json:"event_tables"`
	Extensions    []string  `json:"extensions"`
	Version       string    `json:"version"`
	SchemaVersion string    `json:"schema_version"`
	DBName        string    `json:"db_name"`
	StartedAt     time.Time `json:"started_at"`
	Instance      int       `json:"instance_id"`
}

// sample is one metric of the comparison.
type sample struct {
	T           string  `json:"t"`
	System      string  `json:"system"`
	Kind        string  `json:"kind"` // adapter
	SubjectKind string  `json:"subject_kind"`
	Subject     string  `json:"subject"`
	Metric      string  `json:"metric"`
	Value       float64 `json:"value"`
	Window      float64 `json:"window_s"`
	Instance    int     `json:"instance_id"`
}

// Interval has the counts of one process between two samples.
type Interval struct {
	Kind     string            `json:"kind"` // interval
	T        time.Time         `json:"t"`    // its end
	Inserted int64             `json:"inserted"`
	Refused  int64             `json:"refused"`
	Started  int64             `json:"started"`
	Open     int64             `json:"open"`            // jobs that have not ended, by the last count; -1 is unknown
	Start    *result.Histogram `json:"start,omitempty"` // of the jobs that started
}

// End is the last line of a process that ended as it was asked to.
type End struct {
	Kind  string `json:"kind"` // end
	Open  int64  `json:"open"`
	Ended int64  `json:"ended"` // as they should
	Error string `json:"error,omitempty"`
}

// Parse reads a line: a *Descriptor, an *Interval or an *End, or nil for other lines.
func Parse(line []byte) (any, error) {
	var k struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(line, &k); err != nil {
		return nil, fmt.Errorf("read a line of an adapter: %w", err)
	}
	var out any
	switch k.Kind {
	case "descriptor":
		out = new(Descriptor)
	case "interval":
		out = new(Interval)
	case "end":
		out = new(End)
	default:
		return nil, nil
	}
	if err := json.Unmarshal(line, out); err != nil {
		return nil, fmt.Errorf("read a line of an adapter: %w", err)
	}
	return out, nil
}

// Token returns the line that says that n jobs arrive.
func Token(n int) string { return fmt.Sprintf("ENQUEUE %d\n", n) }

// tokenOf reads a line of the standard input. Other lines than tokens are no jobs.
func tokenOf(line string) int {
	number, ok := strings.CutPrefix(strings.TrimSpace(line), "ENQUEUE ")
	n, err := strconv.Atoi(strings.TrimSpace(number))
	if !ok || err != nil {
		return 0
	}
	return max(0, n)
}

// printer writes lines of JSON.
type printer struct {
	mu  sync.Mutex
	out io.Writer // guarded by mu
}

func (p *printer) print(v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // every value is of this package
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = p.out.Write(append(text, '\n')) // the reader may be gone; then the process is stopped
}
