package shell

import (
	"errors"
	"testing"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

func TestABacklogIsFollowedThroughEveryAnswerOfTheStore(t *testing.T) {
	s := New(Config{
		Core:     core.New(core.Config{Owner: id(99), Policies: policy.Set{}, Capacity: 10, QueueCapacity: 10}),
		Backlogs: map[string]policy.Backlog{"mail": {Max: 3}, "free": {}},
	})
	var ef Effects
	submit := func(n, from int) *Submission {
		sub := &Submission{Done: make(chan error, 1)}
		for i := range n {
			sub.Rows = append(sub.Rows, &task.Task{ID: id(from + i), Type: "mail"})
		}
		s.Pass(beginning, &Events{Submissions: []*Submission{sub}})
		s.Collect(&ef)
		for _, r := range ef.Replies {
			r.Send()
		}
		return sub
	}
	expect := func(what string, stored, claimed int) {
		t.Helper()
		if b := s.backlogs["mail"]; b.stored != stored || b.claimed != claimed {
			t.Errorf("%s: %d are stored and %d claimed, want %d and %d", what, b.stored, b.claimed, stored, claimed)
		}
	}
	submit(2, 1)
	expect("two on their way", 0, 2)
	var full *Full
	if err := <-submit(2, 3).Done; !errors.As(err, &full) || full.Count != 2 || full.New != 2 || full.Max != 3 {
		t.Errorf("two more: %v", err)
	}
	b := s.Next(beginning, 0, nil)
	b.Fill()
	s.Written(beginning, b, storage.Outcome{Inserted: []storage.Inserted{{}, {Existing: id(50)}}})
	s.Collect(&ef)
	expect("one was added, and one existed", 1, 0)
	submit(2, 3)
	b = s.Next(beginning, 0, nil)
	b.Fill()
	s.Failed(beginning, b, storage.ErrUnavailable)
	s.Collect(&ef)
	expect("a failed commit", 1, 0)
	if !s.IsMiscounted() {
		t.Error("the outcome of a commit is unknown, and no count is asked for")
	}
	s.Recount()
	s.Recounted(beginning, map[storage.StateType]int64{{State: task.Submitted, Type: "mail"}: 2, {State: task.Waiting, Type: "mail"}: 1, {State: task.Done, Type: "mail"}: 7})
	expect("a count", 3, 0)
	if s.IsMiscounted() {
		t.Error("it was counted, and a count is asked for")
	}
}
