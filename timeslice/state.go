package timeslice

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// State is the checkpoint of the cursor of a platform.
type State struct {
	Type     string    `json:"type"` // of the tasks of the slices
	Layers   Layers    `json:"layers"`
	Revision uint64    `json:"revision"`          // of the values of the source in Layers
	Version  uint64    `json:"version,omitempty"` // how often an order has changed which values the platform has of its own, or that it was added or removed; counted when the order is given
	Used     *Settings `json:"used,omitempty"`    // the settings in force: the newest ones that can be; nil before the first run
	Problem  string    `json:"problem,omitempty"` // why the settings of Layers cannot be; "" if they are Used

	Cursor time.Time     `json:"cursor,omitzero"`  // the start of the next slice; zero before the first run
	First  time.Time     `json:"first,omitzero"`   // the earliest place that the cursor had
	Ran    time.Time     `json:"ran,omitzero"`     // the time of the last run
	Epoch  uint64        `json:"epoch,omitempty"`  // how often the cursor was moved
	Redone uint64        `json:"redone,omitempty"` // the number of the newest redo of the source that was carried out
	Open   []Slice       `json:"open,omitempty"`   // that had not ended at the last look, in the order in which they were made
	Length time.Duration `json:"length,omitempty"` // of slices while the platform is behind
	Pace   time.Duration `json:"pace,omitempty"`   // until the next look while MaxOpen slices are open

	FailedInRow int       `json:"failed_in_row,omitempty"`
	RowSince    time.Time `json:"row_since,omitzero"` // when the first of these was seen
	Stopped     *Stop     `json:"stopped,omitempty"`  // by the breaker; nil if it is not
	Paused      *Pause    `json:"paused,omitempty"`
	Removed     bool      `json:"removed,omitempty"`
	ByFile      bool      `json:"by_file,omitempty"` // the configuration has removed it

	Rewound *Rewound `json:"rewound,omitempty"` // the last time; nil: never

	Held   Held `json:"held,omitzero"`    // of a node with a store of its own
	Parked bool `json:"parked,omitempty"` // the last run has made nothing, because another node holds the platform, or none

	Orders  []Order `json:"orders,omitempty"`  // that no run has carried out, the oldest first
	History []Event `json:"history,omitempty"` // the newest changes by people, the oldest first

	Made    uint64 `json:"made,omitempty"`     // slices that were made
	Done    uint64 `json:"done,omitempty"`     // slices that are done
	Failed  uint64 `json:"failed,omitempty"`   // how often a slice has failed
	GivenUp uint64 `json:"given_up,omitempty"` // slices that were cancelled or failed by hand
}

// Bounds of a state.
const (
	MaxFailed  = 1000 // failed slices: with more, no slices are made
	MaxHistory = 100
	MaxOrders  = 100
)

// Stop says that the breaker has stopped a platform.
type Stop struct {
	Since  time.Time `json:"since"`
	From   time.Time `json:"from"` // when the first of the failures was seen
	Next   time.Time `json:"next"` // when a slice is tried again
	Probes int       `json:"probes,omitempty"`
}

// Pause says since when a platform is paused, and why.
type Pause struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason,omitempty"`
}

// Event is a change by a person.
type Event struct {
	At   time.Time `json:"at"`
	By   string    `json:"by,omitempty"`
	What string    `json:"what"`
}

// Order is a request of a person to a platform, or of its source. Exactly one of the fields below Reason is set.
type Order struct {
	At     time.Time `json:"at"`
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`

	Source *FromSource       `json:"source,omitempty"`
	Set    map[string]string `json:"set,omitempty"` // values of the platform; empty ones are unset
	Pause  bool              `json:"pause,omitempty"`
	Resume bool              `json:"resume,omitempty"`
	Add    bool              `json:"add,omitempty"` // after Remove
	Remove bool              `json:"remove,omitempty"`
	ByFile bool              `json:"by_file,omitempty"` // the order is that of a configuration that has changed
	Reset  *time.Time        `json:"reset,omitempty"`   // the new cursor
	Retry  *Range            `json:"retry,omitempty"`   // of failed slices
	Take   *Hold             `json:"take,omitempty"`    // the node has taken the platform
}

// FromSource are the values that a platform has from its source.
type FromSource struct {
	Revision uint64 `json:"revision"`
	Type     string `json:"type"`
	File     Values `json:"file,omitzero"`
	Live     Values `json:"live,omitzero"`
	FileOwn  Values `json:"file_own,omitzero"`

	Platforms int   `json:"platforms,omitempty"` // that the configuration of the source has
	Redo      *Redo `json:"redo,omitempty"`      // the newest
}

// Range is a part of the time line, half open. A zero time has no bound there.
type Range struct {
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// has reports whether a slice is in the range, with a part of it.
func (r *Range) has(s *Slice) bool {
	return s.End.After(r.From) && (r.Until.IsZero() || s.Start.Before(r.Until))
}

// Low returns the low-water mark: every slice before it has ended.
func (s *State) Low() time.Time {
	low := s.Cursor
	for i := range s.Open {
		if s.Open[i].Start.Before(low) {
			low = s.Open[i].Start
		}
	}
	return low
}

// Late returns for how long the earliest slice of the platform p that has not ended has been due at a time; 0 if none is, or the
// platform was removed.
func (s *State) Late(p Platform, now time.Time) time.Duration {
	if s.Used == nil || s.Removed || s.Cursor.IsZero() {
		return 0
	}
	due := s.Cursor.Add(s.Used.Interval)
	for i := range s.Open {
		if end := s.Open[i].End; end.Before(due) {
			due = end
		}
	}
	return max(0, now.Sub(due.Add(s.Used.Lag+p.Delay(s.Used.Spread))))
}

// Running returns how many slices are open and have not failed, and how many have failed.
func (s *State) Running() (running, failed int) {
	for i := range s.Open {
		if s.Open[i].Failed.IsZero() {
			running++
		} else {
			failed++
		}
	}
	return running, failed
}

// Give adds orders. The next run of the cursor carries them out.
func (s *State) Give(orders ...Order) {
	if len(orders) == 0 {
		return
	}
	if from := orders[0].Source; from != nil { // it has more than an earlier one
		s.Orders = slices.DeleteFunc(s.Orders, func(o Order) bool {
			if o.Source != nil {
				from.Redo = from.Redo.with(o.Source.Redo, s.Redone)
			}
			return o.Source != nil
		})
	}
	s.Orders = append(s.Orders, orders...)
	isChanged := false
	for i := range orders {
		o := &orders[i]
		isChanged = isChanged || o.Set != nil || o.Add || o.Remove
		if o.Take != nil {
			s.Version = max(s.Version, o.Take.Version)
		}
	}
	if isChanged || s.Version == 0 {
		s.Version++
	}
}

// WillBeRemoved reports whether the platform is removed after its orders.
func (s *State) WillBeRemoved() bool {
	is := s.Removed
	for i := range s.Orders {
		switch o := &s.Orders[i]; {
		case o.Add:
			is = false
		case o.Remove:
			is = true
		case o.Take != nil:
			is = o.Take.Removed
		}
	}
	return is
}

// Pending returns the layers after the orders.
func (s *State) Pending() Layers {
	after := State{Revision: s.Revision, Layers: s.Layers}
	for _, o := range s.Orders {
		if o.Source != nil || o.Set != nil || o.Take != nil {
			after.Orders = append(after.Orders, o)
		}
	}
	r := Run{State: after}
	r.obey()
	return r.State.Layers
}

// Knows reports whether the platform has the values of a revision of its source, or will have them after its orders.
func (s *State) Knows(revision uint64) bool {
	return s.Revision >= revision || slices.ContainsFunc(s.Orders, func(o Order) bool { return o.Source != nil && o.Source.Revision >= revision })
}

// Encode returns the checkpoint.
func (s *State) Encode() []byte { return encode(s) }

// Decode reads the payload and the checkpoint of a cursor.
func Decode(payload, checkpoint []byte) (p Platform, s State, err error) {
	if err := json.Unmarshal(payload, &p); err != nil {
		return p, s, fmt.Errorf("read the platform: %w", err)
	}
	if len(checkpoint) > 0 {
		if err := json.Unmarshal(checkpoint, &s); err != nil {
			return p, s, fmt.Errorf("read the state of %s: %w", p, err)
		}
	}
	return p, s, nil
}

// String returns the order in words.
func (o *Order) String() string {
	var what string
	switch {
	case o.Source != nil:
		what = fmt.Sprintf("values of the source, revision %d", o.Source.Revision)
	case o.Set != nil:
		var all []string
		for _, name := range slices.Sorted(maps.Keys(o.Set)) {
			all = append(all, name+"="+o.Set[name])
		}
		what = "set " + strings.Join(all, " ")
	case o.Pause:
		what = "pause"
	case o.Resume:
		what = "resume"
	case o.Add:
		what = "add"
	case o.Remove:
		what = "remove"
	case o.Reset != nil:
		what = "reset the cursor to " + o.Reset.UTC().Format(time.RFC3339Nano)
	case o.Retry != nil:
		what = "retry failed slices"
	case o.Take != nil:
		what = "taken by node " + o.Take.Name
		if !o.Take.Low.IsZero() {
			what += " from " + o.Take.Low.UTC().Format(time.RFC3339Nano) + " on"
		}
	}
	if o.Reason != "" {
		what += ": " + o.Reason
	}
	return what
}
