package timeslice

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/taskengine/taskengine/task"
)

// Header is the header of the task of a slice that has the name of its platform, as [Platform.String] returns it.
const Header = "taskengine-platform"

// ErrInvalid says that a name, a value or an order cannot be.
var ErrInvalid = errors.New("invalid slices")

// MaxName is how many bytes the name of a source or of a platform may have.
const MaxName = 128

// CheckName returns an error if a source or a platform cannot have this name.
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: a source and a platform need a name", ErrInvalid)
	case len(name) > MaxName:
		return fmt.Errorf("%w: the name has %d bytes, of %d allowed", ErrInvalid, len(name), MaxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: the name is not UTF-8 text", ErrInvalid)
	}
	for _, r := range name {
		if r <= ' ' || r == 0x7f || strings.ContainsRune(`"\/`, r) {
			return fmt.Errorf("%w: the name %q has a space, a quote, a slash, a backslash or a character that cannot be printed", ErrInvalid, name)
		}
	}
	return nil
}

// Platform names a platform of a source. It is the payload of its cursor.
type Platform struct {
	Source string `json:"source"`
	Name   string `json:"platform"`
}

// Cursor returns the id of the task that is the cursor of the platform.
func (p Platform) Cursor() task.ID {
	return task.ReservedIDIn(task.ShardOf(p.String()), CursorType(p.Source), p.Name)
}

// CursorType returns the type of the tasks that are the cursors of a source.
func CursorType(source string) string { return task.ReservedTypes + "slices." + source }

// ThreadsLimits returns the names of the limits of the threads of a source: of each node, and of the cluster. They have a value for each
// platform, its name as [Platform.String] returns it.
func ThreadsLimits(source string) (node, cluster string) {
	return source + "-slices-node", source + "-slices"
}

// String returns SOURCE/PLATFORM.
func (p Platform) String() string { return p.Source + "/" + p.Name }

// Delay returns by how much later than the lag after their ends the slices of the platform are due: from zero up to spread, which
// is not included. It is a hash of the name, so platforms with the same slices are not due at once.
func (p Platform) Delay(spread time.Duration) time.Duration {
	sum := sha256.Sum256([]byte(p.String()))
	part, _ := bits.Mul64(binary.BigEndian.Uint64(sum[:8]), uint64(spread))
	return time.Duration(part).Truncate(time.Millisecond)
}

// Encode returns the payload of the cursor.
func (p Platform) Encode() []byte { return encode(p) }

// Slice is a slice that has not ended, as its cursor knows it.
type Slice struct {
	Start    time.Time `json:"start"`
	End      time.Time `json:"end"`               // the start of the next slice
	Epoch    uint64    `json:"epoch,omitempty"`   // how often the cursor had been moved when the slice was made
	Failed   time.Time `json:"failed,omitzero"`   // when it was seen in the state error; zero if it is not
	Retry    bool      `json:"retry,omitempty"`   // a failed slice that is to run again
	WasSplit bool      `json:"split,omitempty"`   // its handler has split it
	CatchUp  bool      `json:"catchup,omitempty"` // it was longer than the interval
	InOrder  bool      `json:"in_order,omitempty"`
}

// ID returns the id of the task of the slice. Slices that may run at the same time are spread over the shards.
func (s *Slice) ID(cursor task.ID) task.ID {
	id := cursor.Child(s.Start, "slice "+strconv.FormatUint(s.Epoch, 10))
	if s.InOrder { // its ordering key has the shard of the cursor
		return id
	}
	return id.In(uint16(id[9]))
}

// Work is the payload of the task of a slice, with the values that were in force when it was made.
type Work struct {
	Source        string    `json:"source"`
	Platform      string    `json:"platform"`
	From          time.Time `json:"from"`  // fetch what the platform has from then on: Start less the overlap
	Start         time.Time `json:"start"` // of the slice
	End           time.Time `json:"end"`   // fetch what is before that
	Timeout       Span      `json:"timeout,omitzero"`
	Retries       int       `json:"retries"`
	RetryInterval Span      `json:"retry_interval"`
	LeastPart     Span      `json:"least_part,omitzero"`
	InOrder       bool      `json:"in_order,omitempty"`
}

// WorkOf returns the work of the task of a slice, and whether t is one.
func WorkOf(t *task.Task) (w Work, ok bool, err error) {
	if t.Headers[Header] == "" {
		return w, false, nil
	}
	if err := json.Unmarshal(t.Payload, &w); err != nil {
		return w, true, fmt.Errorf("read the payload of the slice: %w", err)
	}
	if w.Source+"/"+w.Platform != t.Headers[Header] || !w.Start.Before(w.End) {
		return w, true, fmt.Errorf("read the payload of the slice: it is none of %s", t.Headers[Header])
	}
	return w, true, nil
}

// Halves returns the two halves of what the slice fetches, the earlier one first. Only that has the overlap, and it may lie in the
// overlap. ok is false if they would be shorter than LeastPart.
func (w Work) Halves() (halves [2]Work, ok bool) {
	half := (w.End.Sub(w.From) / 2).Truncate(time.Millisecond)
	if half < max(time.Duration(w.LeastPart), time.Millisecond) {
		return halves, false
	}
	middle := w.From.Add(half)
	halves = [2]Work{w, w}
	halves[0].End, halves[1].From = middle, middle
	if w.Start.Before(middle) {
		halves[1].Start = middle
	} else {
		halves[0].Start = w.From
	}
	return halves, true
}

// Encode returns the payload.
func (w Work) Encode() []byte { return encode(w) }

// encode writes a part of a source. Nothing in it can fail to be written.
func encode(part any) []byte {
	text, err := json.Marshal(part)
	if err != nil {
		panic(fmt.Sprintf("write a part of a source: %v", err))
	}
	return text
}
