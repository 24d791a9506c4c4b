package task_test

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/taskengine/taskengine/task"
)

var start = task.Stamp(time.Date(2024, 2, 3, 4, 5, 6, 789_000, time.UTC))

// instants draws times as callers pass them: in any zone, with nanoseconds, or zero.
var instants = rapid.Custom(func(t *rapid.T) time.Time {
	if rapid.Bool().Draw(t, "zero") {
		return time.Time{}
	}
	ns := rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "ns")
	return start.Add(time.Duration(ns)).In(time.FixedZone("far", 3600*rapid.IntRange(-12, 14).Draw(t, "zone")))
})

// changes draws changes of t, most of which apply.
func changes(t *task.Task) *rapid.Generator[task.Change] {
	return rapid.Custom(func(r *rapid.T) task.Change {
		c := task.Change{
			Ref:         t.Ref(),
			To:          rapid.SampledFrom(task.States()).Draw(r, "to"),
			At:          instants.Draw(r, "at"),
			NextEventAt: instants.Draw(r, "next event"),
			ReadyAt:     instants.Draw(r, "ready"),
			Owner:       task.ID{rapid.Byte().Draw(r, "owner")},
			Node:        rapid.SampledFrom([]string{"", "a", "b"}).Draw(r, "node"),
			Count:       rapid.SampledFrom([]task.Count{task.Keep, task.Refund, task.Reset}).Draw(r, "count"),
			Outcome:     task.Outcome(rapid.Uint8Range(0, 7).Draw(r, "outcome")),
			Result:      rapid.SliceOf(rapid.Byte()).Draw(r, "result"),
			Error:       rapid.SampledFrom([]string{"", "oops", strings.Repeat("é€", 2000)}).Draw(r, "error"),
		}
		if group := rapid.StringN(0, 3, 9).Draw(r, "group"); group != "" {
			c.Group = &group
		}
		if rapid.Bool().Draw(r, "new payload") {
			c.Payload = new(rapid.SliceOf(rapid.Byte()).Draw(r, "payload"))
		}
		if rapid.IntRange(0, 3).Draw(r, "replace") == 0 {
			c.Replace = &task.Replace{
				Priority: rapid.Uint8Range(task.HighestPriority, task.LowestPriority).Draw(r, "priority"), ExpiresAt: instants.Draw(r, "expires"),
				Headers: rapid.MapOfN(rapid.String(), rapid.String(), 0, 2).Draw(r, "headers"),
			}
		}
		if rapid.IntRange(0, 5).Draw(r, "remember") == 0 {
			c.Remember = time.Duration(rapid.Int64Range(1, int64(1000*time.Hour)).Draw(r, "remembered for"))
		}
		if rapid.Bool().Draw(r, "new checkpoint") {
			c.Checkpoint = new(rapid.SliceOf(rapid.Byte()).Draw(r, "checkpoint"))
		}
		if rapid.IntRange(0, 3).Draw(r, "mark") == 0 {
			c.Mark = &task.Mark{Was: "state was error", By: "anna", Job: rapid.SampledFrom([]string{"", "job"}).Draw(r, "job")}
		}
		switch rapid.IntRange(0, 9).Draw(r, "spoil") {
		case 0:
			c.Version += uint64(rapid.IntRange(-1, 2).Draw(r, "off"))
		case 1:
			c.ID[3]++
		}
		return c
	})
}

func TestAChangeKeepsTheRulesOfARow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		row := full()
		row.State = rapid.SampledFrom([]task.State{task.Waiting, task.Submitted}).Draw(t, "state")
		row.Owner, row.Attempt, row.Crashes, row.History = task.ID{}, 0, 0, nil
		row.ExpiresAt = task.Stamp(instants.Draw(t, "expires"))
		for range 60 {
			if row.State == task.Done {
				break
			}
			before := row.Clone()
			c := changes(row).Draw(t, "change")
			applied := c.Apply(row)
			late := before.State == task.Submitted && c.To == task.Processing && !before.NextEventAt.IsZero() && !task.Stamp(c.At).Before(before.NextEventAt)
			behind := before.Turn == task.Behind && c.To == task.Processing
			waits := func(s task.State) bool { return s == task.Waiting || s == task.Submitted }
			permitted := before.State.CanBecome(c.To)
			if c.Replace != nil {
				permitted = waits(before.State) && waits(c.To) && before.StartedAt.IsZero() && before.Children == nil
			}
			if c.Remember > 0 {
				permitted = before.State == task.Processing && c.To == task.Done && c.Replace == nil
			}
			if applied != (before.Ref() == c.Ref && permitted && !late && !behind) {
				t.Fatalf("Apply returned %v for %v at %v to %v", applied, before.State, c.Ref, c.To)
			}
			if !applied {
				if diff := cmp.Diff(before, row); diff != "" {
					t.Fatalf("a change that does not apply did: %s", diff)
				}
				continue
			}
			checkApplied(t, before, c, row)
		}
	})
}

func TestATaskThatIsDoneBecomesATombstoneWhileItsKeyIsToBeRemembered(t *testing.T) {
	row := full()
	row.State, row.Turn, row.Owner = task.Done, task.Unordered, task.ID{}
	ended := row.UpdatedAt
	forget := func(row *task.Task, after time.Duration) bool {
		return task.Change{Ref: row.Ref(), To: task.Done, At: ended.Add(after), Remember: time.Hour}.Apply(row)
	}
	for name, edit := range map[string]func(*task.Task){
		"has no key": func(t *task.Task) { t.Key = "" }, "is cancelled": func(t *task.Task) { t.State = task.Cancelled }, "failed": func(t *task.Task) { t.State = task.Failed },
	} {
		other := row.Clone()
		if edit(other); forget(other, time.Minute) {
			t.Errorf("a task that %s became a tombstone", name)
		}
	}
	if forget(row, time.Hour) {
		t.Error("it became a tombstone after the time for which its key is remembered")
	}
	want := &task.Task{
		ID: row.ID, Version: row.Version + 1, State: task.Done, Type: row.Type, Shard: row.Shard, Priority: row.Priority, Group: row.Group,
		Key: row.Key, OrderingKey: row.OrderingKey, Seq: row.Seq, Attempt: row.Attempt, Crashes: row.Crashes,
		CreatedAt: row.CreatedAt, ReadyAt: row.ReadyAt, ExpiresAt: row.ExpiresAt, StartedAt: row.StartedAt, Node: row.Node, UpdatedAt: ended, NextEventAt: ended.Add(time.Hour),
		Tombstone: true, Parent: row.Parent,
	}
	if !forget(row, time.Hour-time.Microsecond) {
		t.Error("it did not become a tombstone")
	}
	if diff := cmp.Diff(want, row); diff != "" {
		t.Errorf("(-want +got) %s", diff)
	}
}

func TestATaskThatHasEndedGivesUpItsKeyAndNothingElse(t *testing.T) {
	for _, s := range task.States() {
		row := full()
		row.State = s
		if s != task.Processing {
			row.Owner = task.ID{}
		}
		c := task.Change{Ref: row.Ref(), To: s, At: start.Add(time.Hour), NextEventAt: start, Result: []byte("r"), Error: "e", FreesKey: true}
		for name, spoil := range map[string]func(*task.Task, *task.Change){
			"has no key":               func(t *task.Task, _ *task.Change) { t.Key = "" },
			"is another version":       func(_ *task.Task, c *task.Change) { c.Version++ },
			"would be in error":        func(_ *task.Task, c *task.Change) { c.To = task.Error },
			"would get a payload":      func(_ *task.Task, c *task.Change) { c.Payload = new([]byte("p")) },
			"would get a checkpoint":   func(_ *task.Task, c *task.Change) { c.Checkpoint = new([]byte("c")) },
			"would be replaced":        func(_ *task.Task, c *task.Change) { c.Replace = new(task.Replace) },
			"would become a tombstone": func(_ *task.Task, c *task.Change) { c.Remember = time.Hour },
		} {
			other, change := row.Clone(), c
			if spoil(other, &change); change.Apply(other) {
				t.Errorf("%v: a task that %s gave up its key", s, name)
			}
		}
		want := row.Clone()
		if s == task.Done || s == task.Failed || s == task.Cancelled {
			want.Key = ""
			want.Version++
		}
		if applied := c.Apply(row); applied != (want.Key == "") {
			t.Errorf("%v: it gave up its key: %t", s, applied)
		}
		if diff := cmp.Diff(want, row); diff != "" {
			t.Errorf("%v: (-want +got) %s", s, diff)
		}
	}
}

func TestAChangeAppliesToTheAttemptOfItsNodeAlone(t *testing.T) {
	for _, s := range task.States() {
		for _, c := range []struct {
			owner, by task.ID
			want      bool
		}{
			{task.ID{1}, task.ID{}, s.CanBecome(task.Waiting)},
			{task.ID{1}, task.ID{1}, s == task.Processing},
			{task.ID{1}, task.ID{2}, false},
			{task.ID{}, task.ID{2}, false},
		} {
			row := &task.Task{ID: task.ID{1}, Version: 3, State: s, Owner: c.owner}
			if got := (task.Change{Ref: row.Ref(), By: c.by, To: task.Waiting, At: start}).Apply(row); got != c.want {
				t.Errorf("a row that is %v of %v, and a change of %v: %t", s, c.owner, c.by, got)
			}
		}
	}
}

func TestAChangeThatIsDueAppliesToARowThatIsDue(t *testing.T) {
	for _, s := range task.States() {
		for _, to := range task.States() {
			for next, isDue := range map[time.Time]bool{{}: false, start.Add(-time.Second): true, start: true, start.Add(time.Second): false} {
				want := false
				switch {
				case s == task.Submitted && to == task.Processing:
					want = next.IsZero() || !isDue // otherwise it has waited too long
				case s == task.Submitted || s == task.Waiting:
					want = isDue && s.CanBecome(to)
				}
				row := &task.Task{ID: task.ID{1}, Version: 3, State: s, NextEventAt: next}
				if got := (task.Change{Ref: row.Ref(), Due: true, To: to, At: start}).Apply(row); got != want {
					t.Errorf("%v to %v, with its next event at %v: %t", s, to, next, got)
				}
			}
		}
	}
}

func TestATaskThatHasWaitedTooLongIsNotGrabbed(t *testing.T) {
	late := time.Date(2026, 1, 1, 0, 0, 10, 0, time.UTC)
	for _, c := range []struct {
		state         task.State
		until, expire time.Time
		at            time.Time
		want          bool
	}{
		{task.Submitted, time.Time{}, time.Time{}, late, true},
		{task.Submitted, late, time.Time{}, late.Add(-time.Microsecond), true},
		{task.Submitted, late, time.Time{}, late, false},
		{task.Submitted, late, time.Time{}, late.Add(time.Hour), false},
		{task.Submitted, time.Time{}, late, late, false},
		{task.Waiting, late, time.Time{}, late, true},
	} {
		row := &task.Task{ID: task.ID{1}, Type: "mail", ExpiresAt: c.expire}
		row.Create(c.state, late.Add(-time.Minute), c.until)
		if got := (task.Change{Ref: row.Ref(), To: task.Processing, At: c.at}).Apply(row); got != c.want {
			t.Errorf("%v until %v, grabbed at %v: %t", c.state, row.NextEventAt, c.at, got)
		}
	}
}

// checkApplied checks the result of Apply against an independent description.
func checkApplied(t *rapid.T, before *task.Task, c task.Change, now *task.Task) {
	want := before.Clone()
	want.Version++
	want.State = c.To
	want.NextEventAt = c.NextEventAt.UTC().Truncate(time.Microsecond)
	if c.Count == task.Reset {
		want.ExpiresAt = time.Time{}
	}
	if r := c.Replace; r != nil {
		want.Priority, want.ExpiresAt, want.Headers = r.Priority, r.ExpiresAt.UTC().Truncate(time.Microsecond), r.Headers
	}
	if e := want.ExpiresAt; (c.To == task.Waiting || c.To == task.Submitted) && !e.IsZero() {
		if want.NextEventAt.IsZero() || want.NextEventAt.After(e) {
			want.NextEventAt = e
		}
	}
	want.UpdatedAt = c.At.UTC().Truncate(time.Microsecond)
	if c.Group != nil {
		want.Group = *c.Group
	}
	if !c.ReadyAt.IsZero() {
		want.ReadyAt = c.ReadyAt.UTC().Truncate(time.Microsecond)
	}
	if want.Turn = turnAfter(before, c); want.Turn != task.Head || c.Replace != nil {
		want.Boost = 0
	}
	want.Attempt, want.Crashes = counts(before, c)
	want.Owner = task.ID{}
	if c.To == task.Processing {
		want.Owner, want.Node, want.StartedAt = c.Owner, c.Node, want.UpdatedAt
		want.Notes = task.NewNotes(task.Progress{}, want.Checkpoint())
	}
	runsAgain := c.To == task.Waiting && c.Outcome == task.Completed
	if before.State == task.Processing && (c.To == task.Done || runsAgain) {
		want.Result, want.Notes = c.Result, task.NewNotes(want.Progress(), nil)
	}
	want.Signals = signalsAfter(before, c, runsAgain)
	if c.Payload != nil {
		want.Payload = *c.Payload
	}
	if c.Checkpoint != nil {
		want.Notes = task.NewNotes(want.Progress(), *c.Checkpoint)
	}
	if c.To == task.Done {
		want.LastError = ""
	}
	kept := now.LastError
	if c.Error != "" && c.Remember == 0 {
		if !strings.HasPrefix(c.Error, kept) || len(kept) > task.MaxErrorText || !utf8.ValidString(kept) || kept == "" {
			t.Fatalf("the error of %d bytes became %d bytes", len(c.Error), len(kept))
		}
		want.LastError = kept
	}
	if before.State == task.Processing && c.To != task.Done && c.Outcome != task.HandedBack {
		reason := ""
		if c.Error != "" {
			reason = kept
		}
		want.History = append(want.History, task.Attempt{
			Number: before.Attempt, StartedAt: before.StartedAt, EndedAt: want.UpdatedAt,
			Node: before.Node, Outcome: c.Outcome, Error: reason,
		})
	}
	if c.Mark != nil && c.Remember == 0 {
		want.History = withMark(t, want.History, before, c, now)
	}
	want.History = want.History[max(0, len(want.History)-task.MaxHistory):]
	if c.Remember > 0 {
		want.Payload, want.Result, want.Headers, want.LastError, want.History, want.Notes, want.Inherits, want.Children, want.Search = nil, nil, nil, "", nil, nil, false, nil, nil
		want.Tombstone = true
		want.NextEventAt = want.UpdatedAt.Add(c.Remember).Truncate(time.Microsecond)
	}
	if diff := cmp.Diff(want, now); diff != "" {
		t.Fatalf("%v to %v made (-want +got): %s", before.State, c.To, diff)
	}
	for _, at := range []time.Time{now.NextEventAt, now.UpdatedAt, now.ReadyAt, now.StartedAt} {
		if at != task.Stamp(at) {
			t.Fatalf("%v is not stamped", at)
		}
	}
}

// signalsAfter returns what a task has of signals after a change that neither delivers one nor begins a wait.
func signalsAfter(before *task.Task, c task.Change, runsAgain bool) *task.Signals {
	s := before.Clone().Signals
	switch {
	case s == nil || c.To == task.Done || c.To == task.Failed || c.To == task.Cancelled:
		return nil
	case before.State == task.Processing && runsAgain && s.Wake.By != task.NotWoken:
		if s.Wake.By == task.BySignal {
			s.Seen = append(s.Seen, s.Wake.Signal.ID)
		}
		s.Wake = task.Wake{}
	case before.State == task.Waiting && s.Awaits != nil && c.To != task.Waiting:
		s.Awaits, s.Patience, s.Wake = nil, 0, task.Wake{By: task.ByUser}
		if at := before.NextEventAt; !at.IsZero() && !c.At.Truncate(time.Microsecond).Before(at) {
			s.Wake.By = task.ByTimeout
		}
	}
	return s
}

func counts(before *task.Task, c task.Change) (attempt, crashes uint32) {
	attempt, crashes = before.Attempt, before.Crashes
	if before.State == task.Processing {
		switch c.Outcome {
		case task.Crashed:
			crashes++
		case task.Completed, task.Errored, task.Snoozed: // the handler answered
			crashes = 0
		}
	}
	switch c.Count {
	case task.Refund:
		if attempt > 0 {
			attempt--
		}
	case task.Reset:
		attempt, crashes = 0, 0
	}
	if c.To == task.Processing {
		attempt++
	}
	return attempt, crashes
}

// step applies one change that must apply.
func step(t *testing.T, row *task.Task, c task.Change) {
	t.Helper()
	c.Ref = row.Ref()
	if !c.Apply(row) {
		t.Fatalf("a change from %v to %v did not apply", row.State, c.To)
	}
}

func submitted() *task.Task { return &task.Task{ID: task.ID{1}, Version: 1, State: task.Submitted} }

func TestAttemptsAreCountedByGrabsAndRefunded(t *testing.T) {
	row := submitted()
	for _, s := range []struct {
		what             string
		change           task.Change
		attempt, crashes uint32
	}{
		{"a grab counts one", task.Change{To: task.Processing}, 1, 0},
		{"an error keeps the count", task.Change{To: task.Waiting, Outcome: task.Errored}, 1, 0},
		{"the next grab counts another", task.Change{To: task.Processing}, 2, 0},
		{"a snooze is refunded", task.Change{To: task.Waiting, Outcome: task.Snoozed, Count: task.Refund}, 1, 0},
		{"the grab after it counts again", task.Change{To: task.Processing}, 2, 0},
		{"a crash is counted", task.Change{To: task.Submitted, Outcome: task.Crashed}, 2, 1},
		{"a grab keeps the crashes", task.Change{To: task.Processing}, 3, 1},
		{"a crash that is refunded is still a crash", task.Change{To: task.Submitted, Outcome: task.Crashed, Count: task.Refund}, 2, 2},
		{"a grab keeps them still", task.Change{To: task.Processing}, 3, 2},
		{"an attempt that ran too long says nothing about them", task.Change{To: task.Submitted, Outcome: task.TimedOut}, 3, 2},
		{"the next grab", task.Change{To: task.Processing}, 4, 2},
		{"an answer ends the row of crashes", task.Change{To: task.Submitted, Outcome: task.Errored}, 4, 0},
		{"one more grab", task.Change{To: task.Processing}, 5, 0},
		{"and one more crash", task.Change{To: task.Submitted, Outcome: task.Crashed}, 5, 1},
		{"a reset clears both", task.Change{To: task.Error, Count: task.Reset}, 0, 0},
		{"a refund of nothing is nothing", task.Change{To: task.Submitted, Count: task.Refund}, 0, 0},
		{"a grab that resets is the first", task.Change{To: task.Processing, Count: task.Reset}, 1, 0},
	} {
		step(t, row, s.change)
		if row.Attempt != s.attempt || row.Crashes != s.crashes {
			t.Errorf("%s: %d attempts and %d crashes, want %d and %d", s.what, row.Attempt, row.Crashes, s.attempt, s.crashes)
		}
	}
}

func TestTheNumbersOfAttemptsAndCrashesStopWhereEveryStoreCanKeepThem(t *testing.T) {
	for _, from := range []uint32{task.MaxCount - 1, task.MaxCount, math.MaxUint32} {
		row := submitted()
		row.Attempt, row.Crashes = from, from
		for range 3 {
			step(t, row, task.Change{To: task.Processing})
			step(t, row, task.Change{To: task.Submitted, Outcome: task.Crashed})
			if row.Attempt != task.MaxCount || row.Crashes != task.MaxCount || row.History[len(row.History)-1].Number != task.MaxCount {
				t.Fatalf("from %d it went to attempt %d with %d crashes", from, row.Attempt, row.Crashes)
			}
		}
	}
}

func TestHistoryRemembersTheNewestAttemptsAndSharesNothing(t *testing.T) {
	row := submitted()
	var clones []*task.Task
	for range task.MaxHistory + 5 {
		step(t, row, task.Change{To: task.Processing})
		step(t, row, task.Change{To: task.Submitted, Outcome: task.Errored, Error: "e"})
		clone := *row // as a store keeps it: the slice is shared
		clones = append(clones, &clone)
	}
	for i, c := range clones {
		newest := c.History[len(c.History)-1].Number
		if len(c.History) != min(i+1, task.MaxHistory) || int(newest) != i+1 {
			t.Fatalf("after %d attempts there are %d, up to %d", i+1, len(c.History), newest)
		}
		if !slices.IsSortedFunc(c.History, func(a, b task.Attempt) int { return int(a.Number) - int(b.Number) }) {
			t.Fatalf("the history is out of order: %v", c.History)
		}
	}
}

func TestTwoFuturesOfOneRowDoNotWriteIntoEachOthersHistory(t *testing.T) {
	row := submitted()
	for range 3 {
		step(t, row, task.Change{To: task.Processing})
		step(t, row, task.Change{To: task.Submitted, Outcome: task.Errored})
	}
	step(t, row, task.Change{To: task.Processing})
	a, b := *row, *row
	step(t, &a, task.Change{To: task.Error, Outcome: task.Errored, Error: "a"})
	step(t, &b, task.Change{To: task.Error, Outcome: task.TimedOut, Error: "b"})
	if got := a.History[3]; got.Error != "a" || got.Outcome != task.Errored {
		t.Errorf("one future's history holds %+v", got)
	}
}

func TestAnOverlongErrorIsCutBetweenCharacters(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"exactly fits":     {strings.Repeat("a", task.MaxErrorText), strings.Repeat("a", task.MaxErrorText)},
		"one byte too far": {strings.Repeat("a", task.MaxErrorText+1), strings.Repeat("a", task.MaxErrorText)},
		"two-byte runes":   {"a" + strings.Repeat("é", task.MaxErrorText), "a" + strings.Repeat("é", task.MaxErrorText/2-1)},
		"four-byte runes":  {"a" + strings.Repeat("𝄞", task.MaxErrorText), "a" + strings.Repeat("𝄞", task.MaxErrorText/4-1)},
	} {
		t.Run(name, func(t *testing.T) {
			row := submitted()
			step(t, row, task.Change{To: task.Error, Error: c.text})
			if row.LastError != c.want {
				t.Errorf("%d bytes are left, want %d", len(row.LastError), len(c.want))
			}
		})
	}
}

func TestAnOverlongErrorThatIsNoTextIsNotLost(t *testing.T) {
	row := submitted()
	step(t, row, task.Change{To: task.Error, Error: strings.Repeat("\x80", 2*task.MaxErrorText)})
	if n := len(row.LastError); n == 0 || n > task.MaxErrorText {
		t.Errorf("%d bytes are left of an error of %d", n, 2*task.MaxErrorText)
	}
}

func TestACutErrorDoesNotKeepTheWholeOneInMemory(t *testing.T) {
	long := strings.Repeat("a", 10*task.MaxErrorText)
	row := submitted()
	step(t, row, task.Change{To: task.Error, Error: long})
	if unsafe.StringData(row.LastError) == unsafe.StringData(long) {
		t.Error("the row refers to the text it was cut from")
	}
}

func TestDoneHasItsResultAndNoError(t *testing.T) {
	row := submitted()
	row.LastError = "an earlier attempt's"
	step(t, row, task.Change{To: task.Processing, Result: []byte("not yet")})
	if row.Result != nil || row.LastError == "" {
		t.Errorf("the grab made %q and %q of result and error", row.Result, row.LastError)
	}
	step(t, row, task.Change{To: task.Done, Result: []byte("r")})
	if string(row.Result) != "r" || row.LastError != "" || len(row.History) != 0 {
		t.Errorf("a finished task has result %q, error %q and history %v", row.Result, row.LastError, row.History)
	}
}

func TestARowThatWaitsIsLookedAtWhenItExpires(t *testing.T) {
	early, late, never := start.Add(time.Hour), start.Add(2*time.Hour), time.Time{}
	for _, c := range []struct {
		name                 string
		to                   task.State
		expires, says, wants time.Time
	}{
		{"it never expires and has no event", task.Submitted, never, never, never},
		{"it never expires", task.Waiting, never, early, early},
		{"it has no event", task.Submitted, early, never, early},
		{"it expires first", task.Waiting, early, late, early},
		{"its event comes first", task.Waiting, late, early, early},
		{"it runs", task.Processing, early, late, late},
		{"it is over", task.Cancelled, early, never, never},
	} {
		t.Run(c.name, func(t *testing.T) {
			created := &task.Task{ExpiresAt: c.expires}
			created.Create(c.to, start, c.says)
			if created.NextEventAt != c.wants {
				t.Errorf("when created the next event is at %v, want %v", created.NextEventAt, c.wants)
			}
			row := &task.Task{ID: task.ID{1}, Version: 1, State: task.Waiting, ExpiresAt: c.expires}
			if c.to == task.Submitted || c.to == task.Waiting {
				row.State = task.Error
			}
			step(t, row, task.Change{To: c.to, NextEventAt: c.says})
			if row.NextEventAt != c.wants {
				t.Errorf("after a change the next event is at %v, want %v", row.NextEventAt, c.wants)
			}
		})
	}
}

func TestACreatedRowHasNoPast(t *testing.T) {
	far := time.FixedZone("far", 3600)
	at, ready, expires := start.Add(1).In(far), start.Add(time.Hour+1).In(far), start.Add(2*time.Hour+1).In(far)
	row := full()
	row.ReadyAt, row.ExpiresAt = ready, expires
	row.Create(task.Waiting, at, ready)
	want := full()
	want.Version, want.State, want.Seq, want.Attempt, want.Crashes = 1, task.Waiting, 0, 0, 0
	want.Turn, want.Boost = task.Behind, 0
	want.CreatedAt, want.UpdatedAt = task.Stamp(at), task.Stamp(at)
	want.ReadyAt, want.NextEventAt, want.ExpiresAt = task.Stamp(ready), task.Stamp(ready), task.Stamp(expires)
	want.StartedAt, want.Owner, want.Node, want.Result, want.LastError, want.History = time.Time{}, task.ID{}, "", nil, "", nil
	want.Notes, want.Signals, want.Children, want.Tombstone = nil, nil, nil, false
	if diff := cmp.Diff(want, row); diff != "" {
		t.Errorf("(-want +got) %s", diff)
	}
	row.ReadyAt = time.Time{}
	if row.Create(task.Submitted, at, time.Time{}); row.ReadyAt != task.Stamp(at) {
		t.Errorf("a row that is ready at once is ready at %v", row.ReadyAt)
	}
}

func TestEveryFieldOfAChangeIsKnownToTheseTests(t *testing.T) {
	const known = 32
	if n := reflect.TypeFor[task.Change]().NumField(); n != known {
		t.Errorf("task.Change has %d fields, the tests know %d", n, known)
	}
}

func BenchmarkApply(b *testing.B) {
	grab, back := task.Change{To: task.Processing, At: start}, task.Change{To: task.Done, At: start}
	b.ReportAllocs()
	for b.Loop() {
		row := task.Task{Version: 1, State: task.Submitted}
		grab.Ref = row.Ref()
		grab.Apply(&row)
		back.Ref = row.Ref()
		back.Apply(&row)
	}
}

func TestAnErrorIsKeptAsTextThatEveryStoreTakes(t *testing.T) {
	for name, c := range map[string]struct{ said, kept string }{
		"plain":               {"no", "no"},
		"a NUL":               {"a\x00b", "a\uFFFDb"},
		"not UTF-8":           {"a\xffb", "a\uFFFDb"},
		"long and not UTF-8":  {strings.Repeat("\xff", 3*task.MaxErrorText), "\uFFFD"},
		"long, cut in a rune": {strings.Repeat("a", task.MaxErrorText-1) + "é", strings.Repeat("a", task.MaxErrorText-1)},
	} {
		row := &task.Task{}
		row.Create(task.Submitted, time.Now(), time.Time{})
		task.Change{Ref: row.Ref(), To: task.Error, Error: c.said}.Apply(row)
		if got := row.LastError; got != c.kept {
			t.Errorf("%s: kept %.20q… of %d bytes, want %.20q… of %d", name, got, len(got), c.kept, len(c.kept))
		}
	}
}
