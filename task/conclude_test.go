package task_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/task"
)

// thrice allows three attempts, ten seconds apart.
type thrice struct{}

func (thrice) Exhausted(n uint32) bool { return n >= 3 }

func (thrice) Attempts() string { return "3" }

func (thrice) Next(n uint32, v task.Verdict, _ float64) (time.Duration, bool) {
	if v.GiveUp || n >= 3 {
		return 0, false
	}
	return max(10*time.Second, v.Delay), true
}

func TestWhatFollowsTheEndOfAnAttempt(t *testing.T) {
	const once = "it may have taken effect, and its type is at_most_once"
	later := start.Add(10 * time.Second)
	base := task.Rules{QueueTimeout: time.Minute, MaxCrashes: 2, Retry: thrice{}, KeepDone: time.Hour, KeepFailed: -1}
	with := func(edit func(*task.Rules)) task.Rules { r := base; edit(&r); return r }
	fails := with(func(r *task.Rules) { r.Fails = true })
	atMostOnce := with(func(r *task.Rules) { r.AtMostOnce = true })
	removes := with(func(r *task.Rules) { r.KeepDone, r.Remember = 0, 2*time.Hour })
	errored := task.Verdict{Outcome: task.Errored, Error: "no", Delay: -1}
	keyed := func(t *task.Task) { t.Key = "k" }
	ordered := func(t *task.Task) { t.OrderingKey, t.Turn = "o", task.Head }
	for name, c := range map[string]struct {
		rules   task.Rules
		edit    func(*task.Task)
		verdict task.Verdict
		want    task.Change
		remove  bool
	}{
		"done":                       {base, nil, task.Verdict{Outcome: task.Completed, Result: []byte("r")}, task.Change{To: task.Done, Result: []byte("r"), NextEventAt: start.Add(time.Hour)}, false},
		"done, not kept":             {removes, nil, task.Verdict{Outcome: task.Completed}, task.Change{To: task.Done, NextEventAt: start}, true},
		"done, remembered":           {removes, keyed, task.Verdict{Outcome: task.Completed}, task.Change{To: task.Done, NextEventAt: start, Remember: 2 * time.Hour}, false},
		"runs again":                 {base, nil, task.Verdict{Outcome: task.Completed, Again: later}, task.Change{To: task.Waiting, NextEventAt: later, ReadyAt: later, Count: task.Reset}, false},
		"runs again at once":         {base, nil, task.Verdict{Outcome: task.Completed, Again: start}, task.Change{To: task.Waiting, NextEventAt: start.Add(10 * time.Millisecond), ReadyAt: start, Count: task.Reset}, false},
		"again, with a seat":         {base, ordered, task.Verdict{Outcome: task.Completed, Again: start}, task.Change{OrderingKey: "o", To: task.Waiting, NextEventAt: start.Add(10 * time.Millisecond), ReadyAt: start.Add(10 * time.Millisecond), Count: task.Reset}, false},
		"snoozes":                    {base, nil, task.Verdict{Outcome: task.Snoozed, Delay: time.Second}, task.Change{To: task.Waiting, NextEventAt: start.Add(time.Second), Count: task.Refund}, false},
		"is handed back":             {base, nil, task.Verdict{Outcome: task.HandedBack}, task.Change{To: task.Waiting, NextEventAt: start.Add(time.Second), Count: task.Refund}, false},
		"is left alone":              {base, nil, task.Verdict{Outcome: task.HandedBack, Pause: time.Hour}, task.Change{To: task.Waiting, NextEventAt: start.Add(time.Hour), Count: task.Refund}, false},
		"is retried":                 {base, nil, errored, task.Change{To: task.Waiting, NextEventAt: later, Error: "no"}, false},
		"is retried in order":        {base, ordered, errored, task.Change{OrderingKey: "o", To: task.Waiting, NextEventAt: later, Error: "no"}, false},
		"yields":                     {with(func(r *task.Rules) { r.Yields = true }), ordered, errored, task.Change{OrderingKey: "o", To: task.Waiting, NextEventAt: later, ReadyAt: later, Error: "no"}, false},
		"has no time":                {base, func(t *task.Task) { t.ExpiresAt = later }, errored, task.Change{To: task.Error, Error: "no (there is no time for another attempt before it expires)"}, false},
		"was the last":               {base, func(t *task.Task) { t.Attempt = 3 }, errored, task.Change{To: task.Error, Error: "no (attempt 3 of 3)"}, false},
		"leaves its seat":            {with(func(r *task.Rules) { r.Continues = true }), func(t *task.Task) { ordered(t); t.Attempt = 3 }, errored, task.Change{OrderingKey: "o", To: task.Error, Leaves: true, Error: "no (attempt 3 of 3)"}, false},
		"fails for good":             {fails, nil, task.Verdict{Outcome: task.Errored, Error: "no", GiveUp: true, Delay: -1}, task.Change{To: task.Failed, Error: "no"}, false},
		"fails with the last":        {fails, func(t *task.Task) { t.Attempt = 3 }, errored, task.Change{To: task.Failed, Error: "no (attempt 3 of 3)"}, false},
		"fails without time":         {fails, func(t *task.Task) { t.ExpiresAt = later }, errored, task.Change{To: task.Failed, Error: "no (there is no time for another attempt before it expires)"}, false},
		"is retried before it fails": {fails, nil, errored, task.Change{To: task.Waiting, NextEventAt: later, Error: "no"}, false},
		"fails, but is in doubt":     {with(func(r *task.Rules) { r.Fails, r.AtMostOnce = true, true }), nil, task.Verdict{Outcome: task.Errored, Error: "no", InDoubt: true, Delay: -1}, task.Change{To: task.Error, Error: "no (" + once + ")"}, false},
		"fails, but crashes":         {fails, func(t *task.Task) { t.Crashes = 1 }, task.Verdict{Outcome: task.Crashed, Error: "no", Delay: -1}, task.Change{To: task.Error, Error: "no (quarantined after 2 crashes in a row)"}, false},
		"gives up":                   {base, nil, task.Verdict{Outcome: task.Errored, Error: "no", GiveUp: true, Delay: -1}, task.Change{To: task.Error, Error: "no"}, false},
		"is cancelled by a function": {base, nil, task.Verdict{Outcome: task.Errored, Error: "no", GiveUp: true, Next: task.Failed, Delay: -1}, task.Change{To: task.Failed, Error: "no"}, false},
		"is in doubt":                {atMostOnce, nil, task.Verdict{Outcome: task.Errored, Error: "no", InDoubt: true, Delay: -1}, task.Change{To: task.Error, Error: "no (" + once + ")"}, false},
		"answered":                   {atMostOnce, nil, errored, task.Change{To: task.Waiting, NextEventAt: later, Error: "no"}, false},
		"is interrupted":             {base, nil, task.Verdict{Outcome: task.Interrupted, Error: "stop"}, task.Change{To: task.Submitted, NextEventAt: start.Add(time.Minute), Count: task.Refund, Error: "stop"}, false},
		"crashes":                    {base, nil, task.Verdict{Outcome: task.Crashed, Error: "died", Delay: -1}, task.Change{To: task.Waiting, NextEventAt: later, Error: "died"}, false},
		"crashes again":              {base, func(t *task.Task) { t.Crashes = 1 }, task.Verdict{Outcome: task.Crashed, Error: "died", Delay: -1}, task.Change{To: task.Error, Error: "died (quarantined after 2 crashes in a row)"}, false},
	} {
		running := &task.Task{ID: task.ID{1}, Version: 4, State: task.Processing, Owner: task.ID{9}, Attempt: 1, StartedAt: start.Add(-time.Hour)}
		if c.edit != nil {
			c.edit(running)
		}
		is := task.RunningOf(running)
		got := task.Conclude(start, &is, c.verdict, &c.rules, func() float64 { return 0.5 })
		c.want.Ref, c.want.By, c.want.At, c.want.Outcome = running.Ref(), running.Owner, start, c.verdict.Outcome
		if diff := cmp.Diff(task.Conclusion{Change: c.want, Remove: c.remove}, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
		if !got.Change.Apply(running) {
			t.Errorf("%s: the change does not apply", name)
		}
	}
}

func TestATaskThatAsksToRunAgainAtOnceIsDelayedTwiceAsLongEachTime(t *testing.T) {
	rules := &task.Rules{Retry: thrice{}, KeepDone: -1}
	row := &task.Task{ID: task.ID{1}, Type: "x"}
	rules.Create(start, row)
	now, delay := start, 10*time.Millisecond
	for n := range 40 {
		if !(task.Change{Ref: row.Ref(), To: task.Processing, At: now, Owner: task.ID{9}}).Apply(row) {
			t.Fatal("it is not grabbed")
		}
		is := task.RunningOf(row)
		end := task.Conclude(now, &is, task.Verdict{Outcome: task.Snoozed}, rules, nil)
		if got := end.Change.NextEventAt.Sub(now); got != delay || end.Slowed != (n >= 3) {
			t.Fatalf("delay %d is %v, slowed: %v", n, got, end.Slowed)
		}
		if !end.Change.Apply(row) {
			t.Fatal("the end is not made")
		}
		now, delay = row.NextEventAt, min(2*delay, time.Minute)
	}
}

func TestATaskOfADeadNodeRunsAgainUnlessItsTypeForbidsThat(t *testing.T) {
	const died, lost = "its node stopped while it ran", "it was processing, and nothing of it was under way on its node"
	const once = " (it may have taken effect, and its type is at_most_once)"
	for name, c := range map[string]struct {
		rules           task.Rules
		crashes         uint32
		orphan, reclaim task.Change
	}{
		"runs again": {
			task.Rules{QueueTimeout: time.Minute, MaxCrashes: 2},
			0,
			task.Change{To: task.Submitted, NextEventAt: start.Add(time.Minute), Error: died},
			task.Change{To: task.Submitted, NextEventAt: start.Add(time.Minute), Error: lost, Count: task.Refund},
		},
		"is quarantined": {
			task.Rules{MaxCrashes: 2},
			1,
			task.Change{To: task.Error, Error: died + " (quarantined after 2 crashes in a row)"},
			task.Change{To: task.Submitted, Error: lost, Count: task.Refund},
		},
		"at most once": {
			task.Rules{QueueTimeout: time.Minute, AtMostOnce: true, Continues: true},
			0,
			task.Change{To: task.Error, Error: died + once, Leaves: true},
			task.Change{To: task.Error, Error: lost + once, Leaves: true},
		},
	} {
		row := &task.Task{ID: task.ID{1}, Version: 2, State: task.Processing, Owner: task.ID{9}, Crashes: c.crashes, OrderingKey: "o", Turn: task.Head}
		for got, want := range map[*task.Change]task.Change{new(c.rules.Orphaned(start, row)): c.orphan, new(c.rules.Reclaimed(start, row)): c.reclaim} {
			want.Ref, want.By, want.At, want.OrderingKey, want.Outcome = row.Ref(), row.Owner, start, "o", got.Outcome
			if diff := cmp.Diff(&want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", name, diff)
			}
		}
	}
}
