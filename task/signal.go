package task

import (
	"slices"
	"time"
)

// Limits of the signals of a task.
const (
	MaxSignalName = 100     // bytes of the name of a signal
	MaxAwaited    = 20      // names that a task may wait for at a time
	MaxKept       = 100     // signals that a task keeps until it waits for them
	MaxKeptBytes  = 1 << 20 // of their data
	MaxSeen       = 100     // IDs in a row of signals that ended earlier waits
)

// Signal is a message to one task.
type Signal struct {
	ID   ID     // a task gets a signal once, see [Signals.Has]
	Name string // of the message; a task waits for names
	At   time.Time
	Data []byte // as the sender gave it; a store neither reads nor changes it
}

// Signals are what a task has of signals. Most tasks have none, therefore a row has a pointer to them, which is nil then. The
// Signals of a row are never changed, but replaced.
type Signals struct {
	Awaits   []string      // the task is Waiting, and a signal of one of these names makes it ready; nil if it waits for none
	Patience time.Duration // how long it may be ready then before it starts; 0 is for ever
	Wake     Wake          // the end of its newest wait, until the attempt that follows has done its work
	Kept     []Signal      // signals that came before the task waited for them, oldest first
	Seen     []ID          // of the signals that ended earlier waits, oldest first; some of the newest
}

// WakeBy says what ended a wait for a signal or for children. The numbers are stored and must not change.
type WakeBy uint8

// The values of WakeBy.
const (
	NotWoken   WakeBy = iota
	BySignal          // a signal came
	ByTimeout         // the time came until which the task waited
	ByUser            // a user has resumed the task
	ByChildren        // its children have ended
)

var wakeNames = [...]string{NotWoken: "", BySignal: "signal", ByTimeout: "timeout", ByUser: "user", ByChildren: "children"}

// String returns the name of the value, "" for NotWoken.
func (w WakeBy) String() string { return wakeNames[min(int(w), len(wakeNames)-1)] }

// Wake is the end of a wait for a signal.
type Wake struct {
	By     WakeBy
	Signal Signal // if By is BySignal
}

// Await is a wait for a signal or for children that begins with the end of an attempt, see [Change].
type Await struct {
	Names    []string       // [AwaitsChildren] is among them if the task waits for children
	Patience time.Duration  // as of [Signals]
	Children []ChildrenWait // the wait ends when one of these is over
}

// Delivery is a signal on its way to a task, see [Change].
type Delivery struct {
	Signal
	Keep bool // a task that does not wait for it keeps it, if it has room; otherwise it is dropped
}

// Woken returns the end of the newest wait of t, see [Signals].
func (t *Task) Woken() Wake {
	if t.Signals == nil {
		return Wake{}
	}
	return t.Signals.Wake
}

// Awaits returns the names of the signals that t waits for, nil if it waits for none.
func (t *Task) Awaits() []string {
	if t.Signals == nil {
		return nil
	}
	return t.Signals.Awaits
}

// Has reports whether the task has got a signal. It forgets that of signals that ended waits long before.
func (s *Signals) Has(id ID) bool {
	return s != nil && (s.Wake.By == BySignal && s.Wake.Signal.ID == id || slices.Contains(s.Seen, id) ||
		slices.ContainsFunc(s.Kept, func(k Signal) bool { return k.ID == id }))
}

// HasRoom reports whether the task can keep another signal with so many bytes of data.
func (s *Signals) HasRoom(bytes int) bool {
	if s == nil {
		return bytes <= MaxKeptBytes
	}
	return len(s.Kept) < MaxKept && s.Bytes()+bytes <= MaxKeptBytes
}

// Bytes returns the size of the data of the signals that are kept.
func (s *Signals) Bytes() (n int) {
	for _, k := range s.Kept {
		n += len(k.Data)
	}
	return n
}

// Clone returns a deep copy, nil of nil.
func (s *Signals) Clone() *Signals {
	if s == nil {
		return nil
	}
	c := *s
	c.Awaits, c.Kept, c.Seen = slices.Clone(s.Awaits), slices.Clone(s.Kept), slices.Clone(s.Seen)
	c.Wake.Signal.Data = slices.Clone(s.Wake.Signal.Data)
	for i := range c.Kept {
		c.Kept[i].Data = slices.Clone(c.Kept[i].Data)
	}
	return &c
}

// NewSignals returns signals with the content of s, or nil if there is nothing in it.
func NewSignals(s Signals) *Signals {
	if s.Awaits == nil && s.Wake.By == NotWoken && len(s.Kept) == 0 && len(s.Seen) == 0 {
		return nil
	}
	return &s
}

// Listed returns the part of s that lists of tasks have: Awaits, and the end of the wait.
func (s *Signals) Listed() *Signals {
	if s == nil {
		return nil
	}
	return NewSignals(Signals{Awaits: s.Awaits, Wake: Wake{By: s.Wake.By}})
}

// copy returns s with slices to which others can be appended.
func (s *Signals) copy() Signals {
	if s == nil {
		return Signals{}
	}
	c := *s
	c.Awaits, c.Kept, c.Seen = slices.Clip(s.Awaits), slices.Clip(s.Kept), slices.Clip(s.Seen)
	return c
}

// reencoded returns s with other data of the signals with these IDs. It is s if s has none of them.
func (s *Signals) reencoded(data map[ID][]byte) *Signals {
	if s == nil || len(data) == 0 {
		return s
	}
	now, has := s.copy(), false
	if again, ok := data[now.Wake.Signal.ID]; ok && now.Wake.By == BySignal {
		now.Wake.Signal.Data, has = again, true
	}
	now.Kept = slices.Clone(now.Kept)
	for i := range now.Kept {
		if again, ok := data[now.Kept[i].ID]; ok {
			now.Kept[i].Data, has = again, true
		}
	}
	if !has {
		return s
	}
	return &now
}

// consume forgets the signal that ended the newest wait, but for its ID.
func (s *Signals) consume() {
	if s.Wake.By == BySignal {
		old := s.Seen[max(0, len(s.Seen)+1-MaxSeen):]
		s.Seen = append(slices.Clip(slices.Clone(old)), s.Wake.Signal.ID)
	}
	s.Wake = Wake{}
}

// deliver applies a change that delivers a signal.
func (c *Change) deliver(t *Task) bool {
	if t.hasEnded() || t.Signals.Has(c.Signal.ID) {
		return false
	}
	signal := c.Signal.Signal
	if signal.At = Stamp(c.At); len(signal.Data) == 0 {
		signal.Data = nil
	}
	if t.State != Waiting || !slices.Contains(t.Awaits(), signal.Name) {
		if !c.Signal.Keep || !t.Signals.HasRoom(len(signal.Data)) {
			return false
		}
		now := t.Signals.copy()
		now.Kept = append(now.Kept, signal)
		t.Signals = &now
		return true
	}
	patience := t.Signals.Patience
	next := Change{Ref: t.Ref(), To: Submitted, At: c.At, ReadyAt: c.At, NextEventAt: overdueAt(c.At, patience)}
	if !next.Apply(t) {
		return false
	}
	now := t.Signals.copy()
	now.Wake = Wake{By: BySignal, Signal: signal}
	t.Signals = &now
	return true
}

// notKept is what begin returns if no signal ends the wait, and byChildren if children that have ended do.
const (
	notKept    = -1
	byChildren = -2
)

// begin makes c begin its wait with the first signal that t has kept for it, and returns the place of that in Kept. If it has
// none, the children that t has then may have ended already. In both cases the task is ready again.
func (c *Change) begin(t *Task, children *Children) int {
	ended := notKept
	if t.Signals != nil {
		ended = slices.IndexFunc(t.Signals.Kept, func(k Signal) bool { return slices.Contains(c.Await.Names, k.Name) })
	}
	if ended == notKept && children.areMet(c.Await.Children) {
		ended = byChildren
	}
	if ended != notKept {
		c.To, c.ReadyAt, c.NextEventAt = Submitted, c.At, overdueAt(c.At, c.Await.Patience)
	}
	return ended
}

// signals returns the Signals of t after c. kept is what begin returned.
func (c *Change) signals(t *Task, kept int, completes bool) *Signals {
	switch {
	case c.To == Done || c.To == Failed || c.To == Cancelled:
		return nil
	case c.Await == nil && (t.Signals == nil || !completes && (t.State != Waiting || t.Signals.Awaits == nil || c.To == Waiting)):
		return t.Signals
	}
	now := t.Signals.copy()
	if completes {
		now.consume()
	}
	switch {
	case kept >= 0:
		now.Wake = Wake{By: BySignal, Signal: now.Kept[kept]}
		if now.Kept = slices.Delete(slices.Clone(now.Kept), kept, kept+1); len(now.Kept) == 0 {
			now.Kept = nil // as a store has it
		}
	case kept == byChildren:
		now.Wake = Wake{By: ByChildren}
	case c.Await != nil:
		now.Awaits, now.Patience = slices.Clone(c.Await.Names), c.Await.Patience
	case t.State == Waiting && now.Awaits != nil && c.To != Waiting:
		now.Awaits, now.Patience = nil, 0
		now.Wake = Wake{By: ByUser}
		if !t.NextEventAt.IsZero() && !Stamp(c.At).Before(t.NextEventAt) {
			now.Wake.By = ByTimeout
		}
	}
	return NewSignals(now)
}

// overdueAt returns the time from which a task that is ready at a time is overdue; zero is never.
func overdueAt(at time.Time, patience time.Duration) time.Time {
	if patience > 0 {
		return at.Add(patience)
	}
	return time.Time{}
}
