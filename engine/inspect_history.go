package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/blocks"
	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

// Wait says how long a task has waited for one thing, or has run.
type Wait struct {
	Code         string // as [Reason.Code], and [CodeUnknown]
	Limit, Value string // as in [Reason]
	Text         string // for display
	For          time.Duration
	From, Until  time.Time // of the first and the last time that it did; there may be others between
}

// WaitHistory is what is known of the time that a task has taken so far.
type WaitHistory struct {
	Waits []Wait    // in the order of From; together they cover the time of the task
	Since time.Time // this node has notes of waits from then on
	Node  string    // the name of this node
}

// waitsEvery is how often the engine looks at what keeps tasks waiting, while tasks wait; with more than waitsMost limits in
// use less often in proportion.
const (
	waitsEvery = time.Second
	waitsMost  = 10_000
)

// noteLoop notes what keeps tasks waiting. It sleeps while no task does.
func (e *Engine) noteLoop(ctx context.Context) {
	var causes []blocks.Cause // buffer
	for {
		select {
		case <-e.wakes.blocks.C():
		case <-ctx.Done():
			return
		}
		for first := true; ; first = false {
			var every time.Duration
			var more bool
			if causes, every, more = e.noteWaits(causes[:0], first); !first && !more {
				break
			}
			if wakeup.Sleep(ctx, every) != nil {
				return
			}
		}
	}
}

// noteWaits looks at what keeps tasks waiting. It returns when to look again, and whether that is worth it; a first look has a
// second one.
func (e *Engine) noteWaits(causes []blocks.Cause, isFirst bool) (_ []blocks.Cause, every time.Duration, more bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, now := &e.state, e.state.clock.now()
	c := s.Core()
	every = waitsEvery * time.Duration(1+c.LimitNodes()/waitsMost)
	c.EachBlock(now, func(b core.Block) { causes = append(causes, causeOf(b)) })
	s.blocks.Look(now, 3*every, causes)
	more = c.HasUnnoted()
	s.isNoting = more || isFirst
	return causes, every, more
}

func causeOf(b core.Block) blocks.Cause {
	switch {
	case b.NoHandler:
		return blocks.Cause{Code: CodeNoHandler, Type: b.Type, Exact: true}
	case b.Type != "" && b.Stopped:
		return blocks.Cause{Code: CodeUnwritten, Type: b.Type, Exact: true}
	case b.Type != "":
		return blocks.Cause{Code: CodePaused, Type: b.Type, Exact: true}
	case b.Paused:
		return blocks.Cause{Code: CodePaused, Limit: b.Limit}
	case b.Rate:
		return blocks.Cause{Code: CodeRate, Limit: b.Limit}
	}
	return blocks.Cause{Code: CodeLimit, Limit: b.Limit}
}

// WaitHistory returns a task, and how long it has waited for what. The row says when it was scheduled and when it ran. What kept it
// waiting while it was ready is known to the node that had it in memory: from notes about limits and types that it keeps while
// it runs. They say what kept tasks like this one waiting, not whether this one was the next.
func (e *Engine) WaitHistory(ctx context.Context, id task.ID) (*task.Task, WaitHistory, error) {
	t, err := e.store.Get(ctx, id)
	if err != nil {
		return nil, WaitHistory{}, err
	}
	h := WaitHistory{Node: e.config.Name}
	e.mu.Lock()
	now := e.drain()
	n := e.perform(&e.state.effects)
	n.replies, n.logs = slices.Clone(n.replies), slices.Clone(n.logs)
	_, isElsewhere := e.elsewhere(t)
	past := pastOf(t, now, isElsewhere || t.Node != "" && t.Node != task.NodeName(e.config.Name))
	notes := e.notesFor(now, t, past)
	h.Since = e.state.blocks.Since()
	e.mu.Unlock()
	e.deliver(n)
	var s sums
	for _, p := range past {
		if p.isReady {
			s.addReady(p, h, e.restOf(t), notes)
		} else {
			s.add(p.Wait)
		}
	}
	h.Waits = s.all
	return e.shown(t), h, nil
}

// sums adds up the waits for the same thing.
type sums struct{ all []Wait }

func (s *sums) add(w Wait) {
	if !w.Until.After(w.From) {
		return
	}
	i := slices.IndexFunc(s.all, func(o Wait) bool {
		return o.Code == w.Code && o.Limit == w.Limit && o.Value == w.Value && o.Text == w.Text
	})
	if i < 0 {
		i = len(s.all)
		s.all = append(s.all, w)
	}
	s.all[i].For += w.Until.Sub(w.From)
	s.all[i].Until = w.Until
}

// note is a part of a time in which a task was ready, and what kept it waiting.
type note struct {
	Wait
	nearness int // of two notes of one moment, the lower one counts
}

// notesFor returns what kept t waiting while it was ready. It is called with mu held.
func (e *Engine) notesFor(now time.Time, t *task.Task, past []phase) (all []note) {
	counted := e.state.Core().Counted(now, t.Queue())
	match := func(c blocks.Cause) bool {
		return c.Type == t.Type || c.Limit != "" && slices.ContainsFunc(counted, func(l limitOfTask) bool { return l.Limit == c.Limit })
	}
	for _, p := range past {
		if !p.isReady || p.isForeign {
			continue
		}
		for _, s := range e.state.blocks.Between(p.From, p.Until, now, match) {
			n := note{Wait: Wait{Code: s.Code, From: s.From, Until: s.To}}
			switch {
			case s.Type != "" && s.Code == CodePaused:
				n.Text = "type " + s.Type + " was paused"
			case s.Code == CodeNoHandler:
				n.Text = noHandlerText(s.Type, false)
			case s.Type != "":
				n.nearness, n.Text = 1, "no task of type "+s.Type+" was started, because the ends of too many of them could not be written"
			default:
				at := slices.IndexFunc(counted, func(l limitOfTask) bool { return l.Limit == s.Limit })
				l := counted[at]
				n.Limit, n.Value = l.Name, l.Value
				n.nearness, n.Text = 2+at, blockedText(l, s.Code)
			}
			all = append(all, n)
		}
	}
	return all
}

// addReady adds a time in which the task was ready.
// Of the part without notes, rest says why.
func (s *sums) addReady(p phase, h WaitHistory, rest Wait, notes []note) {
	if p.isForeign {
		s.add(Wait{Code: CodeUnknown, Text: "another node had it, and may have notes about that", From: p.From, Until: p.Until})
		return
	}
	cuts := []time.Time{p.From, p.Until}
	cut := func(at time.Time) {
		if at.After(p.From) && at.Before(p.Until) {
			cuts = append(cuts, at)
		}
	}
	cut(h.Since)
	for _, n := range notes {
		cut(n.From)
		cut(n.Until)
	}
	slices.SortFunc(cuts, time.Time.Compare)
	for i := range len(cuts) - 1 {
		from, until := cuts[i], cuts[i+1]
		w, best := rest, -1
		for _, n := range notes {
			if !n.From.After(from) && !n.Until.Before(until) && (best < 0 || n.nearness < best) {
				w, best = n.Wait, n.nearness
			}
		}
		if best < 0 && from.Before(h.Since) {
			w = Wait{Code: CodeUnknown, Text: "the notes of this node begin at " + h.Since.Format(time.RFC3339)}
		}
		w.From, w.Until = from, until
		s.add(w)
	}
}

// restOf says what has kept a ready task waiting when no limit and no type did.
func (e *Engine) restOf(t *task.Task) Wait {
	switch _, known := e.catalog.policies().Types[t.Type]; {
	case !known:
		return Wait{Code: CodeNoHandler, Text: noHandlerText(t.Type, true)}
	case t.OrderingKey != "":
		return Wait{Code: CodeBehind, Text: "tasks of its ordering key, or others of its type and group, were before it"}
	}
	return Wait{Code: CodeQueue, Text: "others were before it, or it waited for less than the notes show"}
}

func blockedText(l limitOfTask, code string) string {
	name := "limit " + l.Name
	if l.Name == "" {
		name = "the node's slots"
	}
	if l.Value != "" {
		name += " for " + l.Value
	}
	switch code {
	case CodePaused:
		return name + " was paused"
	case CodeRate:
		return fmt.Sprintf("the rate of %s was used up", name)
	}
	return name + " had no room"
}
