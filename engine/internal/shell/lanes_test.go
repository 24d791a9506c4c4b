package shell

import (
	"testing"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

func TestWhatIsPassedBeforeItsDatabaseFailsTakesNoSlot(t *testing.T) {
	set := policy.Set{Slots: 10, Types: map[string]policy.Type{"mail": policy.DefaultType()}}
	w := newWorld(2, false, set, t.Fatalf)
	row := func(n byte) *task.Task { return &task.Task{ID: task.ID{15: n}, Type: "mail", Shard: uint16(n)} }
	w.collect()
	w.submit(row(1))
	c := w.next(1)
	submitted, inserted := row(3), row(5)
	s := &Submission{Rows: []*task.Task{submitted}, Done: make(chan error, 1)}
	w.open[s] = true
	w.shell.Pass(w.now, &Events{Submissions: []*Submission{s}})
	createdAs(w, inserted)
	w.insert(inserted)
	w.shell.Inserted(w.now, inserted, storage.Inserted{})
	if n := w.shell.Core().Busy(); n != 3 {
		t.Fatalf("%d tasks have slots before", n)
	}
	w.answer(c, errAway)
	if n := w.shell.Core().Busy(); n != 0 || submitted.State != task.Submitted {
		t.Errorf("%d tasks have slots while their database does not answer, and the row is %s", n, submitted.State)
	}
}
