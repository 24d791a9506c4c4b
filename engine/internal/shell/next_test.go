package shell

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// A batch that the caller may reuse is not the pending one when Next has taken nothing: two batches would share it.
func TestTheSpareBatchIsNotThePendingOne(t *testing.T) {
	set := policy.Set{Slots: 10, Types: map[string]policy.Type{"mail": policy.DefaultType()}}
	w := newWorld(1, false, set, t.Fatalf)
	s := w.shell
	s.config.Aside = true
	l := &s.lanes[0]
	for round := range 4 {
		id := task.ID{15: byte(round)}
		s.refusals[id] = &refusal{}
		l.pending.grabs = append(l.pending.grabs, task.Change{Ref: task.Ref{ID: id, Version: 1}, To: task.Processing})
		spare := new(Batch)
		if b := s.Next(time.Time{}, 0, spare); b != nil {
			t.Fatalf("round %d: a batch of %d items", round, b.size())
		}
		if l.pending == spare || !l.pending.empty() || !spare.empty() {
			t.Fatalf("round %d: the spare batch has %d items, and the pending one %d; they are one: %t", round, spare.size(), l.pending.size(), l.pending == spare)
		}
	}
}
