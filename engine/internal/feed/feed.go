// Package feed keeps the newest changes of tasks that a node has made, for readers that follow them. It has no clock and does no
// I/O.
package feed

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/taskengine/taskengine/task"
)

// Bounds of a [Feed].
const (
	MaxEvents = 8192            // that are kept
	Rest      = 5 * time.Minute // how long events are kept after the last read
)

// Cursor is a position in the events of a node. The zero Cursor is the present. One with a time alone is a time before the
// events of the node.
type Cursor struct {
	Feed task.ID   // of the feed; zero for a time
	Seq  uint64    // of the next event; 0 if only the time is known
	At   time.Time // everything before it was read
}

var errCursor = errors.New("a cursor is the text that came with an event, or a time as in 2026-11-29T03:00:00Z")

// ParseCursor reads a cursor. "" is the present.
func ParseCursor(text string) (Cursor, error) {
	if text == "" {
		return Cursor{}, nil
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return Cursor{At: task.Stamp(at)}, nil
	}
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return Cursor{}, fmt.Errorf("%.100q: %w", text, errCursor)
	}
	var c Cursor
	var err error
	var micro int64
	if c.Feed, err = task.ParseID(parts[0]); err == nil {
		if c.Seq, err = strconv.ParseUint(parts[1], 10, 64); err == nil {
			micro, err = strconv.ParseInt(parts[2], 10, 64)
		}
	}
	if err != nil {
		return Cursor{}, fmt.Errorf("%.100q: %w", text, errCursor)
	}
	c.At = time.UnixMicro(micro).UTC()
	return c, nil
}

// String returns the text of a cursor that is not zero.
func (c Cursor) String() string {
	if c.Feed.IsZero() {
		return c.At.UTC().Format(time.RFC3339Nano)
	}
	return fmt.Sprintf("%v.%d.%d", c.Feed, c.Seq, c.At.UnixMicro())
}

// Event is a change of a task.
type Event struct {
	At   time.Time
	Task *task.Task // after it, without payload, result and checkpoint. It is not changed
	Next Cursor     // behind the event

	gap *Gap // it is none: events are missing at this place
}

// Gap says that events are missing.
type Gap struct {
	From  time.Time // the first may be as old
	Until time.Time
	Text  string // for display: the reason
}

// Page is a part of the events.
type Page struct {
	Gap    *Gap // before the events; nil if none is missing
	Events []Event
	Next   Cursor          // where to go on
	More   <-chan struct{} // closed with the next event; nil if there are more now
}

// Feed has the newest events. It keeps none while nobody has read for [Rest].
type Feed struct {
	id     task.ID
	events []Event // the first has the number first
	first  uint64  // the number of the oldest that is kept
	next   uint64  // the number of the next
	readAt time.Time
	isOn   bool
	more   chan struct{} // closed with the next event; nil if nobody waits
}

// New returns a feed with an id of its own.
func New(id task.ID) *Feed { return &Feed{id: id, first: 1, next: 1} }

// IsOn reports whether events are kept.
func (f *Feed) IsOn() bool { return f.isOn }

// Add adds the change of a task that has become t, if anybody reads. The caller may change t afterwards, but no part of its
// history.
func (f *Feed) Add(now time.Time, t *task.Task) {
	if !f.isOn {
		return
	}
	if now.Sub(f.readAt) > Rest {
		f.isOn, f.events, f.first = false, nil, f.next
		return
	}
	c := *t // other parts of rows are replaced, and not changed
	c.Payload, c.Result, c.Notes, c.Children = nil, nil, task.NewNotes(t.Progress(), nil), nil
	c.Signals, c.Headers = t.Signals.Listed(), maps.Clone(t.Headers)
	f.append(Event{At: now, Task: &c, Next: Cursor{f.id, f.next + 1, now}})
}

// uncertainFor is how long before a commit failed its changes may have been made.
const uncertainFor = time.Minute

// Lose says that a commit has failed with err: it is not known whether its changes were made.
func (f *Feed) Lose(now time.Time, err error) {
	if f.isOn {
		gap := &Gap{From: now.Add(-uncertainFor), Until: now, Text: "a commit failed, and its changes may have been made: " + err.Error()}
		f.append(Event{At: now, Next: Cursor{f.id, f.next + 1, now}, gap: gap})
	}
}

// Skip says that events are missing.
func (f *Feed) Skip(gap *Gap) {
	if f.isOn {
		f.append(Event{At: gap.Until, Next: Cursor{f.id, f.next + 1, gap.Until}, gap: gap})
	}
}

func (f *Feed) append(e Event) {
	if f.events = append(f.events, e); len(f.events) > MaxEvents {
		f.events[0] = Event{}
		f.events = f.events[1:]
		f.first++
	}
	f.next++
	if f.more != nil {
		close(f.more)
		f.more = nil
	}
}

// Read returns events from a cursor on, at most most. From the first call on events are kept.
func (f *Feed) Read(now time.Time, c Cursor, most int) (p Page) {
	f.readAt = now
	if !f.isOn {
		f.next++ // there may have been some that are not kept
		f.isOn, f.first = true, f.next
	}
	present := Cursor{f.id, f.next, now}
	switch {
	case c == Cursor{}:
		c = present
	case c.Feed.IsZero():
		p.Gap = &Gap{From: c.At, Until: now, Text: "it begins at a time"}
		c = present
	case c.Feed != f.id:
		p.Gap = &Gap{From: c.At, Until: now, Text: "the cursor is of another node, or of before a restart of this one"}
		c = present
	case c.Seq == 0: // the numbers begin at 1
		p.Gap = &Gap{From: c.At, Until: now, Text: "it begins at a time"}
		c = present
	case c.Seq > f.next:
		p.Gap = &Gap{From: c.At, Until: now, Text: "the cursor is of events that this node does not have"}
		c = present
	case c.Seq < f.first:
		p.Gap = &Gap{From: c.At, Until: now, Text: "the reader was away or too slow, and the node has given up the oldest events"}
		c.Seq = f.first
		if f.first < f.next {
			p.Gap.Until = f.events[0].At
		}
	}
	for ; c.Seq < f.next && len(p.Events) < most; c.Seq++ {
		e := f.events[c.Seq-f.first]
		if e.gap == nil {
			p.Events = append(p.Events, e)
			continue
		}
		if p.Gap != nil || len(p.Events) > 0 {
			break
		}
		p.Gap = e.gap
	}
	if p.Next = (Cursor{f.id, c.Seq, now}); c.Seq < f.next {
		p.Next.At = f.events[c.Seq-f.first].At
		return p
	}
	if f.more == nil {
		f.more = make(chan struct{})
	}
	p.More = f.more
	return p
}
