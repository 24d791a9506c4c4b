package slicer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/ratelog"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
)

// settingsName is the name of the settings that keep which node with a store of its own holds a platform, by SOURCE/PLATFORM.
const settingsName = "slices"

const (
	askPatience     = 10 * time.Second // with the coordinator, for each question
	leastHoldRounds = 4                // in the time of a lease
)

// holds has the platforms of a node that has a store of its own and coordinates with others. It is safe for concurrent use.
type holds struct {
	mu     sync.Mutex
	until  map[string]time.Time // guarded by mu: when this node has to stop making the slices of a platform, unless it is confirmed that it holds it
	others map[string]string    // guarded by mu: the names of the nodes that hold other platforms
}

// has reports whether this node holds a platform at this moment.
func (h *holds) has(platform string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Before(h.until[platform])
}

// other returns the name of the other node that holds a platform.
func (h *holds) other(platform string) (name string, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	name, ok = h.others[platform]
	return name, ok
}

// set notes which node holds a platform: this one, for a time, or another one, or none. It reports whether this node holds it
// and has not held it before.
func (h *holds) set(platform string, until time.Time, other string) (isNew bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	isNew = !until.IsZero() && !time.Now().Before(h.until[platform])
	if h.until[platform] = until; until.IsZero() {
		delete(h.until, platform)
	}
	if h.others[platform] = other; other == "" {
		delete(h.others, platform)
	}
	return isNew
}

// mayMake reports whether this node may make the slices of a platform.
func (s *Sources) mayMake(e *engine.Engine, p timeslice.Platform) bool {
	_, isShared := e.Peers()
	return !isShared || s.holds.has(p.String())
}

// here returns an error if another node with a store of its own holds a platform.
func (s *Sources) here(p timeslice.Platform) error {
	if name, ok := s.holds.other(p.String()); ok {
		return fmt.Errorf("%w: %s is held by node %s; ask that node", ErrElsewhere, p, name)
	}
	return nil
}

// Hold takes platforms for this node if it has a store of its own and coordinates with others, until ctx ends. Each platform is held by one of
// them, which makes its slices. Without such nodes it returns at once. It logs errors, and tries again.
func (s *Sources) Hold(ctx context.Context, e *engine.Engine) {
	if _, ok := e.Peers(); !ok || len(s.all) == 0 {
		return
	}
	h := &holder{Sources: s, engine: e, seen: make(map[string]sight)}
	var failures ratelog.Limiter
	for {
		p, _ := e.Peers()
		if err := h.round(ctx, p); err != nil && ctx.Err() == nil && failures.Allow() {
			s.log.WarnContext(ctx, "the node cannot say at present which platforms it holds; it makes no slices of them when its lease has ended", "lease", p.Lease, "error", err)
		}
		if wakeup.Sleep(ctx, p.Lease/leastHoldRounds) != nil {
			return
		}
	}
}

// holder is the state of Hold. One goroutine uses it.
type holder struct {
	*Sources
	engine *engine.Engine
	seen   map[string]sight // by platform
}

// sight says since when a node has seen the record of a platform as it is, and its holder gone.
type sight struct {
	version uint64
	since   time.Time
}

// kept is the record of a platform.
type kept struct {
	*timeslice.Hold
	version uint64
}

// round looks at all platforms.
func (h *holder) round(ctx context.Context, p engine.Peers) error {
	at := time.Now()
	asking, cancel := context.WithTimeoutCause(ctx, askPatience, fmt.Errorf("the coordinator did not answer for %v", askPatience))
	defer cancel()
	settings, err := p.Settings.Settings(asking, settingsName)
	if err != nil {
		return fmt.Errorf("ask the coordinator which nodes hold platforms: %w", err)
	}
	records := make(map[string]coord.Setting, len(settings))
	for _, one := range settings {
		records[one.Scope] = one
	}
	var failed error
	for _, name := range h.Names() {
		if err := h.adopt(ctx, name, records); err != nil {
			return err
		}
		err := eachCursor(ctx, h.engine, name, func(row *task.Task) error {
			platform := row.Headers[timeslice.Header]
			if err := h.look(ctx, p, at, row.ID, records[platform]); err != nil {
				failed = fmt.Errorf("hold %s: %w", platform, err)
			}
			return context.Cause(ctx)
		})
		if err != nil {
			return err
		}
	}
	return failed
}

// adopt adds the platforms of a source that other nodes have added while they ran.
func (h *holder) adopt(ctx context.Context, source string, records map[string]coord.Setting) error {
	names, err := h.cursors(ctx, h.engine, source)
	if err != nil {
		return err
	}
	for platform := range records {
		name, isOurs := strings.CutPrefix(platform, source+"/")
		if _, isHere := slices.BinarySearch(names, name); !isOurs || isHere || !h.mayHold(source, name) {
			continue
		}
		p := timeslice.Platform{Source: source, Name: name}
		of, err := h.Source(ctx, h.engine, source)
		if err != nil {
			return err
		}
		if err := add(ctx, h.engine, p); err != nil {
			return err
		}
		state := of.State.Obey()
		err = change(ctx, h.engine, p.Cursor(), func(_ timeslice.Platform, s *timeslice.State) ([]timeslice.Order, error) {
			return []timeslice.Order{{Source: new(state.For(name))}}, nil
		})
		if err != nil {
			return named("add", p.String(), err)
		}
	}
	return nil
}

// look looks at one platform. at is a time before record was read.
func (h *holder) look(ctx context.Context, peers engine.Peers, at time.Time, id task.ID, record coord.Setting) error {
	t, err := h.engine.Get(ctx, id)
	if errors.Is(err, task.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	p, state, err := timeslice.Decode(t.Payload, t.Checkpoint())
	if err != nil {
		return err
	}
	now, err := h.open(p, record)
	if err != nil {
		return err
	}
	self := &timeslice.Peer{ID: h.engine.Incarnation(), Name: h.engine.Name(), Patience: 2 * peers.Lease, IsAlive: func(node task.ID) bool {
		return peers.Members == nil || slices.ContainsFunc(peers.Members, func(m coord.Member) bool { return m.Uses(node) })
	}}
	next, isHeld := self.Look(timeslice.View{
		Kept: now.Hold, State: &state, Created: t.CreatedAt, MayHold: h.mayHold(p.Source, p.Name) && !endedByHand(t), For: h.waited(p, now, self),
	})
	if next != nil {
		swapped, err := h.swap(ctx, peers, p, now, next)
		if err != nil || !swapped { // the next round sees what there is
			return err
		}
		h.tell(ctx, p, now.Hold, next)
		now.Hold = next
	}
	return h.note(ctx, p, t, &state, now.Hold, isHeld, at.Add(peers.Lease))
}

// note notes which node holds a platform, and has it run if this node holds it now.
func (h *holder) note(ctx context.Context, p timeslice.Platform, t *task.Task, state *timeslice.State, now *timeslice.Hold, isHeld bool, until time.Time) error {
	if !isHeld {
		other := ""
		if now != nil && !now.Owner.IsZero() {
			other = now.Name
		}
		h.holds.set(p.String(), time.Time{}, other)
		return nil
	}
	if !now.IsTakenBy(state) {
		err := change(ctx, h.engine, p.Cursor(), func(_ timeslice.Platform, s *timeslice.State) ([]timeslice.Order, error) {
			if now.IsTakenBy(s) {
				return nil, nil
			}
			return []timeslice.Order{{Take: now}}, nil
		})
		if err != nil {
			return err
		}
	}
	if isNew := h.holds.set(p.String(), until, ""); !isNew && !state.Parked {
		return nil
	}
	t, err := h.engine.Get(ctx, t.ID)
	if err == nil {
		_, err = h.engine.Reschedule(ctx, t.Ref(), h.engine.Now())
	}
	if errors.Is(err, engine.ErrStale) || errors.Is(err, engine.ErrNotAllowed) { // it runs; if it was too early, the next round sees it
		return nil
	}
	return err
}

// waited returns for how long this node has seen the record of a platform as it is, and its holder gone.
func (h *holder) waited(p timeslice.Platform, now kept, self *timeslice.Peer) time.Duration {
	key := p.String()
	one, ok := h.seen[key]
	isAlive := now.Hold != nil && self.IsAlive(now.Node)
	if !ok || one.version != now.version || isAlive {
		one = sight{now.version, time.Now()}
		h.seen[key] = one
	}
	return time.Since(one.since)
}

// tell logs that a platform has another holder.
func (h *holder) tell(ctx context.Context, p timeslice.Platform, was, now *timeslice.Hold) {
	switch {
	case now.Owner.IsZero():
		h.log.InfoContext(ctx, "the node leaves a platform to others", "platform", p.String())
	case was == nil || was.Owner.IsZero():
		h.log.InfoContext(ctx, "the node holds a platform", "platform", p.String(), "from", now.Low)
	case was.Term != now.Term:
		h.log.WarnContext(ctx, "the node has taken a platform over; what the other node has fetched from there on is fetched again", "platform", p.String(), "of", was.Name, "from", now.Low)
	}
}

// open returns the record in a setting.
func (h *holder) open(p timeslice.Platform, one coord.Setting) (kept, error) {
	if one.Version == 0 {
		return kept{}, nil
	}
	text, err := h.engine.Unseal(timeslice.CursorType(p.Source), one.Value)
	if err != nil {
		return kept{}, err
	}
	now, err := timeslice.DecodeHold(text)
	return kept{now, one.Version}, err
}

// swap replaces the record of a platform. It reports false if it has changed.
func (h *holder) swap(ctx context.Context, peers engine.Peers, p timeslice.Platform, was kept, next *timeslice.Hold) (bool, error) {
	value, err := h.engine.Seal(timeslice.CursorType(p.Source), next.Encode())
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, askPatience, fmt.Errorf("the coordinator did not answer for %v", askPatience))
	defer cancel()
	_, swapped, err := peers.Settings.Swap(ctx, settingsName, p.String(), was.version, value)
	return swapped, err
}

// mayHold reports whether the configuration lets this node hold a platform.
func (h *holder) mayHold(source, platform string) bool {
	return h.engine.Handles(h.all[source].Type) && (h.mayHoldBy == nil || h.mayHoldBy(source, platform))
}
