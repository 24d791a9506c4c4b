package plugins

import "github.com/taskengine/taskengine/engine/task"

// maxSuspects is how many tasks may be under suspicion. Beyond, tasks are tried again in
// company, which may cost the company another process and nothing else.
const maxSuspects = 10_000

// atOnceAlone is how many processes for a single suspect there may be at once.
const atOnceAlone = 4

// suspects are the tasks that were running when a process died. Nobody knows which of them
// it was, so each is tried again alone: what dies then is its own doing, and the others
// come to no harm by it.
type suspects map[task.ID]struct{}

func (s *suspects) add(id task.ID) {
	if *s == nil {
		*s = make(suspects)
	}
	if len(*s) < maxSuspects {
		(*s)[id] = struct{}{}
	}
}

func (s suspects) has(id task.ID) bool {
	_, found := s[id]
	return found
}

// clear takes a task out of suspicion: a process has survived it.
func (s suspects) clear(id task.ID) { delete(s, id) }
