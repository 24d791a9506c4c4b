package shell_test

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/internal/shell"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// twoLanes is a shell over two databases. All shards are in the database at.
type twoLanes struct {
	*testing.T
	*shell.Shell
	at  int
	now time.Time
	ef  shell.Effects
}

func newTwoLanes(t *testing.T) *twoLanes {
	l := &twoLanes{T: t, now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	l.Shell = shell.New(shell.Config{
		Core: core.New(core.Config{
			Owner: task.ID{1}, Policies: policy.Set{Slots: 1, Types: map[string]policy.Type{"pay": policy.DefaultType()}}, Handled: map[string]bool{"pay": true},
			Capacity: 10, QueueCapacity: 10, Chance: func() float64 { return 0.5 },
		}),
		Lanes: 2, LaneOf: func(uint16) int { return l.at },
	})
	l.collect()
	return l
}

// collect collects the effects, and answers that the store is empty.
func (l *twoLanes) collect() {
	l.Collect(&l.ef)
	for range l.ef.Scans {
		l.Core().Scanned(nil, true)
	}
	for _, load := range l.ef.DueLoads {
		l.Core().DueLoaded(l.now, load, nil, true)
	}
	for _, load := range l.ef.Loads {
		l.Core().Loaded(l.now, load.Queue, nil, true)
	}
}

// submit submits a task, which gets a slot at once.
func (l *twoLanes) submit() *task.Task {
	row := &task.Task{ID: task.ID{15: 1}, Type: "pay"}
	l.Pass(l.now, &shell.Events{Submissions: []*shell.Submission{{Rows: []*task.Task{row}, Done: make(chan error, 1)}}})
	l.collect()
	return row
}

// next returns the next batch of a lane.
func (l *twoLanes) next(lane int) *shell.Batch {
	l.Helper()
	b := l.Next(l.now, lane, nil)
	if b == nil {
		l.Fatalf("lane %d has no batch", lane)
	}
	b.Fill()
	return b
}

// leftOut answers a batch with one row, which the database leaves out.
func (l *twoLanes) leftOut(b *shell.Batch) {
	out := storage.Outcome{Elsewhere: []int{0}, Inserted: make([]storage.Inserted, len(b.Do.Insert)), Swapped: make([]*task.Task, len(b.Do.Swap))}
	l.Written(l.now, b, out)
	l.collect()
}

// end runs the task, and ends its attempt.
func (l *twoLanes) end(e shell.Ending) {
	l.Helper()
	b := l.next(l.at)
	l.Written(l.now, b, storage.Outcome{Inserted: make([]storage.Inserted, 1)})
	l.collect()
	if len(l.ef.Runs) != 1 {
		l.Fatalf("%d tasks are run", len(l.ef.Runs))
	}
	e.Ref, e.Type, e.Verdict = l.ef.Runs[0].Task.Ref(), "pay", task.Verdict{Outcome: task.Completed}
	l.Pass(l.now, &shell.Events{Endings: []shell.Ending{e}})
	l.collect()
}

func TestALaneRestsIfRowsAreLeftOutAgainAndAgain(t *testing.T) {
	l := newTwoLanes(t)
	l.submit()
	l.leftOut(l.next(0))
	l.leftOut(l.next(0)) // at once: the store may know better now
	if l.HasWork(0) {
		t.Error("the lane does not rest")
	}
	rest := l.Wake().Sub(l.now)
	if rest <= 0 || rest > time.Second {
		t.Fatalf("the lane rests for %s", rest)
	}
	l.now = l.now.Add(rest)
	l.Tick(l.now)
	l.at = 1
	l.leftOut(l.next(0))
	if b := l.next(1); len(b.Do.Insert) != 1 {
		t.Errorf("the other lane has %+v", b.Do)
	}
}

func TestTheLastProgressOfATaskIsWrittenWithTheSaveThatWasLeftOut(t *testing.T) {
	l := newTwoLanes(t)
	l.submit()
	l.end(shell.Ending{Progress: &task.Progress{Done: 3}})
	b := l.next(0)
	if len(b.Do.Notes) != 1 {
		t.Fatalf("the batch is %+v", b.Do)
	}
	l.at = 1
	l.leftOut(b)
	if b := l.next(1); len(b.Do.Swap) != 1 || len(b.Do.Notes) != 1 || b.Do.Notes[0].Progress.Done != 3 {
		t.Errorf("the other lane has %+v", b.Do)
	}
}

func TestASaveThatWasLeftOutIsNotTakenForOneThatCameTooLate(t *testing.T) {
	l := newTwoLanes(t)
	row := l.submit()
	l.end(shell.Ending{Finish: &shell.Finish{Row: row}})
	asked := 0
	for lane := range 2 {
		b := l.next(lane)
		out := storage.Outcome{Swapped: make([]*task.Task, 1)}
		if l.at = 1; lane == 0 {
			out.Elsewhere = []int{0}
		}
		b.Unsure(&out, func(*shell.Finish) bool {
			asked++
			return true
		})
		if asked != lane {
			t.Errorf("in lane %d: asked %d times whether the task is finished", lane, asked)
		}
		l.Written(l.now, b, out)
		l.collect()
	}
}
