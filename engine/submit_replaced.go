package engine

import (
	"sync"

	"github.com/taskengine/taskengine/task"
)

// replacements are the tasks that requests of this engine have replaced while other requests are being settled. Of many
// requests of a key at once one makes its change, and the others need not repeat theirs.
type replacements struct {
	mu     sync.Mutex
	active int                // guarded by mu: how many calls are being settled
	latest map[task.ID]uint64 // guarded by mu: the version that the latest replacement made
}

// maxReplacements is how many tasks replacements keeps at most.
const maxReplacements = 10_000

func (r *replacements) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active++
}

func (r *replacements) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.active--; r.active == 0 {
		r.latest = nil
	}
}

// note records that a replacement has made this version.
func (r *replacements) note(ref task.Ref) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.latest == nil || len(r.latest) >= maxReplacements { // what is forgotten is tried again
		r.latest = make(map[task.ID]uint64)
	}
	r.latest[ref.ID] = max(r.latest[ref.ID], ref.Version)
}

// after reports whether a replacement has made a later version.
func (r *replacements) after(ref task.Ref) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.latest[ref.ID] > ref.Version
}
