package timeslice

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/task"
)

// Hold is the record of a platform where nodes with stores of their own coordinate. One of them holds the platform: it makes the slices, in
// its store, and writes here how far it is. The record changes by compare-and-swap. When the node is gone for a while, another one takes the platform
// over from Low on. Slices after that which the first node had made are fetched twice, and none is left out.
type Hold struct {
	Owner   task.ID   `json:"owner,omitzero"` // the ID of the node when it took the platform, which its store knows; zero: it was released
	Node    task.ID   `json:"node,omitzero"`  // the present ID of the node
	Name    string    `json:"name,omitempty"` // of the node, to be read
	Term    uint64    `json:"term"`           // grows with each owner
	Created time.Time `json:"created"`        // when the platform was added
	Low     time.Time `json:"low,omitzero"`   // every slice before it has ended; zero before the first one
	Own     Values    `json:"own,omitzero"`   // of the platform, set while nodes run
	Version uint64    `json:"version,omitempty"`
	Paused  *Pause    `json:"paused,omitempty"`
	Removed bool      `json:"removed,omitempty"` // by hand
}

// Held is what the store of a node knows of the [Hold] of a platform.
type Held struct {
	Owner   task.ID   `json:"owner"` // of the newest Hold that the node has had
	Term    uint64    `json:"term"`
	Created time.Time `json:"created"`
}

// DecodeHold decodes the result of Encode.
func DecodeHold(text []byte) (*Hold, error) {
	h := new(Hold)
	if err := json.Unmarshal(text, h); err != nil {
		return nil, fmt.Errorf("read which node holds the platform: %w", err)
	}
	return h, nil
}

// Encode returns h as it is kept.
func (h *Hold) Encode() []byte { return encode(h) }

// IsTakenBy reports whether the state in the store of a node is that of h: it was stored after the node had taken the platform.
func (h *Hold) IsTakenBy(s *State) bool {
	if s.Held.Owner == h.Owner && s.Held.Term == h.Term {
		return true
	}
	for i := range s.Orders {
		if take := s.Orders[i].Take; take != nil && take.Owner == h.Owner && take.Term == h.Term {
			return true
		}
	}
	return false
}

// Peer is a node with a store of its own, which looks at a platform.
type Peer struct {
	ID       task.ID // another one after each start
	Name     string
	Patience time.Duration           // with a holder that is gone, and after a start with others that may know more than the coordinator
	IsAlive  func(node task.ID) bool // another node is alive, as far as this one knows
}

// View is a platform as a node sees it.
type View struct {
	Kept    *Hold  // nil: there is no record
	State   *State // in the store of the node
	Created time.Time
	MayHold bool          // the configuration lets the node hold the platform
	For     time.Duration // for how long the node has seen Kept as it is, and its holder gone
}

// Look returns the record that the node wants to swap Kept for; nil if that may stay. isHeld says that the node holds the
// platform then. It may make slices when its state is that of the record, see [Hold.IsTakenBy].
func (p *Peer) Look(v View) (next *Hold, isHeld bool) {
	kept, s := v.Kept, v.State
	mayHold := v.MayHold && (!s.Removed || !s.ByFile)
	switch {
	case s.Held.Term > 0 && (kept == nil || kept.Term < s.Held.Term): // the coordinator has lost the newest state
		if !mayHold {
			return nil, false
		}
		return p.take(v.known(), s.Held.Term+1), true
	case kept == nil:
		if !mayHold || v.For < p.Patience {
			return nil, false
		}
		return p.take(v.known(), 1), true
	case kept.Owner.IsZero():
		if !mayHold {
			return nil, false
		}
		return p.take(*kept, kept.Term+1), true
	case kept.Owner != p.ID && kept.Owner != s.Held.Owner: // another node
		if !mayHold || v.For < p.Patience || p.IsAlive(kept.Node) {
			return nil, false
		}
		return p.take(*kept, kept.Term+1), true
	case kept.Node != p.ID && p.IsAlive(kept.Node): // this node before its start, as far as is known; or one with a copy of its store
		return nil, false
	}
	one := *kept
	if kept.IsTakenBy(s) && len(s.Orders) == 0 {
		one = v.known()
		one.Owner, one.Term = kept.Owner, kept.Term
	}
	if one.Node, one.Name = p.ID, p.Name; !mayHold {
		one.Owner, one.Node, one.Name = task.ID{}, task.ID{}, ""
	}
	if string(one.Encode()) == string(kept.Encode()) {
		return nil, mayHold
	}
	return &one, mayHold
}

// take returns the record of a platform that the node takes.
func (p *Peer) take(h Hold, term uint64) *Hold {
	h.Owner, h.Node, h.Name, h.Term = p.ID, p.ID, p.Name, term
	return &h
}

// known returns the record with what the store of the node knows, without an owner.
func (v *View) known() Hold {
	s := v.State
	h := Hold{Created: v.Created, Own: s.Pending().Own, Version: s.Version, Paused: s.Paused, Removed: s.Removed && !s.ByFile}
	if !s.Held.Created.IsZero() {
		h.Created = s.Held.Created
	}
	if !s.Cursor.IsZero() {
		h.Low = s.Low()
	}
	return h
}

// taken makes the state that of a platform that the node has taken.
func (s *State) taken(h *Hold) {
	s.Held = Held{Owner: h.Owner, Term: h.Term, Created: h.Created}
	s.Layers.Own, s.Paused, s.Removed, s.ByFile = h.Own, h.Paused, h.Removed, false
	s.FailedInRow, s.Stopped, s.Length = 0, nil, 0
	if h.Low.IsZero() || h.Low.Equal(s.Cursor) {
		return
	}
	s.Cursor = h.Low
	if s.First.IsZero() || s.Cursor.Before(s.First) {
		s.First = s.Cursor
	}
	s.Epoch++
}
