package task_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/task"
)

func TestAnErasedRowKeepsItsReceiptAndNoContent(t *testing.T) {
	for _, from := range task.States() {
		for _, to := range task.States() {
			row := full()
			row.State, row.Tombstone, row.UpdatedAt = from, false, start
			row.History = []task.Attempt{{Number: 1, StartedAt: start, EndedAt: start, Node: "n", Outcome: task.Edited, Error: "payload was secret", By: "carl", Job: "j"}}
			was := row.Clone()
			at, until := start.Add(time.Hour), start.Add(2*time.Hour)
			c := task.Change{Ref: row.Ref(), To: to, At: at, NextEventAt: until, Error: "secret", Erase: &task.Erasure{By: "anna", Job: "job"}}
			may := from == to && slices.Contains([]task.State{task.Done, task.Failed, task.Cancelled}, from) || from == task.Error && to == task.Failed
			if c.Apply(row) != may {
				t.Fatalf("an erasure from %v to %v is applied: %t", from, to, !may)
			}
			if !may {
				if diff := cmp.Diff(was, row); diff != "" {
					t.Fatalf("(-want +got) %s", diff)
				}
				continue
			}
			want := &task.Task{
				ID: was.ID, Version: was.Version + 1, State: to, Type: was.Type, Shard: was.Shard, Priority: was.Priority, Seq: was.Seq, Attempt: was.Attempt, Crashes: was.Crashes,
				CreatedAt: was.CreatedAt, ReadyAt: was.ReadyAt, ExpiresAt: was.ExpiresAt, StartedAt: was.StartedAt, Node: was.Node, UpdatedAt: at, NextEventAt: until,
				Owner: was.Owner, Parent: was.Parent, Children: was.Children.Resting(),
				History: []task.Attempt{
					{Number: 1, StartedAt: start, EndedAt: start, Node: "n", Outcome: task.Edited, By: "carl", Job: "j"},
					{Number: was.Attempt, StartedAt: start, EndedAt: at, Outcome: task.Erased, By: "anna", Job: "job"},
				},
			}
			if diff := cmp.Diff(want, row); diff != "" {
				t.Fatalf("(-want +got) %s", diff)
			}
			if r := row.Erased(); r == nil || r.By != "anna" {
				t.Fatalf("the receipt is %+v", r)
			}
			for _, next := range task.States() {
				if (task.Change{Ref: row.Ref(), To: next, At: at}).Apply(row) || (task.Change{Ref: row.Ref(), To: next, At: at, Erase: c.Erase}).Apply(row) {
					t.Fatalf("an erased task becomes %v", next)
				}
			}
		}
	}
}

func TestAnErasedTombstoneStaysOne(t *testing.T) {
	row := full()
	row.State, row.Tombstone, row.History = task.Done, true, nil
	if !(task.Change{Ref: row.Ref(), To: task.Done, At: start, Erase: &task.Erasure{}}).Apply(row) || !row.Tombstone || row.Key != "" || row.Erased() == nil {
		t.Errorf("got %+v", row)
	}
}
