package task

import (
	"encoding/json"
	"errors"
	"slices"
	"time"
)

// MaxBefore is how many bytes of a payload and of headers an entry of the history keeps, so that a change can be undone.
const MaxBefore = 4096

// Before has the values of a task that a bulk job has replaced: see [Task.Undoable].
type Before struct {
	Version uint64 `json:"v"`           // after the change
	To      State  `json:"t"`           // likewise
	Due     int64  `json:"d,omitempty"` // the NextEventAt of the change, in Unix microseconds; 0 is none

	State     State              `json:"s"`
	Next      int64              `json:"n,omitempty"` // NextEventAt in Unix microseconds; 0 is none
	Ready     int64              `json:"r,omitempty"` // ReadyAt likewise
	Expires   int64              `json:"x,omitempty"` // ExpiresAt likewise
	Attempt   uint32             `json:"a,omitempty"`
	Crashes   uint32             `json:"c,omitempty"`
	LeftOrder bool               `json:"o,omitempty"` // it took no part in the order of its ordering key
	Error     *string            `json:"e,omitempty"`
	Priority  *uint8             `json:"p,omitempty"`
	Payload   *[]byte            `json:"l,omitempty"` // as it was stored
	Headers   *map[string]string `json:"h,omitempty"`

	Lost string `json:"w,omitempty"` // why it cannot be given back; "" if it can
}

// before returns the values of t that c replaces.
func (c *Change) before(t *Task) *Before {
	b := &Before{
		Version: t.Version + 1, To: c.To, Due: microOf(c.NextEventAt), State: t.State, Next: microOf(t.NextEventAt), Ready: microOf(t.ReadyAt), Expires: microOf(t.ExpiresAt),
		Attempt: t.Attempt, Crashes: t.Crashes, LeftOrder: t.OrderingKey != "" && t.Turn == Unordered, Lost: c.loses(t),
	}
	if c.Error != "" {
		b.Error = &t.LastError
	}
	if p := c.Put; p != nil {
		if p.Priority != nil {
			b.Priority = &t.Priority
		}
		if p.Headers != nil {
			b.Headers = &t.Headers
		}
	}
	b.Payload = c.Mark.Payload
	if sizeBefore(b.Payload, b.Headers) > MaxBefore {
		b.Payload, b.Headers, b.Lost = nil, nil, "what it had before is too large to be kept"
	}
	return b
}

// sizeBefore returns how many bytes of a payload and of headers are to be kept; nil is none.
func sizeBefore(payload *[]byte, headers *map[string]string) (size int) {
	if payload != nil {
		size = len(*payload)
	}
	if headers != nil {
		for name, value := range *headers {
			size += len(name) + len(value)
		}
	}
	return size
}

// IsTooLargeToUndo reports whether a bulk job that replaces the payload of t, or its headers, cannot keep what t, as it is stored, has.
func (t *Task) IsTooLargeToUndo(payload, headers bool) bool {
	var p *[]byte
	var h *map[string]string
	if payload {
		p = &t.Payload
	}
	if headers {
		h = &t.Headers
	}
	return sizeBefore(p, h) > MaxBefore
}

// loses returns why t cannot become again what it is, after c; "" if it can.
func (c *Change) loses(t *Task) string {
	hasEnded := func(s State) bool { return s == Done || s == Failed || s == Cancelled }
	ends := hasEnded(c.To) || hasEnded(t.State)
	switch {
	case t.State == Processing:
		return "it was running"
	case ends && t.Parent != nil:
		return "its parent has been notified of its end"
	case t.Children != nil && (ends || c.To == Error || t.State == Error):
		return "it has children"
	case t.Signals != nil && (ends || t.Signals.Awaits != nil && c.To != Waiting):
		return "it waited for a signal, or has kept one"
	}
	return ""
}

// encode returns b as an entry of the history keeps it.
func (b *Before) encode() string {
	data, err := json.Marshal(b)
	if err != nil { // it has an invalid state
		return ""
	}
	return string(data)
}

// Errors of [Task.Undoable].
var (
	ErrNotByJob     = errors.New("the bulk job has not changed it, or its history does not say so any more")
	ErrChangedSince = errors.New("it has changed since")
)

// IsBy reports whether a is a change by the bulk job with a name.
func (a *Attempt) IsBy(job string) bool { return a.Outcome == Edited && a.Job == job && job != "" }

// Undoable returns what t had before the bulk job with a name changed it. The error says why it cannot have that again: it must not have changed since, but
// for becoming ready when its time came.
func (t *Task) Undoable(job string) (b Before, err error) {
	n := len(t.History)
	isBy := func(a Attempt) bool { return a.IsBy(job) }
	switch {
	case !slices.ContainsFunc(t.History, isBy):
		return b, ErrNotByJob
	case !isBy(t.History[n-1]):
		return b, ErrChangedSince
	}
	if err := json.Unmarshal([]byte(t.History[n-1].Before), &b); err != nil {
		return b, errors.New("its history does not say what it had before")
	}
	cameDue := b.To == Waiting && t.State == Submitted && t.Version == b.Version+1 && microOf(t.UpdatedAt) >= b.Due
	switch {
	case t.Version != b.Version && !cameDue:
		return b, ErrChangedSince
	case b.Lost != "":
		return b, errors.New(b.Lost)
	}
	return b, nil
}

// Restore undoes a change by a bulk job, together with Put, Payload and the times of the change. It applies to a row that does not run and is not Done, and
// whose newest entry in the history has what it had before. It leaves the row neither Processing nor Done.
type Restore struct {
	Attempt, Crashes uint32
	ExpiresAt        time.Time
	Error            *string // the LastError; nil keeps it
}

// apply applies r to t.
func (r *Restore) apply(t *Task) {
	t.Attempt, t.Crashes, t.ExpiresAt = min(r.Attempt, MaxCount), min(r.Crashes, MaxCount), Stamp(r.ExpiresAt)
	if r.Error != nil {
		t.LastError = cut(*r.Error, MaxErrorText)
	}
}

// restores reports whether the state of t permits c, which has a Restore.
func (c *Change) restores(t *Task) bool {
	n := len(t.History)
	isSame := c.Replace == nil && c.Erase == nil && c.Await == nil && len(c.Adds) == 0 && c.Remember == 0 && !c.FreesKey && c.Count == Keep
	if !isSame || n == 0 || t.History[n-1].Before == "" || t.State == Processing || t.State == Done || c.To == Processing || c.To == Done || !c.To.Valid() {
		return false
	}
	if c.Put != nil {
		return c.puts(t)
	}
	return t.State.CanBecome(c.To) || (t.State == Failed || t.State == Cancelled) && (c.To == Waiting || c.To == Error)
}

// puts reports whether the state of t permits a change with a Put.
func (c *Change) puts(t *Task) bool {
	waits := t.State == Waiting || t.State == Submitted
	return waits && c.To == Waiting || t.State == Error && c.To == Error
}

// microOf returns t in Unix microseconds, 0 for the zero time.
func microOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// MomentOf is the time of a number of Unix microseconds in a [Before]: the zero time for 0.
func MomentOf(micro int64) time.Time {
	if micro == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micro).UTC()
}

// withoutBefore returns a history that does not keep what its tasks had before: only the newest change can be undone.
func withoutBefore(history []Attempt) []Attempt {
	if !slices.ContainsFunc(history, func(a Attempt) bool { return a.Before != "" }) {
		return history
	}
	history = slices.Clone(history)
	for i := range history {
		history[i].Before = ""
	}
	return history
}
