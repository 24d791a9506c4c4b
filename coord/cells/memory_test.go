package cells_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taskengine/taskengine/coord/cells"
)

// memory is a coordinator in memory.
type memory struct {
	mu       sync.Mutex
	version  uint64                  // guarded by mu: of the newest change
	cells    map[string]*entry       // guarded by mu: removed ones, too
	watchers map[*watcher]bool       // guarded by mu
	sessions map[*memorySession]bool // guarded by mu
	most     int                     // guarded by mu: bytes that a value may have; a larger one ends the session
	bound    int                     // guarded by mu: the result of MaxValue; 0: most
	reverts  *past                   // guarded by mu: the state to which it goes back after the next change by a session; nil: it does not
	written  int                     // guarded by mu: bytes of all values that were stored
	writes   int                     // guarded by mu: requests that change cells if these are as expected
}

type entry struct {
	cells.Cell
	owner *memorySession // nil: not ephemeral
}

type watcher struct {
	prefix string
	queue  []cells.Update // guarded by memory.mu
	more   chan struct{}  // holds one: queue has something
	cut    chan struct{}  // closed when the coordinator goes back in time
}

func newMemory() *memory {
	return &memory{cells: map[string]*entry{}, watchers: map[*watcher]bool{}, sessions: map[*memorySession]bool{}, most: 1 << 20}
}

// swap is called with mu held. owner is nil for a change by no session.
func (m *memory) swap(owner *memorySession, c cells.Change) cells.Outcome {
	key := c.Was.Key
	e := m.cells[key]
	if e == nil {
		e = &entry{Cell: cells.Cell{Key: key}}
		m.cells[key] = e
	}
	if e.Exists() != c.Was.Exists() || e.Exists() && (e.Version != c.Was.Version || !bytes.Equal(e.Value, c.Was.Value)) {
		return cells.Outcome{Now: e.Cell}
	}
	if e.Exists() || c.Value != nil {
		if !e.Exists() {
			if e.owner = nil; c.Ephemeral {
				e.owner = owner
			}
		}
		m.set(e, c.Value)
	}
	return cells.Outcome{Swapped: true, Now: e.Cell}
}

// set is called with mu held.
func (m *memory) set(e *entry, value []byte) {
	m.version++
	m.written += len(value)
	e.Cell = cells.Cell{Key: e.Key, Value: bytes.Clone(value), Version: m.version}
	for w := range m.watchers {
		if strings.HasPrefix(e.Key, w.prefix) {
			w.queue = append(w.queue, cells.Update{Cells: []cells.Cell{e.Cell}})
			select {
			case w.more <- struct{}{}:
			default:
			}
		}
	}
}

// expire ends a session. It is called with mu held.
func (m *memory) expire(s *memorySession) {
	if s.over {
		return
	}
	s.over = true
	for _, key := range slices.Sorted(maps.Keys(m.cells)) {
		if e := m.cells[key]; e.owner == s && e.Exists() {
			m.set(e, nil)
		}
	}
}

// past is a copy of a coordinator.
type past struct {
	version uint64
	cells   map[string]entry
	live    map[*memorySession]bool
}

func (m *memory) keep() *past {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &past{version: m.version, cells: map[string]entry{}, live: map[*memorySession]bool{}}
	for key, e := range m.cells {
		p.cells[key] = *e
	}
	for s := range m.sessions {
		p.live[s] = !s.over
	}
	return p
}

// goBack replaces the state of the coordinator by a copy, in which the leases of sessions begin again. Then it makes a number
// of changes that concern no node.
func (m *memory) goBack(p *past, changes uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.revert(p, changes)
}

// revert is goBack with mu held.
func (m *memory) revert(p *past, changes uint64) {
	m.version = p.version + changes
	m.cells = map[string]*entry{}
	for key, e := range p.cells {
		m.cells[key] = &e
	}
	for s := range m.sessions {
		if s.over = !p.live[s]; !s.over {
			s.end.Reset(s.lease)
		}
	}
	for w := range m.watchers {
		close(w.cut)
		w.queue = nil
		delete(m.watchers, w)
	}
}

// touch changes no value of the cells with a prefix, only their versions.
func (m *memory) touch(prefix string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, e := range m.cells {
		if strings.HasPrefix(key, prefix) && e.Exists() {
			m.set(e, e.Value)
		}
	}
}

// client is the connection of one node to a coordinator in memory.
type client struct {
	*memory
	faults    *rand.Rand     // nil: none
	late      time.Duration  // guarded by memory.mu: by how much the next change of a session is late, after an error; 0: it is not
	lost      bool           // guarded by memory.mu: the answer to the next change of a session is lost
	calls     int            // guarded by memory.mu: so far, of all kinds
	slow      time.Duration  // guarded by memory.mu: how long a session's connection is busy with each change and renewal
	line      chan struct{}  // holds one while that is busy
	transfers sync.WaitGroup // requests under way

	gate sync.Mutex
	cut  chan struct{} // guarded by gate: closed while the connection is cut
	heal chan struct{} // guarded by gate: closed while it is not
}

func (m *memory) connect(faults *rand.Rand) *client {
	c := &client{memory: m, faults: faults, line: make(chan struct{}, 1), cut: make(chan struct{}), heal: make(chan struct{})}
	close(c.heal)
	return c
}

// sever cuts the connection for a time.
func (c *client) sever(d time.Duration) {
	c.gate.Lock()
	defer c.gate.Unlock()
	close(c.cut)
	c.heal = make(chan struct{})
	time.AfterFunc(d, func() {
		c.gate.Lock()
		defer c.gate.Unlock()
		c.cut = make(chan struct{})
		close(c.heal)
	})
}

func (c *client) state() (cut, heal chan struct{}) {
	c.gate.Lock()
	defer c.gate.Unlock()
	return c.cut, c.heal
}

var errFault = errors.New("the answer was lost")

// reach waits until the connection is not cut.
func (c *client) reach(ctx context.Context) error {
	_, heal := c.state()
	select {
	case <-heal:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// call calls fn with the lock of the coordinator. Now and then, if there may be faults, it does so and returns an error,
// or does so some time after it has returned one, or does not at all.
func (c *client) call(ctx context.Context, faulty bool, fn func()) error {
	if err := c.reach(ctx); err != nil {
		return err
	}
	late := func() { c.mu.Lock(); defer c.mu.Unlock(); fn() }
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	if faulty && c.faults != nil {
		switch c.faults.IntN(20) {
		case 0:
			return errFault
		case 1:
			fn()
			return errFault
		case 2:
			time.AfterFunc(time.Duration(c.faults.IntN(100))*time.Millisecond, late)
			return errFault
		}
	}
	fn()
	return nil
}

// transfer waits for the requests before it and then for the time that a number of changes take, if requests are slow. The
// coordinator carries the request out also if ctx ends before.
func (c *client) transfer(ctx context.Context, changes int) error {
	c.mu.Lock()
	slow := time.Duration(changes) * c.slow
	c.mu.Unlock()
	if slow == 0 {
		return nil
	}
	done := make(chan struct{})
	c.transfers.Go(func() {
		defer close(done)
		c.line <- struct{}{}
		time.Sleep(slow)
		<-c.line
	})
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *client) Open(ctx context.Context, lease time.Duration) (cells.Session, error) {
	s := &memorySession{client: c, lease: lease}
	err := c.call(ctx, true, func() {
		s.end = time.AfterFunc(lease, func() { c.mu.Lock(); defer c.mu.Unlock(); c.expire(s) })
		c.sessions[s] = true
	})
	return s, err
}

func (c *client) Read(ctx context.Context, keys ...string) ([]cells.Cell, error) {
	var all []cells.Cell
	err := c.call(ctx, len(keys) > 1, func() { // the callers of calls that read one cell get the error
		for _, key := range keys {
			if e := c.cells[key]; e != nil {
				all = append(all, e.Cell)
			} else {
				all = append(all, cells.Cell{Key: key})
			}
		}
	})
	if err != nil {
		return nil, err // a late request may still add to them
	}
	return all, nil
}

func (c *client) Swap(ctx context.Context, changes ...cells.Change) ([]cells.Outcome, error) {
	return c.change(ctx, nil, changes)
}

// misbehaves makes a change late or loses the answer to it, if a test wants that.
func (c *client) misbehaves(by *memorySession, changes []cells.Change) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	late, lost := c.late, c.lost
	c.late, c.lost = 0, false
	apply := func() {
		for _, change := range changes {
			c.swap(by, change)
		}
	}
	switch {
	case late > 0:
		time.AfterFunc(late, func() { c.mu.Lock(); defer c.mu.Unlock(); apply() })
	case lost:
		apply()
	}
	return late > 0 || lost
}

// MaxValue implements [cells.Store].
func (c *client) MaxValue() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return cmp.Or(c.bound, c.most)
}

// refuse returns the error for a value that is too large.
func (c *client) refuse(changes []cells.Change) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, change := range changes {
		if size := len(change.Value); size > c.most {
			c.bound = 0
			return &cells.TooLargeError{Key: change.Was.Key, Size: size, Most: c.most}
		}
	}
	return nil
}

func (c *client) change(ctx context.Context, by *memorySession, changes []cells.Change) ([]cells.Outcome, error) {
	if err := c.refuse(changes); err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.writes++
	c.mu.Unlock()
	if by != nil && c.misbehaves(by, changes) {
		return nil, errFault
	}
	if by != nil {
		if err := c.transfer(ctx, len(changes)); err != nil {
			return nil, err
		}
	}
	var outcomes []cells.Outcome // this and over belong to the function when it may be late
	over := false
	err := c.call(ctx, by != nil, func() {
		if over = by != nil && by.over; over {
			return
		}
		made := make([]cells.Outcome, 0, len(changes))
		for _, change := range changes {
			made = append(made, c.swap(by, change))
		}
		outcomes = made
		if by != nil && c.reverts != nil {
			c.revert(c.reverts, 0)
			c.reverts = nil
		}
	})
	if err != nil {
		return nil, err
	}
	if over {
		return nil, cells.ErrOver
	}
	return outcomes, nil
}

func (c *client) List(ctx context.Context, prefix string) (all []cells.Cell, err error) {
	err = c.call(ctx, false, func() {
		for key, e := range c.cells {
			if strings.HasPrefix(key, prefix) && e.Exists() {
				all = append(all, e.Cell)
			}
		}
	})
	return all, err
}

func (c *client) Watch(ctx context.Context, prefix string, fn func(cells.Update)) error {
	if err := c.reach(ctx); err != nil {
		return nil
	}
	w := &watcher{prefix: prefix, more: make(chan struct{}, 1), cut: make(chan struct{})}
	c.mu.Lock()
	whole := cells.Update{Whole: true, At: c.version}
	for key, e := range c.cells {
		if strings.HasPrefix(key, prefix) && e.Exists() {
			whole.Cells = append(whole.Cells, e.Cell)
		}
	}
	c.watchers[w] = true
	c.mu.Unlock()
	defer func() { c.mu.Lock(); defer c.mu.Unlock(); delete(c.watchers, w) }()
	fn(whole)
	for {
		cut, _ := c.state()
		select {
		case <-ctx.Done():
			return nil
		case <-cut:
			return errors.New("the connection was cut")
		case <-w.cut:
			return errors.New("the coordinator was restarted")
		case <-w.more:
			c.mu.Lock()
			queue := w.queue
			w.queue = nil
			c.mu.Unlock()
			for _, u := range queue {
				fn(u)
			}
		}
	}
}

type memorySession struct {
	*client
	lease time.Duration
	end   *time.Timer
	over  bool   // guarded by memory.mu
	known uint64 // guarded by memory.mu: the session knows the members that were made up to this version
}

func (s *memorySession) Lease() time.Duration { return s.lease }

func (s *memorySession) Renew(ctx context.Context) (cells.Renewal, error) {
	if err := s.transfer(ctx, 1); err != nil {
		return cells.Renewal{}, err
	}
	over := false
	var r cells.Renewal
	err := s.call(ctx, true, func() {
		if over = s.over; over {
			return
		}
		s.end.Reset(s.lease)
		r.At = s.version
		for key, e := range s.cells {
			if strings.HasPrefix(key, cells.Members) && e.Exists() && e.Version > s.known {
				r.Members = append(r.Members, e.Cell)
			}
		}
	})
	if err != nil {
		return cells.Renewal{}, err // a late request may still add to it
	}
	if over {
		return cells.Renewal{}, cells.ErrOver
	}
	s.mu.Lock()
	s.known = r.At // a request that is late may read it
	s.mu.Unlock()
	return r, nil
}

func (s *memorySession) Lag() time.Duration { return 0 }

func (s *memorySession) Swap(ctx context.Context, changes ...cells.Change) ([]cells.Outcome, error) {
	return s.change(ctx, s, changes)
}

func (s *memorySession) Abandon() {}

func (s *memorySession) End(ctx context.Context) error {
	return s.call(ctx, true, func() { s.end.Stop(); s.expire(s) })
}

// requests returns how many requests there were so far.
func (c *client) requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}

// bytes returns how many bytes of values were stored so far.
func (m *memory) bytes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.written
}
