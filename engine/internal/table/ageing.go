package table

import (
	"math"
	"slices"

	"github.com/taskengine/taskengine/task"
)

// A type may have ageing (policy.Type.Ageing). A level of priority is then worth that time, and not
// strict: the table gives a task the default priority, and the time of becoming ready minus the ageing
// for each level above the default, or plus it for each level below.
//
//   - The place of a task depends on its row alone, so it is the same after a retry or a restart.
//   - Tasks with ageing, of all types, are ordered by this time among each other, and among tasks of
//     the default priority without ageing. Priorities of tasks without ageing are strict, also
//     towards tasks with ageing. If a task of priority 9 may go before one of priority 0, no strict
//     priority can lie between the two in an order that does not depend on the present time.
//
// # The bound
//
// Let x be a task with ageing A and the priority p, which became ready at r. A task y goes before x only
// if it has a better priority than the default and no ageing, or if its place is not after that of x. If y
// has ageing A, too, and the priority q, then it became ready not later than r + (p-q)*A. So once p*A has
// passed since r, no task with ageing A that becomes ready goes before x. x waits for tasks that became
// ready before, as far as they share a full limit with it, and for running tasks.
//
// # Loads
//
// The windows of the table are in this order, see package window. The stores keep the rows of a queue
// in the order of priority and then time. So [Load.Read] reads the rows of each priority behind the
// place where the window ends, and merges them.
//
// These are several reads, each at a moment of its own after [window.Window.Ask]. The proof of package
// window holds with the moment of the read of the priority of r in the place of T: if the store had r at
// this version then, r is in that read, or behind Limit rows of it and so behind the page. If not, r
// changed after that moment, and so after Ask.

// place returns the rank in the table of the tasks of k with rank r.
func (k *kind) place(r task.Rank) task.Rank {
	if k.ageing == 0 {
		return r
	}
	return aged(r, k.ageing)
}

// aged returns the place of a task with the rank r if a level of priority is worth so many microseconds.
func aged(r task.Rank, level int64) task.Rank {
	r.ReadyAt += levels(r.Priority) * level
	r.Priority = task.DefaultPriority
	return r
}

// levels returns how many levels p is below the default priority.
func levels(p uint8) int64 { return int64(p) - int64(task.DefaultPriority) }

// rank returns the rank of the task of i, which is of k.
func (k *kind) rank(i item) task.Rank {
	if k.ageing == 0 {
		return i.rank
	}
	return task.Rank{Priority: i.priority, ReadyAt: i.rank.ReadyAt - levels(i.priority)*k.ageing, Seq: i.rank.Seq}
}

// SkipTo returns where a reader goes on that reads the ready rows of the queue of tr in the order of the
// store, if the table leaves tr to the store: the rows before that rank behind tr, and are left to the
// store, too.
func (t *Table) SkipTo(tr task.Trigger) task.Rank {
	if k, ok := t.kinds[tr.Type]; ok && k.ageing > 0 && tr.Priority < task.LowestPriority {
		return beginning(tr.Priority + 1)
	}
	return task.Rank{Priority: math.MaxUint8}
}

// beginning returns a rank before all tasks of a priority, and behind the tasks of better ones.
func beginning(priority uint8) task.Rank {
	return task.Rank{Priority: priority, ReadyAt: math.MinInt64}
}

// Read reads the rows of a Load. ready reads at most limit ready rows of the queue that rank behind
// after (nil: from the first), in the order of their ranks. end says that the store has no rows behind
// the page. If ready fails, Read returns its error.
func (l *Load) Read(ready func(after *task.Rank, limit int) ([]task.Trigger, error)) (page []task.Trigger, end bool, err error) {
	if l.Ageing == 0 {
		page, err = ready(l.from(0), l.Limit)
		return page, err == nil && len(page) < l.Limit, err
	}
	level := l.Ageing.Microseconds()
	for p, more := uint8(0), true; more; {
		rows, err := ready(l.from(p), l.Limit)
		if err != nil {
			return nil, false, err
		}
		other := slices.IndexFunc(rows, func(tr task.Trigger) bool { return tr.Priority != p })
		switch {
		case len(rows) < l.Limit: // there are no others behind
			rows = slices.DeleteFunc(rows, func(tr task.Trigger) bool { return aged(tr.Rank, level).Compare(l.After) <= 0 })
			more = false
		case other < 0:
			p++
			more = p != 0
		default: // the rows of the next priority need not begin here
			rows, p = rows[:other], rows[other].Priority
		}
		page = append(page, rows...)
	}
	slices.SortFunc(page, func(a, b task.Trigger) int { return aged(a.Rank, level).Compare(aged(b.Rank, level)) })
	return page[:min(len(page), l.Limit)], len(page) < l.Limit, nil
}

// from returns the rank behind which the rows of a priority are to be read; nil is from the first. Without
// ageing all rows are of the priority 0.
func (l *Load) from(priority uint8) *task.Rank {
	switch after := l.After; {
	case l.Ageing == 0 && after != (task.Rank{}):
		return &after
	case after != (task.Rank{}):
		after.Priority = priority
		after.ReadyAt -= levels(priority) * l.Ageing.Microseconds()
		return &after
	case priority > 0:
		after = beginning(priority)
		return &after
	}
	return nil
}
