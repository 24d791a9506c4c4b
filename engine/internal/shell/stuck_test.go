package shell_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/internal/shell"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// heldEnds is a shell over a store in which another transaction keeps all rows of the type pay locked once they run.
type heldEnds struct {
	*testing.T
	*shell.Shell
	now   time.Time
	ef    shell.Effects
	rows  map[task.ID]*task.Task
	begun map[string]int // handlers that were called, by type; they return at once
	free  bool           // the locks are given back
}

func newHeldEnds(t *testing.T) *heldEnds {
	h := &heldEnds{T: t, now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), rows: make(map[task.ID]*task.Task), begun: make(map[string]int)}
	h.Shell = shell.New(shell.Config{
		Core: core.New(core.Config{
			Owner: task.ID{1}, Policies: policy.Set{Slots: 200, Types: map[string]policy.Type{"pay": policy.DefaultType(), "mail": policy.DefaultType()}},
			Handled: map[string]bool{"pay": true, "mail": true}, Capacity: 100_000, QueueCapacity: 100_000, Chance: func() float64 { return 0.5 },
		}),
		Aside: true,
	})
	h.take()
	return h
}

// take performs the effects.
func (h *heldEnds) take() {
	for isMore := true; isMore; {
		h.Collect(&h.ef)
		isMore = len(h.ef.Scans)+len(h.ef.DueLoads)+len(h.ef.Loads)+len(h.ef.Runs) > 0
		for range h.ef.Scans {
			h.Core().Scanned(nil, true)
		}
		for _, l := range h.ef.DueLoads {
			h.Core().DueLoaded(h.now, l, nil, true)
		}
		for _, l := range h.ef.Loads {
			var page []task.Trigger
			for _, row := range h.rows {
				if row.State == task.Submitted && row.Queue() == l.Queue && row.Rank().Compare(l.After) > 0 {
					page = append(page, row.Trigger())
				}
			}
			slices.SortFunc(page, func(a, b task.Trigger) int { return a.Rank.Compare(b.Rank) })
			n := min(len(page), l.Limit)
			h.Core().Loaded(h.now, l.Queue, page[:n], n < l.Limit)
		}
		for _, run := range h.ef.Runs {
			h.begun[run.Type]++
			h.Pass(h.now, &shell.Events{Endings: []shell.Ending{{Ref: run.Task.Ref(), Verdict: task.Verdict{Outcome: task.Completed}}}})
		}
	}
}

// add submits tasks.
func (h *heldEnds) add(typ string, n int) {
	rows := make([]*task.Task, n)
	for i := range rows {
		seq := len(h.rows) + i + 1
		rows[i] = &task.Task{ID: task.ID{13: byte(seq >> 16), 14: byte(seq >> 8), 15: byte(seq)}, Type: typ, Seq: uint64(seq)}
	}
	for _, row := range rows {
		h.rows[row.ID] = row
	}
	h.Pass(h.now, &shell.Events{Submissions: []*shell.Submission{{Rows: rows, Done: make(chan error, 1)}}})
	h.take()
	h.work()
}

// commit answers a batch, if there is one.
func (h *heldEnds) commit(b *shell.Batch) bool {
	if b == nil {
		return false
	}
	b.Fill()
	blocked := &storage.Blocked{Err: fmt.Errorf("it is locked: %w", storage.ErrBusy)}
	for i, c := range b.Do.Swap {
		if row := h.rows[c.ID]; !h.free && row.Type == "pay" && row.State == task.Processing {
			blocked.Rows = append(blocked.Rows, len(b.Do.Insert)+i)
		}
	}
	switch {
	case len(blocked.Rows) == 0:
	case b.Do.Wait == storage.WaitLong: // it is a single item
		h.Failed(h.now, b, blocked.Err)
		h.take()
		return true
	default:
		h.Failed(h.now, b, blocked)
		h.take()
		return true
	}
	out := storage.Outcome{Inserted: make([]storage.Inserted, len(b.Do.Insert)), Swapped: make([]*task.Task, len(b.Do.Swap))}
	for _, row := range b.Do.Insert {
		row.Seq = uint64(row.ID[13])<<16 | uint64(row.ID[14])<<8 | uint64(row.ID[15])
		after := *row
		h.rows[row.ID] = &after
	}
	for i, c := range b.Do.Swap {
		if c.Apply(h.rows[c.ID]) {
			after := *h.rows[c.ID]
			out.Swapped[i] = &after
		}
	}
	h.Written(h.now, b, out)
	h.take()
	return true
}

// work commits until nothing is left.
func (h *heldEnds) work() {
	for {
		some := h.commit(h.Next(h.now, 0, nil))
		some = h.commit(h.NextAside(h.now, 0, false)) || some
		some = h.commit(h.NextAside(h.now, 0, true)) || some
		if !some {
			return
		}
	}
}

// An application that locks many rows of a type stops this type alone, when the ends of more attempts of it wait than
// memory is for. When the locks are given back, all of them are written, and the type goes on.
func TestManyEndsThatCannotBeWrittenStopTheirTypeAlone(t *testing.T) {
	h := newHeldEnds(t)
	const most = 10_000
	for range 80 {
		h.add("pay", 200)
	}
	if n := h.begun["pay"]; n < most || n > most+400 || h.Stuck() != n {
		t.Errorf("%d tasks began, and the ends of %d are stuck", n, h.Stuck())
	}
	h.add("mail", 500)
	if h.begun["mail"] != 500 {
		t.Errorf("%d tasks of another type began", h.begun["mail"])
	}
	waits := *h.rows[task.ID{14: 15_999 >> 8, 15: 15_999 & 0xff}]
	if w := h.Core().Why(h.now, &waits); !w.Stopped || waits.State != task.Submitted {
		t.Errorf("a task that is %v waits because of %+v", waits.State, w)
	}
	h.free = true
	for range 10 {
		h.now = h.now.Add(time.Minute)
		h.Tick(h.now)
		h.take()
		h.work()
	}
	if n := h.begun["pay"]; n != 80*200 || h.Stuck() != 0 {
		t.Errorf("afterwards %d tasks have begun, and the ends of %d are stuck", n, h.Stuck())
	}
}
