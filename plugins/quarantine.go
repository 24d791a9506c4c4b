package plugins

import "github.com/taskengine/taskengine/task"

// maxQuarantine is how many tasks may be in quarantine. Beyond it the oldest are forgotten: a task that is never tried
// again would stay for ever.
const maxQuarantine = 10_000

// maxAlone is the least bound of the number of processes that run a single task of the quarantine.
const maxAlone = 4

// quarantine is the set of tasks that were running when a process with several tasks died. It is not known which task
// killed the process, so each is tried again alone in a process of its own: if that dies, the task is the cause, and no
// other task is affected. The zero value is empty.
type quarantine struct {
	added map[task.ID]uint64 // number of the entry of each task
	order []entry            // all entries that were not dropped, oldest first
	count uint64             // number of the newest entry
}

type entry struct {
	id     task.ID
	number uint64
}

// add puts a task into quarantine.
func (q *quarantine) add(id task.ID) {
	if q.added == nil {
		q.added = make(map[task.ID]uint64)
	}
	q.count++
	q.added[id] = q.count
	q.order = append(q.order, entry{id, q.count})
	for len(q.order) > maxQuarantine || len(q.order) > 0 && q.stale(q.order[0]) {
		if !q.stale(q.order[0]) {
			delete(q.added, q.order[0].id)
		}
		q.order = q.order[1:]
	}
}

// stale reports whether the task of an entry was removed or added again after it.
func (q *quarantine) stale(e entry) bool { return q.added[e.id] != e.number }

// has reports whether a task is in quarantine.
func (q *quarantine) has(id task.ID) bool {
	_, found := q.added[id]
	return found
}

// remove takes a task out of quarantine: a process has finished it.
func (q *quarantine) remove(id task.ID) { delete(q.added, id) }
