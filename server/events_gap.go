package server

import (
	"context"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/engine"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
)

// lostEvents are the events of a node that has left.
type lostEvents struct {
	at  engine.EventCursor // everything before it was sent
	gap *engine.EventGap
}

// lose notes that a node has left, and that events of it may be missing from a cursor on.
func (m *eventMerger) lose(ctx context.Context, at engine.EventCursor) error {
	now, cancel := context.WithCancel(ctx)
	cancel()
	page, err := m.api.engine.Events(now, m.of.where, at)
	if err == nil && page.Gap != nil {
		m.lost = append(m.lost, lostEvents{at, page.Gap})
	}
	return err
}

// fill sends the gaps that there are as one, and the tasks that have changed since. A client that is interrupted continues before them.
func (m *eventMerger) fill(ctx context.Context) error {
	gap, behind := m.gap()
	if m.of.catchUp {
		if err := m.emit(&taskenginev1.EventsResponse{Gap: gap}); err != nil {
			return err
		}
		err := m.api.engine.ChangedSince(ctx, m.of.where, gap.GetFrom().AsTime(), func(ts []*task.Task) error {
			res := &taskenginev1.EventsResponse{}
			for _, t := range ts {
				res.Events = append(res.Events, &taskenginev1.TaskEvent{Task: summaryOf(t), At: stamp(t.UpdatedAt), FromStore: true})
			}
			return m.emit(res)
		})
		if err != nil {
			return err
		}
		gap = nil
	}
	m.lost = nil
	if gap != nil && len(behind) == 0 {
		return m.emit(&taskenginev1.EventsResponse{Gap: gap})
	}
	for i, s := range behind {
		if s.head.Gap = nil; i == 0 {
			s.head.Gap = gap
		}
		if _, err := m.pass(s); err != nil {
			return err
		}
	}
	return nil
}

// gap returns one gap for all that there are, and the nodes that have one. Cursors that are after its beginning, since the store was restored,
// are moved to it.
func (m *eventMerger) gap() (whole *taskenginev1.EventGap, behind []*eventSource) {
	var texts []string
	extend := func(g *taskenginev1.EventGap) {
		if !slices.Contains(texts, g.GetText()) {
			texts = append(texts, g.GetText())
		}
		if whole == nil {
			whole = &taskenginev1.EventGap{From: g.GetFrom(), Until: g.GetUntil()}
			return
		}
		if g.GetFrom().AsTime().Before(whole.GetFrom().AsTime()) {
			whole.From = g.GetFrom()
		}
		if g.GetUntil().AsTime().After(whole.GetUntil().AsTime()) {
			whole.Until = g.GetUntil()
		}
	}
	for _, l := range m.lost {
		extend(gapMessage(l.gap))
	}
	for _, s := range m.sources {
		if g := s.head.GetGap(); g != nil {
			behind = append(behind, s)
			extend(g)
		}
	}
	whole.Text = strings.Join(texts, "; ")
	from := whole.GetFrom().AsTime()
	for i, l := range m.lost {
		if l.at.At.After(from) {
			m.lost[i].at = engine.EventCursor{Feed: l.at.Feed, At: from}
		}
	}
	for _, s := range behind {
		if s.at.At.After(from) {
			s.at = engine.EventCursor{Feed: s.id, At: from}
		}
	}
	return whole, behind
}
