package workers

import "github.com/taskengine/taskengine/task"

// tolerated is how many workers a task may lose in a row without being suspected. A worker is lost for many reasons: a
// machine that is taken away, a network, another task. A task that loses one worker after the other is the likely cause.
const tolerated = 2

// maxLosses is of how many tasks the losses are counted. Beyond it the oldest are forgotten: a task that is never tried
// again would stay for ever.
const maxLosses = 10_000

// losses counts how many workers each task has lost in a row. The zero value is empty.
type losses struct {
	of    map[task.ID]int
	order []task.ID // in the order of adding, including removed ones
}

// add counts a loss of a task and returns how many there are.
func (l *losses) add(id task.ID) int {
	if l.of == nil {
		l.of = make(map[task.ID]int)
	}
	if l.of[id] == 0 {
		l.order = append(l.order, id)
	}
	l.of[id]++
	n := l.of[id]
	for len(l.order) > maxLosses {
		delete(l.of, l.order[0])
		l.order = l.order[1:]
	}
	return n
}

// remove forgets a task: a worker has answered for it.
func (l *losses) remove(id task.ID) {
	if len(l.of) > 0 {
		delete(l.of, id)
	}
}
