package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine/internal/shell"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// How many of the oldest tasks a dropper remembers: a part of the backlog, so that reading the whole
// backlog costs little for each task that is dropped.
const (
	oldestPart = 10
	minOldest  = 100
	maxOldest  = 100_000
)

// dropBatch is how many tasks are cancelled at once.
const dropBatch = 500

// backlogs are the types with a maximum of their backlog. It is read only once the engine is open.
type backlogs struct {
	capped   []string            // all of them, sorted
	droppers map[string]*dropper // by type, if its oldest tasks are dropped
}

// dropper cancels the oldest tasks of a type when newer ones find no place. The goroutines of the
// callers of Submit do it, one at a time, each for all that wait.
type dropper struct {
	typ  string
	max  int
	turn chan struct{} // has an element while a goroutine drops

	mu     sync.Mutex
	wanted int    // guarded by mu: for how many new tasks room is wanted
	round  uint64 // guarded by mu: how often wanted was taken

	// Owned by the goroutine that has the turn.
	oldest []oldTask // the oldest first
	readAt time.Time // when oldest was read
	inVain time.Time // when the last read of the backlog found none; not a time of the engine's clock
}

// oldTask is a task that had never started when it was read.
type oldTask struct {
	at time.Time // when it was or is ready
	id task.ID
}

func newDropper(typ string, b policy.Backlog) *dropper {
	return &dropper{typ: typ, max: b.Max, turn: make(chan struct{}, 1)}
}

// makeRoom cancels tasks until there is room for the new ones that were refused. It reports whether
// there is, or was a moment ago: others may take it first.
func (d *dropper) makeRoom(ctx context.Context, e *Engine, full *shell.Full) (bool, error) {
	d.mu.Lock()
	d.wanted += full.New
	round := d.round
	d.mu.Unlock()
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		d.mu.Lock()
		if d.round == round {
			d.wanted -= full.New
		}
		d.mu.Unlock()
		return false, fmt.Errorf("engine: submit: wait for room in the backlog: %w", context.Cause(ctx))
	}
	d.mu.Lock()
	wanted := min(d.wanted, d.max)
	isMade := d.round != round // by the goroutine that had the turn before
	if !isMade {
		d.wanted = 0
		d.round++
	}
	d.mu.Unlock()
	if isMade {
		return true, nil
	}
	if err := d.drop(ctx, e, wanted); err != nil {
		return false, err
	}
	hasRoom := false
	e.tell(func(s *state, _ time.Time) { hasRoom = s.Excess(d.typ, full.New) == 0 })
	return hasRoom, nil
}

// drop cancels tasks until the backlog has room for n new ones, or no task is left that it may cancel.
func (d *dropper) drop(ctx context.Context, e *Engine, n int) error {
	isRead := false // since a task was cancelled
	defer func() {  // tasks that were added since the read are ready before these
		at := slices.IndexFunc(d.oldest, func(t oldTask) bool { return t.at.After(d.readAt) })
		if at >= 0 {
			d.oldest = d.oldest[:at]
		}
	}()
	for {
		excess := 0
		e.tell(func(s *state, _ time.Time) { excess = s.Excess(d.typ, n) })
		if excess == 0 {
			return nil
		}
		if len(d.oldest) == 0 {
			if isRead || time.Since(d.inVain) < recountEvery {
				return nil
			}
			var err error
			if d.oldest, err = d.read(ctx, e); err != nil {
				return fmt.Errorf("engine: submit: look for the oldest tasks of type %s: %w", d.typ, err)
			}
			if isRead = true; len(d.oldest) == 0 {
				d.inVain = time.Now()
			}
			continue
		}
		some := d.oldest[:min(excess, dropBatch, len(d.oldest))]
		d.oldest = d.oldest[len(some):]
		dropped, err := d.cancel(ctx, e, some)
		if err != nil {
			return fmt.Errorf("engine: submit: cancel the oldest tasks of type %s: %w", d.typ, err)
		}
		isRead = isRead && dropped == 0
	}
}

// oldestPage is how many rows are read at a time to find the oldest.
const oldestPage = 10_000

// read returns the oldest tasks of the backlog that have never started.
func (d *dropper) read(ctx context.Context, e *Engine) (oldest []oldTask, err error) {
	keep := min(max(d.max/oldestPart, minOldest), maxOldest)
	trim := func() {
		slices.SortFunc(oldest, func(a, b oldTask) int { return cmp.Or(a.at.Compare(b.at), a.id.Compare(b.id)) })
		oldest = oldest[:min(keep, len(oldest))]
	}
	d.readAt = e.Now()
	f := storage.Filter{States: backlogStates, Types: []string{d.typ}}
	for before := (task.ID{}); ; {
		page, next, err := e.List(ctx, f, before, oldestPage)
		if err != nil {
			return nil, err
		}
		for _, t := range page {
			if t.StartedAt.IsZero() {
				oldest = append(oldest, oldTask{t.ReadyAt, t.ID})
			}
		}
		if len(oldest) > 2*keep+oldestPage {
			trim()
		}
		if before = next; next.IsZero() {
			trim()
			return oldest, nil
		}
	}
}

// cancel cancels the tasks among some that have still never started, and returns how many.
func (d *dropper) cancel(ctx context.Context, e *Engine, some []oldTask) (dropped int, err error) {
	var edits []*shell.Edit
	for _, old := range some {
		t, err := e.store.Get(ctx, old.id)
		switch {
		case errors.Is(err, task.ErrNotFound):
			continue
		case err != nil:
			return 0, err
		case !t.StartedAt.IsZero() || t.State != task.Waiting && t.State != task.Submitted:
			continue
		}
		edits = append(edits, &shell.Edit{From: t.State, Parent: t.Parent, Done: make(chan error, 1), Change: task.Change{
			Ref: t.Ref(), To: task.Cancelled, At: e.Now(), Outcome: task.Overruled,
			Error: fmt.Sprintf("dropped: newer tasks of type %s were added when its backlog had reached max_backlog of %d", d.typ, d.max),
		}})
	}
	if err := e.inbox.accepting(); err != nil {
		return 0, err
	}
	e.tell(func(s *state, _ time.Time) {
		for _, ed := range edits {
			s.Edit(d.typ, ed)
		}
	})
	for _, ed := range edits {
		select {
		case failed := <-ed.Done:
			switch {
			case errors.Is(failed, storage.ErrBusy): // another transaction has it: the next oldest is cancelled in its place
			case failed != nil:
				err = failed
			case ed.After != nil:
				dropped++
			}
		case <-ctx.Done():
			return dropped, context.Cause(ctx)
		}
	}
	e.tell(func(s *state, now time.Time) { s.Dropped(now, d.typ, dropped) })
	return dropped, err
}
