package task_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
)

func TestADocumentIsInTheShardOfItsKeyOrOfThePartInBraces(t *testing.T) {
	for key, want := range map[string]string{
		"customer/17": "customer/17", "{customer/17}/cart": "customer/17", "cart/{customer/17}/{a}": "customer/17",
		"{}/a": "{}/a", "a{b": "a{b", "a}b{c}": "c", "{": "{",
	} {
		id := task.DocumentID(key)
		shard, bound := task.BoundShard(task.DocumentType, key, "")
		if got := task.DocumentShard(key); got != task.ShardOf(want) || id.Shard() != got || shard != got || !bound {
			t.Errorf("%s: shard %d, id in %d, bound to %d, want %d", key, got, id.Shard(), shard, task.ShardOf(want))
		}
		if order, _ := task.BoundShard("any", "", want); order != id.Shard() {
			t.Errorf("%s: tasks with the ordering key %s are in shard %d", key, want, order)
		}
	}
	if task.DocumentID("a") == task.DocumentID("b") || !task.IsReservedID(task.DocumentID("a")) {
		t.Error("the ids are not those of documents")
	}
}

func TestAnErrorAboutAConflictDoesNotCount(t *testing.T) {
	conflict := &task.DocumentConflict{Key: "a", Version: 3, Replaces: 2}
	wrapped := fmt.Errorf("save: %w", conflict)
	if v := task.VerdictOf(nil, wrapped); v.Outcome != task.Snoozed || v.Error != wrapped.Error() {
		t.Errorf("the verdict is %+v", v)
	}
	if v := task.VerdictOf(nil, task.Permanent(wrapped)); v.Outcome != task.Errored || !v.GiveUp {
		t.Errorf("of a permanent error the verdict is %+v", v)
	}
	for want, c := range map[string]task.DocumentConflict{
		`the document "a" has version 3, and version 2 was to be replaced`:               *conflict,
		`the document "a" exists, with version 3, and was to be created`:                 {Key: "a", Version: 3},
		`the document "a" does not exist any more, and its version 2 was to be replaced`: {Key: "a", Replaces: 2},
	} {
		if got := c.Error(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestARowIsADocumentWhileItIsDoneAndHasNotExpired(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	c := task.NewDocumentChange(now, &task.DocumentWrite{Key: "a", ExpiresAt: now.Add(time.Minute)}, []byte("1"))
	row := c.Over(nil)
	for name, change := range map[string]func(*task.Task){
		"another type": func(t *task.Task) { t.Type = "mail" },
		"submitted":    func(t *task.Task) { t.State = task.Submitted },
		"erased":       func(t *task.Task) { task.Change{Ref: t.Ref(), To: task.Done, At: now, Erase: &task.Erasure{}}.Apply(t) },
		"expired":      func(t *task.Task) { t.NextEventAt = now },
	} {
		other := row.Clone()
		if task.DocumentOf(other, now) == nil {
			t.Fatal("the row is no document")
		}
		if change(other); task.DocumentOf(other, now) != nil {
			t.Errorf("%s: it is a document", name)
		}
		was := other.Version
		if next := c.Over(other); next.Version <= was || next.CreatedAt != row.UpdatedAt {
			t.Errorf("%s: version %d follows %d", name, next.Version, was)
		}
		if c := (task.DocumentChange{Row: row, Replaces: new(uint64(0))}); c.Conflict(other) != nil {
			t.Errorf("%s: %v", name, c.Conflict(other))
		}
	}
	for n, most := range map[int]time.Duration{0: 10 * time.Millisecond, 3: 80 * time.Millisecond, 20: 1280 * time.Millisecond} {
		tk := &task.Task{ID: task.ID{1}, Version: 1, State: task.Processing, StartedAt: now, Attempt: 1}
		for range n {
			tk.History = append(tk.History, task.Attempt{StartedAt: now, EndedAt: now, Outcome: task.Snoozed, Error: "conflict"})
		}
		is := task.RunningOf(tk)
		end := task.Conclude(now, &is, new(task.Verdict).Conflicting(new(task.Rules)), new(task.Rules), func() float64 { return 0.5 })
		if c := end.Change; c.To != task.Waiting || c.Count != task.Refund || c.NextEventAt.Sub(now) != most/2 || end.Slowed {
			t.Errorf("after %d conflicts the change is %+v, want a delay of %v", n, c, most/2)
		}
	}
	if v := new(task.Verdict).Conflicting(&task.Rules{AtMostOnce: true}); v.Outcome != task.Errored || !v.InDoubt || v.Class != task.ClassDocumentConflict {
		t.Errorf("at most once: %+v", v)
	}
	if !errors.As(error(&task.DocumentConflict{}), new(*task.DocumentConflict)) {
		t.Error("it is no error")
	}
}
