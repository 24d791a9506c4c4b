package engine_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/task"
)

// behind fails the test unless a task waits only for another one, and the text has these parts. It returns the reason.
func (o *ordered) behind(payload, head string, state task.State, parts ...string) engine.Reason {
	o.t.Helper()
	synctest.Wait()
	_, why, err := o.Why(o.t.Context(), o.ids[payload])
	if err != nil || len(why) == 0 {
		o.t.Fatalf("why: %+v %v", why, err)
	}
	r := why[0]
	if r.Code != engine.CodeBehind || r.Head != o.ids[head] || r.HeadState != state {
		o.t.Errorf("why: %+v, want that %s is before it", r, head)
	}
	for _, part := range append(parts, o.ids[head].String()) {
		if !strings.Contains(r.Text, part) {
			o.t.Errorf("why: %q has no %q", r.Text, part)
		}
	}
	return r
}

func TestWhySaysWhatTheHeadOfItsOrderingKeyDoes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := startOrdered(t, nil, map[string]act{"A": func(_ context.Context, _ int) ([]byte, error) { return nil, errNo }})
		if err := o.Pause(t.Context(), "y"); err != nil {
			t.Fatal(err)
		}
		o.add("A b")
		o.behind("b", "A", task.Submitted, "has not started", "taskengine task why")
		if _, why, err := o.Why(t.Context(), o.ids["A"]); err != nil || why[0].Code != engine.CodePaused {
			t.Errorf("why of the head: %+v %v", why, err)
		}
		if err := o.Unpause(t.Context(), "y"); err != nil {
			t.Fatal(err)
		}
		o.behind("b", "A", task.Processing, "runs since", "type y")
		time.Sleep(30 * time.Second)
		if r := o.behind("b", "A", task.Waiting, "attempt 2", "after: no"); !r.Until.Equal(o.get(o.ids["A"]).NextEventAt) {
			t.Errorf("it is over at %v", r.Until)
		}
		time.Sleep(time.Hour)
		o.behind("b", "A", task.Error, "is an error since", "resume, fail or cancel", ": no")
		if _, why, err := o.Why(t.Context(), o.ids["A"]); err != nil || !strings.Contains(why[0].Text, "tasks behind it of the same ordering key wait") {
			t.Errorf("why of the head: %+v %v", why, err)
		}
		if err := o.Pause(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		if _, why, err := o.Why(t.Context(), o.ids["b"]); err != nil || len(why) != 2 || why[1].Code != engine.CodePaused {
			t.Errorf("why of a type that is paused: %+v %v", why, err)
		}
	})
}

func TestWhySaysThatAnEarlierTaskOfTheKeyWaitsForItsTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := startOrdered(t, nil, nil)
		delayed := request("d")
		delayed.At = time.Now().Add(time.Hour)
		o.submitAll(delayed)
		synctest.Wait()
		_, why, err := o.Why(t.Context(), o.ids["d"])
		if err != nil || len(why) != 1 || why[0].Code != engine.CodeScheduled {
			t.Errorf("why of a task that waits for its time: %+v %v", why, err)
		}
		ids := task.NewIDs([32]byte{1})
		first := &task.Task{ID: ids.Next(time.Now()), Type: "x", OrderingKey: "other", ReadyAt: time.Now()}
		first.Create(task.Waiting, time.Now(), time.Now().Add(time.Hour)) // as a copy of another store may have it
		second := &task.Task{ID: ids.Next(time.Now()), Type: "x", OrderingKey: "other", ReadyAt: time.Now()}
		second.Create(task.Submitted, time.Now(), time.Time{})
		if _, err := o.store.Insert(t.Context(), first, second); err != nil {
			t.Fatal(err)
		}
		o.ids["first"], o.ids["second"] = first.ID, second.ID
		if r := o.behind("second", "first", task.Waiting, "waits for its time"); !r.Until.Equal(first.NextEventAt) {
			t.Errorf("it is over at %v", r.Until)
		}
	})
}
