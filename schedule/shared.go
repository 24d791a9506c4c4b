package schedule

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/task"
)

// Shared is a schedule of nodes with stores of their own, as they keep it where they coordinate: one of them fires it. A node
// changes it by compare-and-swap, and adds the tasks of a fire to its store only after it has claimed them there. So a time
// is decided about by one node. If the node ends between its claim and its commit, it adds the tasks when it runs again: the
// claim stays until the node has said that they are in its store.
type Shared struct {
	Named
	Seq     uint64  `json:"seq"` // grows with each change
	State   State   `json:"state"`
	Holder  Owner   `json:"holder,omitzero"`   // the node that fires
	Claims  []Claim `json:"claims,omitempty"`  // not known to be committed
	Cancels []Fire  `json:"cancels,omitempty"` // fires with tasks that their nodes have to cancel, the oldest first
}

// Owner is a node with a store of its own. It has another ID after each start.
type Owner struct {
	ID   task.ID `json:"id"`
	Name string  `json:"name,omitempty"` // to be read
}

// Claim says that a node is to add the tasks of some fires to its store.
type Claim struct {
	Owner
	Seq   uint64  `json:"seq"` // of the change that made the claim
	Fires []Start `json:"fires"`
}

// Copy is the record of a [Shared] schedule in the store of a node: the newest state that the node has seen, and its own
// commits. It is a part of the State in the store.
type Copy struct {
	IDs     []task.ID `json:"ids"`            // all IDs of the node with this store, the present one last
	Started time.Time `json:"started"`        // when the node with the present ID ran the schedule first
	Done    uint64    `json:"done,omitempty"` // Seq of the newest claim of the node that its store has the tasks of
	Since   time.Time `json:"since"`          // when the node with the present ID first saw Seq

	Seq     uint64  `json:"seq"` // this and the fields below are as in Shared
	Holder  Owner   `json:"holder,omitzero"`
	Claims  []Claim `json:"claims,omitempty"`
	Cancels []Fire  `json:"cancels,omitempty"`
}

const (
	maxIDs     = 100 // IDs in a Copy: claims of earlier IDs no longer count as claims of the node
	maxCancels = 100 // that a Shared has: nodes that are gone cancel nothing
)

// DecodeShared decodes the result of Encode.
func DecodeShared(text []byte) (*Shared, error) {
	s := new(Shared)
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("read the shared schedule: %w", err)
	}
	return s, nil
}

// Encode returns s as it is kept.
func (s *Shared) Encode() []byte { return encode(s) }

// Begin adds the present ID of a node to c. It reports false if c has it. The node must store c before it claims anything.
func (c *Copy) Begin(id task.ID, now time.Time) bool {
	if n := len(c.IDs); n > 0 && c.IDs[n-1] == id {
		return false
	}
	c.IDs = append(slices.Clone(c.IDs), id)
	c.IDs = c.IDs[max(0, len(c.IDs)-maxIDs):]
	c.Started, c.Since = now, now
	return true
}

// Knows reports whether the node with an ID has seen s. c may be nil.
func (c *Copy) Knows(s *Shared, id task.ID) bool {
	return c != nil && c.Seq == s.Seq && len(c.IDs) > 0 && c.IDs[len(c.IDs)-1] == id
}

// isOf reports whether id is or was one of the node.
func (c *Copy) isOf(id task.ID) bool { return slices.Contains(c.IDs, id) }

// know makes s the newest state that the node has seen, and returns the state to store.
func (c *Copy) know(s *Shared, now time.Time) State {
	if c.Seq != s.Seq {
		c.Since = now
	}
	c.Seq, c.Holder, c.Claims, c.Cancels = s.Seq, s.Holder, s.Claims, s.Cancels
	state := s.State
	state.Copy = c
	return state
}

// known returns the newest state that the node has seen. n and s come from its store.
func (c *Copy) known(n Named, s State) *Shared {
	s.Copy = nil
	return &Shared{Named: n, State: s, Seq: c.Seq, Holder: c.Holder, Claims: c.Claims, Cancels: c.Cancels}
}

// Peer is a node with a store of its own, which looks at a schedule. Its functions do not wait.
type Peer struct {
	Owner
	Now      time.Time
	Patience time.Duration           // with the node that fires
	Handles  func(t *Template) bool  // the node has a handler for the tasks, and the workflow if they are workflows
	IsAlive  func(node task.ID) bool // another node is alive, as far as this one knows
}

// Join merges the state in the store of the node (n, s, with a Copy) with kept, the state in the coordinator; nil if it has
// none. isNew is true if kept lacks state that the node knows: because the schedule is new, because the node was alone before,
// or because the coordinator lost state, such as when it was restored from a backup. No run decides again about times up to
// the newest one that the node knows of.
func Join(n Named, s State, kept *Shared, created, now time.Time) (joined *Shared, isNew bool) {
	known := s.Copy.known(n, s)
	if kept == nil {
		if known.State.Decided.IsZero() {
			known.State.Decided = created
		}
		known.State.Running = slices.Clone(known.State.Running)
		for i := range known.State.Running {
			if f := &known.State.Running[i]; f.Node.IsZero() { // it was alone
				f.Node = s.Copy.IDs[len(s.Copy.IDs)-1]
			}
		}
		return known, true
	}
	isBack := kept.State.Decided.Before(known.State.Decided) && known.State.Decided.Sub(now) <= farAhead
	if kept.Seq >= known.Seq && !isBack {
		return kept, false
	}
	joined = kept
	if kept.Seq < known.Seq {
		joined = known
		joined.Claims = mergeClaims(known.Claims, kept.Claims)
	}
	one := *joined
	if isBack || one.State.Decided.Before(kept.State.Decided) {
		one.State.Decided = later(known.State.Decided, kept.State.Decided)
	}
	one.Seq = max(kept.Seq, known.Seq)
	return &one, true
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// mergeClaims returns the claims of both.
func mergeClaims(a, b []Claim) []Claim {
	all := slices.Clone(a)
	for _, one := range b {
		if !slices.ContainsFunc(all, func(c Claim) bool { return c.ID == one.ID && c.Seq == one.Seq }) {
			all = append(all, one)
		}
	}
	return all
}

// Owed returns the oldest claim of the node that still has to be committed to its store; nil if there
// is none.
func (s *Shared) Owed(c *Copy) *Claim {
	var oldest *Claim
	for i := range s.Claims {
		if one := &s.Claims[i]; c.isOf(one.ID) && one.Seq > c.Done && (oldest == nil || one.Seq < oldest.Seq) {
			oldest = one
		}
	}
	return oldest
}

// Running returns the fires of the node with tasks that are not known to have ended.
func (s *Shared) Running(c *Copy) []Fire { return c.own(s.State.Running) }

// ToCancel returns the fires of the node with tasks to cancel.
func (s *Shared) ToCancel(c *Copy) []Fire { return c.own(s.Cancels) }

// own returns the fires of the node.
func (c *Copy) own(fires []Fire) (own []Fire) {
	for _, f := range fires {
		if c.isOf(f.Node) {
			own = append(own, f)
		}
	}
	return own
}

// Concerns reports whether a node has tasks of s, or is to cancel some.
func (s *Shared) Concerns(node task.ID) bool {
	isOf := func(f Fire) bool { return f.Node == node }
	return slices.ContainsFunc(s.State.Running, isOf) || slices.ContainsFunc(s.Cancels, isOf)
}

// Settle returns s after a report of its node: the tasks of its claims are in its store, only the fires of live are still
// running, and all of its Cancels are cancelled. The result has the present ID of the node in place of earlier ones. Settle
// reports whether it has changed s.
func (s *Shared) Settle(c *Copy, self Owner, live []Fire) (settled *Shared, changed bool) {
	one := *s
	one.Claims = slices.DeleteFunc(slices.Clone(s.Claims), func(claim Claim) bool { return c.isOf(claim.ID) && claim.Seq <= c.Done })
	one.Cancels = slices.DeleteFunc(slices.Clone(s.Cancels), func(f Fire) bool { return c.isOf(f.Node) })
	one.State.Running = nil
	for _, f := range s.State.Running {
		if c.isOf(f.Node) {
			if !slices.ContainsFunc(live, func(l Fire) bool { return l.Task == f.Task }) {
				continue
			}
			if f.Node != self.ID {
				f.Node, changed = self.ID, true
			}
		}
		one.State.Running = append(one.State.Running, f)
	}
	if c.isOf(s.Holder.ID) && s.Holder != self {
		one.Holder, changed = self, true
	}
	changed = changed || len(one.Claims) != len(s.Claims) || len(one.Cancels) != len(s.Cancels) || len(one.State.Running) != len(s.State.Running)
	return &one, changed
}

// Turn returns when the node has to decide about the schedule; zero is after its next change. For the node that fires that
// is when a time, an order or a claim is due. Another node waits a while longer, and then takes the schedule over.
//
// A node also waits that long for anything that was due before it started, or that another node may have decided since: if
// the coordinator has lost its newest state, the nodes that know it restore it in that time.
func (s *Shared) Turn(c *Copy, p *Peer) (time.Time, error) {
	due, err := s.due()
	if err != nil || due.IsZero() {
		return due, err
	}
	at := due
	if due.Before(c.Started) {
		at = c.Started.Add(p.Patience)
	}
	switch isOwn := s.Holder.ID.IsZero() || c.isOf(s.Holder.ID); {
	case isOwn:
	case p.IsAlive(s.Holder.ID):
		at = later(at, later(due, c.Since).Add(p.Patience))
	default:
		at = later(at, c.Since.Add(p.Patience))
	}
	if !p.Handles(&s.Definition.Task) { // others may
		at = later(at, later(due, c.Since).Add(2*p.Patience))
	}
	return at, nil
}

// Next returns when the schedule has something to do next; zero is never.
func (s *Shared) Next() time.Time {
	due, _ := s.due()
	return due
}

// Late returns the oldest time that still needs work: Next, or the time of a claimed task that is not known to be committed;
// zero if there is none.
func (s *Shared) Late() time.Time {
	oldest := s.Next()
	for _, c := range s.Claims {
		for _, f := range c.Fires {
			if oldest.IsZero() || f.At.Before(oldest) {
				oldest = f.At
			}
		}
	}
	return oldest
}

func (s *Shared) due() (due time.Time, err error) {
	if len(s.State.Orders) > 0 {
		due = s.State.Orders[0].At
	}
	if s.State.Paused != nil || s.State.Deleted {
		return due, nil
	}
	all, err := s.Definition.times(s.Name)
	if err != nil {
		return due, fmt.Errorf("schedule %s: %w", s.Name, err)
	}
	sooner := func(at time.Time) {
		if due.IsZero() || at.Before(due) {
			due = at
		}
	}
	if at, ok := all.next(s.State.Decided); ok {
		sooner(at)
	}
	if look := s.State.lookAgain(s.State.Decided); !look.IsZero() {
		sooner(look)
	}
	return due, nil
}

// Claim returns s after the node has decided about the due times, with a claim for the tasks to add; nil if there are none.
// id is the id of the schedule. Tasks on dead nodes count as not running.
func (s *Shared) Claim(id task.ID, p *Peer) (next *Shared, claim *Claim, err error) {
	state := s.State
	state.Running = slices.DeleteFunc(slices.Clone(s.State.Running), func(f Fire) bool { return f.Node != p.ID && !p.IsAlive(f.Node) })
	d, err := Decide(id, s.Named, state, state.Decided, p.Now)
	if err != nil {
		return nil, nil, err
	}
	one := *s
	one.Named, one.State, one.Holder = d.Schedule, d.State, p.Owner
	for i, f := range one.State.Running {
		if f.Node.IsZero() {
			one.State.Running[i].Node = p.ID
		}
	}
	one.Cancels = append(slices.Clone(s.Cancels), d.Cancels...)
	one.Cancels = one.Cancels[max(0, len(one.Cancels)-maxCancels):]
	if len(d.Fires) == 0 {
		return &one, nil, nil
	}
	one.State.Last.Node = p.ID
	claim = &Claim{Owner: p.Owner, Seq: s.Seq + 1, Fires: d.Fires}
	for i := range claim.Fires {
		claim.Fires[i].Node = p.ID
	}
	one.Claims = append(slices.Clone(s.Claims), *claim)
	return &one, claim, nil
}

// Order returns s with an order of a person.
func (s *Shared) Order(o Order) *Shared {
	one := *s
	one.State.Orders = append(slices.Clone(s.State.Orders), o)
	return &one
}

// Requests returns the tasks of a claim with the definition as it is after all orders, of which t is a part, and whether the schedule is
// deleted then.
func (s *Shared) Requests(claim *Claim) (all []task.Request, t *Template, isDeleted bool) {
	definition, state := s.State.Foresee(s.Definition)
	d := Run{Schedule: Named{Name: s.Name, Definition: definition}}
	for _, f := range claim.Fires {
		all = append(all, d.Request(f))
	}
	return all, &definition.Task, state.Deleted
}

// Stored returns the state to store after the node has seen s and, if claim is not nil, with the commit of
// claim.
func (s *Shared) Stored(c *Copy, claim *Claim, now time.Time) State {
	next := *c
	if claim != nil {
		next.Done = claim.Seq
	}
	return next.know(s, now)
}
