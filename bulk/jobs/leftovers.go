package jobs

import (
	"sync"

	"github.com/taskengine/taskengine/bulk"
	"github.com/taskengine/taskengine/task"
)

// mostLeft is how many states are kept at most: nothing removes that of a job that has gone on.
const mostLeft = 100

// leftovers are the states of runs of this node that could not store them, because an order has interrupted them or a store has failed. The next run of
// the job goes on from there, if the job has carried out no other plan since.
type leftovers struct {
	mu sync.Mutex
	of map[task.ID]*bulk.State // guarded by mu: by the task of the job
}

// keep keeps the state of a job. Nil is none.
func (l *leftovers) keep(job task.ID, s *bulk.State) {
	if s == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.of) >= mostLeft {
		clear(l.of) // the history of the tasks remains
	}
	l.of[job] = s
}

// since returns the state of a job that its last run has left after a checkpoint, or that checkpoint if there is none.
func (l *leftovers) since(job task.ID, checkpoint bulk.State) bulk.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.of[job]; s != nil && s.PlanAt.Equal(checkpoint.PlanAt) {
		return *s
	}
	delete(l.of, job)
	return checkpoint
}
