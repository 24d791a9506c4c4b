//go:build !race

package core

import (
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// manyDue is a core, and its store: a batch has all that the core has asked for, and handlers return at once.
type manyDue struct {
	*testing.T
	core  *Core
	now   time.Time
	rows  []*task.Task // in the order of their times
	begun []task.ID
	moved int // rows that became submitted

	moves, grabs []int // of each batch
}

const dueSlots = 8

func newManyDue(t *testing.T) *manyDue {
	d := &manyDue{T: t, now: time.Unix(1_700_000_000, 0).UTC()}
	bulk := policy.DefaultType()
	bulk.Limits = []string{"bulk"}
	d.core = New(Config{
		Policies: policy.Set{
			Slots: dueSlots + 1, Limits: map[string]policy.Limit{"bulk": {Name: "bulk", Max: dueSlots}},
			Types: map[string]policy.Type{"bulk": bulk, "other": policy.DefaultType()},
		},
		Handled: map[string]bool{"bulk": true, "other": true}, Capacity: 100_000, QueueCapacity: 1000,
		Chance: func() float64 { return 0 },
	})
	return d
}

// add adds a row that is due at a time from now.
func (d *manyDue) add(typ string, priority uint8, in time.Duration) *task.Task {
	n := len(d.rows) + 1
	row := &task.Task{
		ID: task.ID{13: byte(n >> 16), 14: byte(n >> 8), 15: byte(n)}, Type: typ, Priority: priority, ReadyAt: d.now.Add(in),
	}
	row.Create(task.Waiting, d.now, row.ReadyAt)
	row.Seq = uint64(n)
	d.rows = append(d.rows, row)
	return row
}

// batch commits the saves of the core, and answers them.
func (d *manyDue) batch() {
	var r Ready
	d.core.Tick(d.now)
	d.core.Take(&r)
	moves := 0
	for i := range r.Saves {
		s := &r.Saves[i]
		row := d.swap(s.Change)
		if s.Moves() {
			moves++
			d.moved++
		}
		d.core.Saved(d.now, s, row)
	}
	for _, g := range r.Grabs {
		d.core.Grabbed(d.now, g.Ref, d.swap(g), false)
	}
	d.moves, d.grabs = append(d.moves, moves), append(d.grabs, len(r.Grabs))
	for _, run := range r.Runs {
		d.begun = append(d.begun, run.ID)
		d.core.Handled(d.now, run.ID, task.Verdict{Outcome: task.Completed})
	}
	for range r.Scans {
		d.core.Scanned(d.queues(), true)
	}
	for _, l := range r.Loads {
		page, end, _ := l.Read(func(after *task.Rank, limit int) (rows []task.Trigger, err error) {
			for _, row := range d.rows {
				if row.State == task.Submitted && row.Queue() == l.Queue && (after == nil || row.Rank().Compare(*after) > 0) {
					rows = append(rows, row.Trigger())
				}
			}
			slices.SortFunc(rows, func(a, b task.Trigger) int { return a.Rank.Compare(b.Rank) })
			return rows[:min(len(rows), limit)], nil
		})
		d.core.Loaded(d.now, l.Queue, page, end)
	}
	for _, l := range r.DueLoads {
		var page []Due
		for _, row := range d.rows {
			at := row.NextEventAt
			isAfter := at.After(l.AfterAt) || at.Equal(l.AfterAt) && row.ID.Compare(l.AfterID) > 0
			if row.State == l.State && !at.IsZero() && isAfter && len(page) < l.Limit {
				page = append(page, Due{row.Trigger(), at})
			}
		}
		d.core.DueLoaded(d.now, l, page, len(page) < l.Limit)
	}
}

func (d *manyDue) queues() (all []task.Queue) {
	for _, row := range d.rows {
		if row.State == task.Submitted && !slices.Contains(all, row.Queue()) {
			all = append(all, row.Queue())
		}
	}
	return all
}

func (d *manyDue) swap(c task.Change) *task.Task {
	n := int(c.ID[13])<<16 | int(c.ID[14])<<8 | int(c.ID[15])
	row := d.rows[n-1]
	if row.Version != c.Version || !c.Apply(row) {
		return nil
	}
	after := *row
	return &after
}

// Starts go on while many tasks that are due at the same moment are moved: each batch has few moves for the grabs in it, and
// all slots are used. Tasks that are due later, and may start before them, do not wait for the moves.
func TestStartsGoOnWhileManyTasksAreDue(t *testing.T) {
	d := newManyDue(t)
	const many = 12_000
	for range many {
		d.add("bulk", task.DefaultPriority, time.Second)
	}
	other := d.add("other", task.DefaultPriority, time.Second+time.Millisecond)
	urgent := d.add("bulk", task.HighestPriority, time.Second+time.Millisecond)
	for range 3 { // reads
		d.batch()
	}
	d.now = d.now.Add(2 * time.Second)
	d.moves, d.grabs = nil, nil
	const batches = 50
	for range batches {
		d.batch()
		d.now = d.now.Add(5 * time.Millisecond)
	}
	for i, n := range d.moves {
		if n > minMoving+minMoving/2 {
			t.Errorf("batch %d has %d moves and %d grabs", i, n, d.grabs[i])
		}
	}
	for _, row := range []*task.Task{other, urgent} {
		if !slices.Contains(d.begun, row.ID) {
			t.Errorf("a task of type %s and priority %d has not begun in %d batches, with %d tasks begun and %d moved", row.Type, row.Priority, batches, len(d.begun), d.moved)
		}
	}
	if enough := dueSlots * batches / 3; len(d.begun) < enough {
		t.Errorf("%d tasks began in %d batches", len(d.begun), batches)
	}
	for range many {
		d.batch()
		d.now = d.now.Add(5 * time.Millisecond)
		if len(d.begun) >= many+2 {
			break
		}
	}
	slices.SortFunc(d.begun, task.ID.Compare)
	if each := slices.Compact(slices.Clone(d.begun)); len(each) != len(d.begun) || len(each) != many+2 {
		t.Errorf("%d tasks began %d times", len(each), len(d.begun))
	}
}

// Rows that the store refuses to move, because they are locked, do not keep others from being moved.
func TestRowsThatCannotBeMovedKeepNoOthersWaiting(t *testing.T) {
	d := newManyDue(t)
	for range 10 * maxMoving {
		d.add("bulk", task.DefaultPriority, time.Second)
	}
	for range 3 {
		d.batch()
	}
	d.now = d.now.Add(time.Second)
	d.core.Tick(d.now)
	tried := 0
	for range len(d.rows) / minMoving {
		var r Ready
		d.core.Take(&r)
		tried += len(r.Saves)
		for _, s := range r.Saves {
			d.core.Rests(d.now, s)
		}
	}
	if all := len(d.rows) - dueSlots; tried != all {
		t.Errorf("%d of %d rows were tried to be moved", tried, all)
	}
}
