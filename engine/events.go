package engine

import (
	"context"
	"time"

	"github.com/taskengine/taskengine/engine/internal/feed"
	"github.com/taskengine/taskengine/filter"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// EventCursor is a position in the events of a node: the zero value is the present. It outlives the node, as a time.
type EventCursor = feed.Cursor

// Event is a change of a task that this node has made, with the task as it is afterwards.
type Event = feed.Event

// EventGap says that events are missing, and from when on.
type EventGap = feed.Gap

// EventPage is the answer of [Engine.Events].
type EventPage struct {
	Gap    *EventGap // before the events; nil if none is missing
	Events []Event
	Next   EventCursor // where to go on
}

// ParseEventCursor reads the text of an [EventCursor], or a time.
func ParseEventCursor(text string) (EventCursor, error) { return feed.ParseCursor(text) }

// eventsRead is how many events are read with the lock of the engine, and eventsRest is how long Events lets others follow an
// event for which it has waited.
const (
	eventsRead = 500
	eventsRest = 20 * time.Millisecond
)

// Events returns changes that this node has made since a cursor and that f selects, or waits for the next one until ctx ends: then
// the page is empty, and its cursor is newer. f must have no terms of payloads and results, which events do not have.
//
// The node keeps the newest 8192 changes in memory, while somebody reads. If changes of the time of the cursor are missing,
// because the reader was too slow or the node was restarted, the page has a gap, at once: [Engine.ChangedSince] finds the tasks
// that they were of. An engine that has failed or is closed has no more events: when the reader has had all of them, Events returns
// why, also if ctx has ended. Changes that other nodes make, or programs by SQL, are not among the events.
func (e *Engine) Events(ctx context.Context, f filter.Filter, c EventCursor) (EventPage, error) {
	if e.HasEventsOf(c) {
		c.Feed = e.feedID
	}
	restored := e.restoredBefore(ctx, c, e.Now())
	for {
		if gap := e.extendHorizon(ctx, e.Now()); gap != nil {
			e.mu.Lock()
			e.state.feed.Skip(gap)
			e.mu.Unlock()
		}
		e.mu.Lock()
		p := e.state.feed.Read(e.state.clock.now(), c, eventsRead)
		e.mu.Unlock()
		page := EventPage{Gap: p.Gap, Next: p.Next}
		if restored != nil && page.Gap != nil {
			page.Gap, restored = restored, nil
		}
		for _, one := range p.Events {
			if f.Selects(one.Task) {
				page.Events = append(page.Events, one)
			}
		}
		if page.Gap != nil || len(page.Events) > 0 {
			return page, nil
		}
		if ctx.Err() != nil {
			return page, e.ended()
		}
		if c = p.Next; p.More == nil {
			continue
		}
		if err := e.rest(ctx, p.More, nil); err != nil {
			if ctx.Err() != nil {
				return page, e.ended()
			}
			return page, err
		}
		_ = wakeup.Sleep(ctx, eventsRest)
	}
}

// HasEventsOf reports whether a cursor is one of the events of this node, which outlive its incarnations.
func (e *Engine) HasEventsOf(c EventCursor) bool { return !c.Feed.IsZero() && e.cluster.IsOurs(c.Feed) }

// changedOverlap is how long before a time ChangedSince begins: a change may be written a while after its time, and the store may have been restored to
// a time that is earlier than that by horizonAhead.
const changedOverlap = time.Minute + horizonAhead

// ChangedSince calls fn with the tasks in the store that f selects and that have changed since a time, or up to two minutes before it, as
// they are now, the newest first: on all nodes, by programs, and before a restart. A task that was removed, or that has changed so
// that f does not select it any more, is not among them. It reads all rows in the states that f names.
func (e *Engine) ChangedSince(ctx context.Context, f filter.Filter, since time.Time, fn func([]*task.Task) error) error {
	s, ok := e.store.(storage.Inspector)
	if !ok {
		return ErrUnsupported
	}
	bounds, ok := f.Bounds()
	if !ok {
		return nil
	}
	since = since.Add(-changedOverlap)
	q := queryOf(f, bounds)
	q.Limit = eventsRead
	q.Where = func(t *task.Task) bool { return !t.UpdatedAt.Before(since) && f.Selects(t) }
	for {
		page, err := s.List(ctx, q)
		if err != nil {
			return err
		}
		if len(page.Tasks) > 0 {
			if err := fn(page.Tasks); err != nil {
				return err
			}
		}
		if q.Before = page.Next; q.Before.IsZero() {
			return nil
		}
	}
}

// changed adds a change to the events. It is called with mu held.
func (s *state) changed(now time.Time, t *task.Task) {
	if s.feed.IsOn() && t != nil {
		s.feed.Add(now, t)
	}
}
