package engine

import (
	"context"
	"errors"
	"time"

	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

const (
	// firstCheck is the first pause before uncertain tasks are read. Each pause is twice as long as
	// the one before, up to longestCheck: what they wait for may be an outage that lasts for hours.
	firstCheck   = time.Second
	longestCheck = 15 * time.Second
	// checkShare limits the time spent reading them to one part in checkShare.
	checkShare = 20
)

// uncertainLoop reads the rows of uncertain tasks until there are none.
func (e *Engine) uncertainLoop(ctx context.Context) {
	var cost wakeup.Cost
	for {
		select {
		case <-e.check.C():
		case <-ctx.Done():
			return
		}
		pause, least := firstCheck, time.Duration(0)
		for remain := 1; remain > 0; pause = min(2*pause, longestCheck) {
			if wakeup.Sleep(ctx, max(pause, least)) != nil {
				return
			}
			select {
			case <-e.check.C():
				pause = firstCheck / 2
			default:
			}
			begin, inVain := time.Now(), 0
			remain, inVain = e.checkUncertain(ctx)
			least = checkShare * cost.After(time.Since(begin), inVain == 0)
		}
	}
}

// maxInVain is how many reads may fail in one round.
const maxInVain = 10

// checkUncertain reads the rows of uncertain tasks, passes them to the shell, and returns how
// many tasks remain uncertain, and how many reads have failed. It reads those last whose last read
// failed: they may be in a database that does not answer.
func (e *Engine) checkUncertain(ctx context.Context) (remain, inVain int) {
	if e.findHolders(ctx) != nil {
		inVain++
	}
	e.mu.Lock()
	all, late := e.state.Uncertain()
	e.mu.Unlock()
	inVain += e.checkSome(ctx, false, all-late, maxInVain)
	inVain += e.checkSome(ctx, true, late, maxInVain-inVain)
	e.mu.Lock()
	defer e.mu.Unlock()
	remain, _ = e.state.Uncertain()
	return remain, inVain
}

// findHolders finds the tasks that uncertain requests may have replaced: they are uncertain themselves. It ends with the
// first error.
func (e *Engine) findHolders(ctx context.Context) error {
	for {
		e.mu.Lock()
		row := e.state.NextRequest()
		e.mu.Unlock()
		if row == nil {
			return nil
		}
		found, err := e.store.Existing(ctx, row)
		if err != nil {
			return err
		}
		e.tell(func(s *state, now time.Time) { s.FoundHolder(now, row, found[0]) })
	}
}

// checkSome reads the rows of the next n uncertain tasks, of those whose last read failed or of the
// others, until most of these reads have failed. It returns how many have.
func (e *Engine) checkSome(ctx context.Context, areLate bool, n, most int) (inVain int) {
	for ; n > 0 && inVain < most; n-- {
		e.mu.Lock()
		id := e.state.NextUncertain(areLate)
		isHeld := e.state.IsHeld(id.Shard())
		e.mu.Unlock()
		if id.IsZero() {
			break
		}
		if isHeld { // its database does not answer: its row is read when that does
			if areLate {
				inVain++
			}
			e.tell(func(s *state, _ time.Time) { s.Unread(id) })
			continue
		}
		t, err := e.store.Get(ctx, id)
		if err != nil && !errors.Is(err, task.ErrNotFound) {
			inVain++
			e.tell(func(s *state, _ time.Time) { s.Unread(id) })
			continue
		}
		handedBack := false
		e.tell(func(s *state, now time.Time) {
			handedBack = s.Resolve(now, id, t, t != nil && e.cluster.IsOurs(t.Owner))
			if t != nil {
				s.waiters.ended(t)
			}
		})
		if handedBack {
			e.log.Warn("a task was grabbed by a commit that failed; it is handed back", "task_id", t.ID, "type", t.Type)
		}
	}
	return inVain
}
