package server

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
)

// eventsLook is the interval at which a merger compares its nodes with the members of the cluster.
const eventsLook = 250 * time.Millisecond

// eventMerger merges the events of the nodes that share a store. One goroutine has it, apart from received. The cursor of its stream has one
// of each node. See docs/adr/0164.
type eventMerger struct {
	api  *API
	of   eventQuery
	send func(*taskenginev1.EventsResponse) error

	sources []*eventSource // this node first
	lost    []lostEvents   // of nodes that have left, until the store has filled their gaps
	begun   bool           // the first response was sent
	known   time.Time      // when the members of the cluster were known last
	look    *time.Ticker
	join    func(id task.ID, at engine.EventCursor) // begins to receive the events of another node

	received chan receivedEvents
	work     sync.WaitGroup // of the sources
	stop     context.CancelFunc
}

// eventSource is a node of a merger. The goroutine of the merger owns it, apart from next.
type eventSource struct {
	id   task.ID // of the node
	at   engine.EventCursor
	next chan struct{} // receives when it may send its next response; holds one
	stop context.CancelFunc

	head     *taskenginev1.EventsResponse // its next response
	answers  bool                         // it has sent one
	lags     bool                         // a response with a gap comes
	problem  *taskenginev1.SilentNode     // why it does not answer; nil if it does
	since    time.Time                    // of the problem
	reported bool                         // the reader knows of it
}

// receivedEvents is a response of a node, or why there is none.
type receivedEvents struct {
	of  *eventSource
	res *taskenginev1.EventsResponse
	err error
}

// newEventMerger returns a merger that has sent the first response: when the nodes have answered, or do not in time. Without cursors it begins
// at the present; a cursor without a node is a time for all of them.
func (a *API) newEventMerger(ctx context.Context, of eventQuery, cursors []engine.EventCursor, send func(*taskenginev1.EventsResponse) error) (*eventMerger, error) {
	working, stop := context.WithCancel(a.forCaller(ctx))
	m := &eventMerger{
		api: a, of: of, send: send, known: a.engine.Now(), look: time.NewTicker(eventsLook), received: make(chan receivedEvents), stop: stop,
	}
	m.join = func(id task.ID, at engine.EventCursor) { m.add(working, id, at, a.eventsOf(id)) }
	own := engine.EventCursor{At: earliestOf(cursors)}
	if i := slices.IndexFunc(cursors, a.engine.HasEventsOf); i >= 0 {
		own = cursors[i]
	}
	m.add(working, a.engine.Incarnation(), own, a.ownEvents)
	if err := m.begin(ctx, cursors); err != nil {
		m.close()
		return nil, err
	}
	for {
		sent, err := m.advance(ctx)
		if !sent && err == nil {
			err = m.wait(ctx, ctx)
		}
		switch {
		case err != nil:
			m.close()
			return nil, err
		case sent:
			return m, nil
		}
	}
}

// begin begins to receive the events of the other nodes from their cursors on.
func (m *eventMerger) begin(ctx context.Context, cursors []engine.EventCursor) error {
	members, known := m.others()
	earliest := earliestOf(cursors)
	for _, c := range cursors {
		switch {
		case c.Feed.IsZero(), m.api.engine.HasEventsOf(c):
		case !known || slices.Contains(members, c.Feed):
			m.join(c.Feed, c)
		default:
			if err := m.lose(ctx, c); err != nil {
				return err
			}
		}
	}
	for _, id := range members {
		if !m.has(id) {
			m.join(id, engine.EventCursor{At: earliest})
		}
	}
	return nil
}

// earliestOf returns the earliest time of cursors; zero if there are none.
func earliestOf(cursors []engine.EventCursor) (at time.Time) {
	for i, c := range cursors {
		if i == 0 || c.At.Before(at) {
			at = c.At
		}
	}
	return at
}

// has reports whether the events of a node are received.
func (m *eventMerger) has(id task.ID) bool {
	return slices.ContainsFunc(m.sources, func(s *eventSource) bool { return s.id == id })
}

// others returns the other nodes that share the store, if they are known.
func (m *eventMerger) others() (ids []task.ID, known bool) {
	all := m.api.engine.Members()
	for _, member := range all {
		if !m.api.peers.IsSelf(&member) {
			ids = append(ids, member.Incarnation)
		}
	}
	return ids, all != nil || m.api.engine.IsMember()
}

// add begins to receive the events of a node from a cursor on, which is the present if it is zero, and all that the node has since a
// time if it has no number.
func (m *eventMerger) add(working context.Context, id task.ID, at engine.EventCursor, receive receiveEvents) {
	cursor := ""
	switch {
	case !at.Feed.IsZero():
		cursor = at.String()
	case !at.At.IsZero():
		at.Feed = id
		cursor = at.String()
	default:
		at = engine.EventCursor{Feed: id, At: m.known}
	}
	s := &eventSource{id: id, at: at, next: make(chan struct{}, 1), lags: cursor != "" && at.Seq == 0}
	working, s.stop = context.WithCancel(working)
	m.sources = append(m.sources, s)
	again := at.String() // if the node does not answer at first, the present is this time
	m.work.Go(func() { m.receive(working, s, cursor, again, receive) })
}

// next implements [eventStream].
func (m *eventMerger) next(ctx, until context.Context) error {
	for {
		if sent, err := m.advance(ctx); sent || err != nil {
			return err
		}
		switch err := m.wait(ctx, until); {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case until.Err() != nil:
			return m.emit(&taskenginev1.EventsResponse{})
		case err != nil:
			return err
		}
	}
}

// wait waits until there may be something to send, or until ends.
func (m *eventMerger) wait(ctx, until context.Context) error {
	select {
	case r := <-m.received:
		m.take(r)
		return nil
	case <-m.look.C:
		return m.compare(ctx)
	case <-until.Done():
		return context.Cause(until)
	}
}

// take takes a response of a node.
func (m *eventMerger) take(r receivedEvents) {
	s := r.of
	switch {
	case !slices.Contains(m.sources, s): // it has left
	case r.err != nil:
		if s.problem == nil {
			s.since = time.Now()
		}
		s.problem = m.problemOf(s.id, r.err)
	default:
		s.problem, s.reported, s.answers, s.head = nil, false, true, r.res
		if r.res.GetGap() != nil {
			s.lags = false
		}
	}
}

// advance sends a response, if there is something to send.
func (m *eventMerger) advance(ctx context.Context) (sent bool, err error) {
	if !m.begun {
		if slices.ContainsFunc(m.sources, func(s *eventSource) bool { return !s.answers && s.problem == nil }) {
			return false, nil
		}
		m.begun = true
		return true, m.emit(&taskenginev1.EventsResponse{Node: text(m.api.engine.Name()), Silent: m.silent(0)})
	}
	if silent := m.silent(m.api.peers.Timeout()); silent != nil {
		return true, m.emit(&taskenginev1.EventsResponse{Silent: silent})
	}
	gaps := len(m.lost) > 0
	for _, s := range m.sources {
		if s.head.GetGap() != nil {
			gaps = true
			continue
		}
		if s.head == nil {
			continue
		}
		if sent, err = m.pass(s); sent || err != nil {
			return sent, err
		}
	}
	if !gaps || slices.ContainsFunc(m.sources, func(s *eventSource) bool { return s.lags && s.problem == nil }) {
		return false, nil // the store fills the gaps of all of them together
	}
	return true, m.fill(ctx)
}

// silent returns the nodes that have not answered for a time, if the reader does not know of each.
func (m *eventMerger) silent(patience time.Duration) (silent []*taskenginev1.SilentNode) {
	isNew := false
	for _, s := range m.sources {
		if s.problem == nil || time.Since(s.since) < patience {
			continue
		}
		silent = append(silent, s.problem)
		isNew = isNew || !s.reported
		s.reported = true
	}
	if !isNew {
		return nil
	}
	return silent
}

// pass sends the events of the next response of a node, if there are any, and has the node send another one.
func (m *eventMerger) pass(s *eventSource) (sent bool, err error) {
	res := s.head
	before, after := m.around(s)
	for _, e := range res.GetEvents() {
		e.Cursor = before + s.cursorOf(e.GetCursor()).String() + after
	}
	s.head, s.at = nil, s.cursorOf(res.GetCursor())
	if res.GetGap() != nil || len(res.GetEvents()) > 0 {
		sent, err = true, m.emit(res)
	}
	s.next <- struct{}{}
	return sent, err
}

// compare begins to receive the events of nodes that have joined, and gives up those that have left. A node that has joined has a gap, as
// nobody has read its events so far.
func (m *eventMerger) compare(ctx context.Context) error {
	now := m.api.engine.Now()
	members, known := m.others()
	if !known {
		return nil
	}
	own := m.sources[0]
	own.id = m.api.engine.Incarnation() // it may have joined again
	own.at.Feed = own.id
	for _, s := range slices.Clone(m.sources[1:]) {
		if slices.Contains(members, s.id) {
			continue
		}
		if err := m.lose(ctx, s.at); err != nil {
			return err
		}
		s.stop()
		m.sources = slices.DeleteFunc(m.sources, func(o *eventSource) bool { return o == s })
	}
	for _, id := range members {
		if !m.has(id) {
			m.join(id, engine.EventCursor{At: m.known})
		}
	}
	m.known = now
	return nil
}

// emit sends a response with the cursor behind all that was sent.
func (m *eventMerger) emit(res *taskenginev1.EventsResponse) error {
	var all []string
	for _, s := range m.sources {
		all = append(all, s.at.String())
	}
	for _, l := range m.lost {
		all = append(all, l.at.String())
	}
	res.Cursor = strings.Join(all, cursorBreak)
	return m.send(res)
}

// around returns the parts of the cursor before and after that of a node.
func (m *eventMerger) around(of *eventSource) (before, after string) {
	isAfter := false
	for _, s := range m.sources {
		switch {
		case s == of:
			isAfter = true
		case isAfter:
			after += cursorBreak + s.at.String()
		default:
			before += s.at.String() + cursorBreak
		}
	}
	for _, l := range m.lost {
		after += cursorBreak + l.at.String()
	}
	return before, after
}

// close implements [eventStream].
func (m *eventMerger) close() {
	m.look.Stop()
	m.stop()
	m.work.Wait()
}
