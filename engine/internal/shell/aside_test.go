package shell_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/internal/shell"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// locked is a shell over a store with locks. It has one slot.
type locked struct {
	twoLanes
	replies []shell.Reply
}

func newLocked(t *testing.T) *locked {
	l := &locked{twoLanes: twoLanes{T: t, now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}}
	l.Shell = shell.New(shell.Config{
		Core: core.New(core.Config{
			Owner: task.ID{1}, Policies: policy.Set{Slots: 1, Types: map[string]policy.Type{"pay": policy.DefaultType()}}, Handled: map[string]bool{"pay": true},
			Capacity: 10, QueueCapacity: 10, Chance: func() float64 { return 0.5 },
		}),
		Aside: true,
	})
	l.take()
	return l
}

// take collects the effects, and keeps the replies.
func (l *locked) take() {
	l.collect()
	l.replies = append(l.replies, l.ef.Replies...)
}

// add submits tasks, each by a caller of its own.
func (l *locked) add(ids ...byte) {
	for _, id := range ids {
		row := &task.Task{ID: task.ID{15: id}, Type: "pay", Key: fmt.Sprint(id)}
		l.Pass(l.now, &shell.Events{Submissions: []*shell.Submission{{Rows: []*task.Task{row}, Done: make(chan error, 1)}}})
	}
	l.take()
}

// main returns the next batch for which others wait, and aside one of the others; nil if there is none.
func (l *locked) main() *shell.Batch {
	b := l.Next(l.now, 0, nil)
	if b != nil {
		b.Fill()
	}
	return b
}

func (l *locked) aside(alone bool) *shell.Batch {
	b := l.NextAside(l.now, 0, alone)
	if b != nil {
		b.Fill()
	}
	return b
}

func (l *locked) fail(b *shell.Batch, err error) {
	l.Failed(l.now, b, err)
	l.take()
}

var errHeld = fmt.Errorf("a key is locked: %w", storage.ErrBusy)

// What needs a lock that is known to be held leaves its batch and its slot to others.
func TestWhatNeedsAHeldLockIsTriedAlone(t *testing.T) {
	l := newLocked(t)
	l.add(1, 2)
	b := l.main()
	if len(b.Do.Insert) != 2 || b.Do.Insert[0].State != task.Processing {
		t.Fatalf("the batch is %+v", b.Do)
	}
	l.fail(b, &storage.Blocked{Rows: []int{0}, Err: errHeld})
	rest := l.main()
	if rest == nil || len(rest.Do.Insert) != 1 || rest.Do.Insert[0].ID != (task.ID{15: 2}) {
		t.Fatalf("the rest is %+v", rest)
	}
	if l.HasAside(0, false) || !l.HasAside(0, true) {
		t.Error("it is not tried alone")
	}
	alone := l.aside(true)
	if got := alone.Do; len(got.Insert) != 1 || got.Insert[0].State != task.Submitted || got.Wait != storage.WaitLong {
		t.Errorf("it keeps its slot: %+v", got)
	}
	l.fail(alone, errHeld)
	if len(l.replies) != 1 || !errors.Is(l.replies[0].Err, storage.ErrBusy) {
		t.Errorf("it is answered by %v", l.replies)
	}
	l.Written(l.now, rest, storage.Outcome{Inserted: make([]storage.Inserted, 1)})
	l.take()
	if len(l.replies) != 2 || l.replies[1].Err != nil {
		t.Errorf("the other one is answered by %v", l.replies)
	}
}

// A batch that fails for a lock that is not known is divided aside, while new tasks go on.
func TestABatchThatWaitsForALockIsDividedAside(t *testing.T) {
	l := newLocked(t)
	l.add(1, 2, 3)
	l.fail(l.main(), errHeld)
	if l.HasWork(0) {
		t.Error("others wait for its pieces")
	}
	l.add(4)
	if b := l.main(); b == nil || len(b.Do.Insert) != 1 || b.Do.Insert[0].State != task.Processing {
		t.Errorf("a new task does not get the slot: %+v", b)
	} else {
		l.Written(l.now, b, storage.Outcome{Inserted: make([]storage.Inserted, 1)})
		l.take()
	}
	tries := 0
	for b := l.aside(false); b != nil; b = l.aside(false) {
		tries++
		if b.Do.Wait != storage.WaitLeast {
			t.Errorf("a piece waits %v", b.Do.Wait)
		}
		if b.Do.Insert[0].ID == (task.ID{15: 1}) {
			l.fail(b, errHeld)
			continue
		}
		l.Written(l.now, b, storage.Outcome{Inserted: make([]storage.Inserted, len(b.Do.Insert))})
		l.take()
	}
	if alone := l.aside(true); alone == nil || alone.Do.Insert[0].ID != (task.ID{15: 1}) || l.aside(true) != nil {
		t.Errorf("after %d tries, tried alone: %+v", tries, alone)
	} else {
		l.Written(l.now, alone, storage.Outcome{Inserted: make([]storage.Inserted, 1)})
		l.take()
	}
	for _, r := range l.replies {
		if r.Err != nil {
			t.Errorf("answered by %v", r.Err)
		}
	}
	if len(l.replies) != 4 {
		t.Errorf("%d answers", len(l.replies))
	}
}

// Of very many items that need locks only some wait. The others are refused.
func TestWhatNeedsLocksIsBounded(t *testing.T) {
	l := newLocked(t)
	const n = 1500
	for i := range n {
		row := &task.Task{ID: task.ID{14: byte(i >> 8), 15: byte(i)}, Type: "pay"}
		l.Pass(l.now, &shell.Events{Submissions: []*shell.Submission{{Rows: []*task.Task{row}, Done: make(chan error, 1)}}})
	}
	l.take()
	b := l.main()
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	l.fail(b, &storage.Blocked{Rows: all, Err: errHeld})
	waits := 0
	for l.aside(true) != nil {
		waits++
	}
	if waits != 1000 || len(l.replies) != n-waits {
		t.Errorf("%d wait, and %d are refused", waits, len(l.replies))
	}
}
