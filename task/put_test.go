package task_test

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
)

func TestAPersonGivesATaskOtherValues(t *testing.T) {
	t.Parallel()
	for _, s := range task.States() {
		for _, to := range task.States() {
			row := &task.Task{ID: task.ID{1}, Version: 3, State: s, Priority: 5, Headers: map[string]string{"a": "1"}, LastError: "no", OrderingKey: "k", Attempt: 2}
			c := task.Change{
				Ref: row.Ref(), To: to, At: start, NextEventAt: start.Add(time.Hour),
				Put: &task.Put{Priority: new(uint8(1)), Headers: &map[string]string{"b": "2"}}, Mark: &task.Mark{Was: "priority was 5"},
			}
			if to == task.Error {
				c.NextEventAt = time.Time{}
			}
			applies := to == task.Waiting && (s == task.Waiting || s == task.Submitted) || s == task.Error && to == task.Error
			if c.Apply(row) != applies {
				t.Errorf("from %v to %v it applies: %v", s, to, !applies)
			}
			if !applies {
				if row.Version != 3 || row.Priority != 5 {
					t.Errorf("from %v to %v: got %+v", s, to, row)
				}
				continue
			}
			want := task.Attempt{Number: 2, StartedAt: start, EndedAt: start, Outcome: task.Edited, Error: "priority was 5"}
			if row.State != to || row.Priority != 1 || row.Headers["b"] != "2" || len(row.Headers) != 1 || row.LastError != "no" || row.Attempt != 2 || len(row.History) != 1 || row.History[0] != want ||
				to == task.Error && row.Turn != task.Unordered {
				t.Errorf("from %v to %v: got %+v", s, to, row)
			}
		}
	}
}
