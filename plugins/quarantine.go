package plugins

import "github.com/taskengine/taskengine/engine/task"

// maxSuspects is how many tasks may be under suspicion. Of more the oldest are forgotten:
// those that nobody tries again are never cleared.
const maxSuspects = 10_000

// atOnceAlone is how many processes for a single suspect there may be at once.
const atOnceAlone = 4

// suspects are the tasks that were running when a process died. Nobody knows which of them
// it was, so each is tried again alone: what dies then is its own doing, and the others
// come to no harm by it. The zero value has none.
type suspects struct {
	added map[task.ID]uint64 // when each was added: the number of its addition
	order []addition         // of all additions that were not passed over, oldest first
	count uint64             // of additions so far
}

type addition struct {
	id     task.ID
	number uint64
}

func (s *suspects) add(id task.ID) {
	if s.added == nil {
		s.added = make(map[task.ID]uint64)
	}
	s.count++
	s.added[id] = s.count
	s.order = append(s.order, addition{id, s.count})
	for len(s.order) > maxSuspects || len(s.order) > 0 && s.stale(s.order[0]) {
		if !s.stale(s.order[0]) {
			delete(s.added, s.order[0].id)
		}
		s.order = s.order[1:]
	}
}

// stale reports whether a task was cleared, or added again, after an addition.
func (s *suspects) stale(a addition) bool { return s.added[a.id] != a.number }

func (s *suspects) has(id task.ID) bool {
	_, found := s.added[id]
	return found
}

// clear takes a task out of suspicion: a process has survived it.
func (s *suspects) clear(id task.ID) { delete(s.added, id) }
