//go:build !race

package schedule

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
)

// nightly is the id of a schedule.
var nightly = task.ID{15: 7}

// life is a schedule that is decided about again and again, as by its handler.
type life struct {
	t       *testing.T
	created time.Time
	of      Named
	state   State
	last    *Run
	seen    map[task.ID]bool
}

func begin(t *testing.T, created string, d Definition) *life {
	d.Task.Type = "report"
	if _, err := d.Calendar("nightly"); err != nil {
		t.Fatal(err)
	}
	return &life{t: t, created: at(t, created), of: Named{"nightly", d}, seen: map[task.ID]bool{}}
}

// at decides at a time, and returns the times of the day for which tasks are added.
func (l *life) at(text string, orders ...Order) string {
	l.t.Helper()
	now := at(l.t, text)
	for i := range orders {
		orders[i].At = now
	}
	l.state.Orders = append(l.state.Orders, orders...)
	r, s, err := Decode(l.of.Encode(), l.state.Encode()) // as it is stored
	if err != nil {
		l.t.Fatal(err)
	}
	if l.last, err = Decide(nightly, r, s, l.created, now); err != nil {
		l.t.Fatal(err)
	}
	l.of, l.state = l.last.Schedule, l.last.State
	var all []string
	for _, f := range l.last.Fires {
		if l.seen[f.Task] {
			l.t.Errorf("task %v is added twice", f.Task)
		}
		l.seen[f.Task] = true
		all = append(all, f.Time.Format("15:04"))
	}
	return strings.Join(all, " ")
}

// ended says that no task runs any more.
func (l *life) ended() { l.state.Running = nil }

func (l *life) wants(got, want, next string) {
	l.t.Helper()
	if got != want {
		l.t.Errorf("tasks are added for %q, not for %q", got, want)
	}
	at := "never"
	if !l.last.Next.IsZero() {
		at = l.last.Next.Format(time.TimeOnly)
	}
	if at != next {
		l.t.Errorf("the schedule runs again at %s, not at %s", at, next)
	}
}

func TestAScheduleFiresAtItsTimes(t *testing.T) {
	l := begin(t, "2026-05-01 10:07:00", Definition{Cron: "*/15 * * * *"})
	l.wants(l.at("2026-05-01 10:07:00"), "", "10:15:00")
	l.wants(l.at("2026-05-01 10:15:00"), "10:15", "10:30:00")
	l.ended()
	l.wants(l.at("2026-05-01 10:20:00"), "", "10:30:00") // an attempt that is repeated decides nothing again
	l.wants(l.at("2026-05-01 10:30:01"), "10:30", "10:45:00")
	if l.state.Fires != 2 || l.state.Missed != 0 || l.state.Last.Time != at(t, "2026-05-01 10:30:00") {
		t.Errorf("the state is %+v", l.state)
	}
}

func TestAClockThatGoesBackFiresNothingTwice(t *testing.T) {
	l := begin(t, "2026-05-01 10:07:00", Definition{Cron: "*/15 * * * *", Overlap: Allow})
	l.wants(l.at("2026-05-01 10:15:00"), "10:15", "10:30:00")
	l.wants(l.at("2026-05-01 10:01:00"), "", "10:30:00")
	l.wants(l.at("2026-05-01 10:15:00"), "", "10:30:00")
	l.wants(l.at("2026-05-01 10:30:00"), "10:30", "10:45:00")
}

// A machine that begins with a wrong clock decides about times that are far away. The schedule is silent until then, or until
// a person defines it again.
func TestAScheduleIsDefinedAgainAfterAClockThatWasFarAhead(t *testing.T) {
	l := begin(t, "2026-05-01 10:07:00", Definition{Cron: "0 * * * *", Overlap: Allow})
	l.at("2099-05-01 10:07:00")
	l.wants(l.at("2026-05-01 11:30:00"), "", "11:00:00")
	l.wants(l.at("2026-05-01 11:30:00", Order{Delete: true}), "", "never")
	same := l.of.Definition
	l.wants(l.at("2026-05-01 11:30:00", Order{Define: &same}), "", "12:00:00")
	l.wants(l.at("2026-05-01 12:00:00"), "12:00", "13:00:00")
	l.wants(l.at("2026-05-01 11:10:00", Order{Define: &same}), "", "13:00:00") // the clock was a little ahead
}

func TestMissedTimesAreCaughtUpWithAsThePolicySays(t *testing.T) {
	for policy, want := range map[CatchUp]struct {
		fires  string
		missed uint64
	}{
		{Policy: Latest}:                        {"13:30", 10},
		{Policy: Latest, Window: time.Minute}:   {"", 11},
		{Policy: None}:                          {"", 11},
		{Policy: All, Max: 3}:                   {"13:00 13:15 13:30", 8},
		{Policy: All, Window: 40 * time.Minute}: {"13:00 13:15 13:30", 8},
	} {
		l := begin(t, "2026-05-01 10:50:00", Definition{Cron: "*/15 * * * *", CatchUp: policy, Overlap: Allow})
		l.wants(l.at("2026-05-01 13:37:00"), want.fires, "13:45:00")
		if l.state.Missed != want.missed {
			t.Errorf("%+v: %d were missed, not %d", policy, l.state.Missed, want.missed)
		}
		l.wants(l.at("2026-05-01 13:45:30"), "13:45", "14:00:00") // late by less than OnTime
	}
}

func TestOverlapsAreTreatedAsThePolicySays(t *testing.T) {
	d := func(o Overlap) *life {
		l := begin(t, "2026-05-01 10:50:00", Definition{Cron: "*/15 * * * *", CatchUp: CatchUp{Policy: All}, Overlap: o})
		l.wants(l.at("2026-05-01 11:00:00"), "11:00", "11:15:00")
		return l
	}
	l := d(Skip)
	l.wants(l.at("2026-05-01 11:15:00"), "", "11:30:00")
	l.ended()
	l.wants(l.at("2026-05-01 11:45:00"), "11:30 11:45", "12:00:00") // both: neither is an earlier one that runs
	l.wants(l.at("2026-05-01 12:00:00"), "", "12:15:00")
	if l.state.Overlapped != 2 {
		t.Errorf("%d times were left out, not 2", l.state.Overlapped)
	}
	l = d(Allow)
	l.wants(l.at("2026-05-01 11:30:00"), "11:15 11:30", "11:45:00")
	l = d(CancelOld)
	l.wants(l.at("2026-05-01 11:30:00"), "11:30", "11:45:00")
	if len(l.last.Cancels) != 1 || l.last.Cancels[0].Time != at(t, "2026-05-01 11:00:00") || l.state.Overlapped != 1 {
		t.Errorf("%v are cancelled, %d left out", l.last.Cancels, l.state.Overlapped)
	}
	l = d(Queue)
	l.wants(l.at("2026-05-01 11:15:01"), "", "11:15:11")
	l.wants(l.at("2026-05-01 11:30:00"), "", "11:30:10")
	l.ended()
	l.wants(l.at("2026-05-01 11:30:10"), "11:15", "11:30:11") // a task that was missed long ago need not take long
	l.wants(l.at("2026-05-01 11:31:50"), "", "11:31:55")      // it runs for 100 s: a twentieth of that
	l.ended()
	l.wants(l.at("2026-05-01 11:31:55"), "11:30", "11:45:00")
}

// The defaults of overlap do not undo catch_up.
func TestAllMissedTimesAreCaughtUpWithWhereNoTaskOverlaps(t *testing.T) {
	l := begin(t, "2026-05-01 10:50:00", Definition{Cron: "0 * * * *", CatchUp: CatchUp{Policy: All, Max: 3}})
	l.wants(l.at("2026-05-02 10:30:00"), "08:00 09:00 10:00", "11:00:00")
	if l.state.Overlapped != 0 || l.state.Missed != 21 {
		t.Errorf("%d times were left out, %d missed", l.state.Overlapped, l.state.Missed)
	}
	l.wants(l.at("2026-05-02 11:00:00"), "", "12:00:00") // they run
	l.ended()
	l.wants(l.at("2026-05-02 12:00:00"), "12:00", "13:00:00")
}

func TestAFullQueueLeavesTheNewestOut(t *testing.T) {
	l := begin(t, "2026-05-01 10:00:00", Definition{Every: time.Second, CatchUp: CatchUp{Policy: All, Max: MaxWaiting}, Overlap: Queue})
	l.at("2026-05-01 10:00:01")
	l.at("2026-05-01 10:16:00")
	l.at("2026-05-01 10:20:00")
	if n := len(l.state.Waiting); n != MaxWaiting || l.state.Overlapped != 959+240-MaxWaiting {
		t.Errorf("%d wait, %d are left out", n, l.state.Overlapped)
	}
}

func TestPeopleGiveOrders(t *testing.T) {
	l := begin(t, "2026-05-01 10:50:00", Definition{Cron: "0 * * * *", Overlap: Allow})
	l.wants(l.at("2026-05-01 10:50:00"), "", "11:00:00")
	l.wants(l.at("2026-05-01 11:00:00", Order{Pause: &Pause{Reason: "repair"}}), "11:00", "never") // due fires come first
	l.wants(l.at("2026-05-01 11:20:00", Order{Trigger: true}), "11:20", "never")
	l.wants(l.at("2026-05-01 14:30:00", Order{Resume: true}), "", "15:00:00") // fires within the pause are left out
	l.wants(l.at("2026-05-01 14:40:00", Order{Backfill: &Backfill{at(t, "2026-05-01 12:00:00"), at(t, "2026-05-01 14:00:00")}}), "12:00 13:00 14:00", "15:00:00")
	other := l.of.Definition
	other.Cron = "*/30 * * * *"
	l.wants(l.at("2026-05-01 15:20:00", Order{Define: &other}), "15:00", "15:30:00") // by the old definition, and then the new one
	l.wants(l.at("2026-05-01 15:30:00", Order{Delete: true}), "15:30", "never")
	l.wants(l.at("2026-05-01 19:30:00", Order{Define: &other}), "", "20:00:00")
}

func TestALongBackfillIsDoneInParts(t *testing.T) {
	l := begin(t, "2026-05-01 10:50:00", Definition{Cron: "0 0 * * *", Overlap: Allow})
	l.at("2026-05-01 10:50:00", Order{Backfill: &Backfill{at(t, "2020-01-01 00:00:00"), at(t, "2026-01-01 00:00:00")}}, Order{Trigger: true})
	parts := []int{len(l.last.Fires)}
	for len(l.state.Orders) > 0 {
		if !l.last.Next.Equal(l.last.now) {
			t.Fatalf("the rest is done at %v", l.last.Next)
		}
		l.at("2026-05-01 10:50:01")
		parts = append(parts, len(l.last.Fires))
	}
	if !slices.Equal(parts, []int{maxFires, maxFires, 194}) { // 2193 days and the trigger
		t.Errorf("the parts have %v tasks", parts)
	}
}

func TestSeveralBackfillsShareOneTransaction(t *testing.T) {
	l := begin(t, "2026-05-01 10:50:00", Definition{Cron: "0 0 * * *", Overlap: Allow})
	var orders []Order
	for range 4 {
		orders = append(orders, Order{Backfill: &Backfill{at(t, "2020-01-01 00:00:00"), at(t, "2022-01-01 00:00:00")}})
	}
	l.state.Orders = orders
	for i := range orders {
		orders[i].At = at(t, "2026-05-01 10:50:00").Add(time.Duration(i) * time.Microsecond) // no two have the same time
	}
	all := 0
	for first := true; first || len(l.state.Orders) > 0; first = false {
		l.at("2026-05-01 10:50:01")
		if n := len(l.last.Fires); n > maxFires {
			t.Errorf("%d tasks are added at once", n)
		}
		all += len(l.last.Fires)
	}
	if all != 4*732 {
		t.Errorf("%d tasks are added, not four times 732", all)
	}
}

func TestABackfillOfLargeTasksIsDoneInSmallParts(t *testing.T) {
	l := begin(t, "2026-05-01 10:50:00", Definition{Cron: "0 0 * * *", Overlap: Allow, Task: Template{Payload: strings.Repeat("x", MaxPayload)}})
	l.at("2026-05-01 10:50:00", Order{Backfill: &Backfill{at(t, "2025-01-01 00:00:00"), at(t, "2025-12-31 00:00:00")}})
	all := len(l.last.Fires)
	if all != maxBytes/MaxPayload {
		t.Errorf("%d tasks are added at once", all)
	}
	for len(l.state.Orders) > 0 && len(l.last.Fires) > 0 {
		l.at("2026-05-01 10:50:01")
		all += len(l.last.Fires)
	}
	if all != 365 {
		t.Errorf("%d tasks are added, not one for each day", all)
	}
}

// A backfill of all times there are would otherwise go on for years.
func TestDeletingAScheduleEndsItsBackfill(t *testing.T) {
	l := begin(t, "2026-05-01 10:50:00", Definition{Every: time.Second, Overlap: Allow})
	l.at("2026-05-01 10:50:00", Order{Backfill: &Backfill{at(t, "1980-01-01 00:00:00"), at(t, "9000-01-01 00:00:00")}})
	l.at("2026-05-01 10:50:00", Order{Trigger: true})
	l.at("2026-05-01 10:50:00", Order{Delete: true})
	if len(l.state.Orders) > 0 || !l.state.Deleted || !l.last.Next.IsZero() {
		t.Errorf("the schedule runs again at %v, with %d orders", l.last.Next, len(l.state.Orders))
	}
}

func TestAScheduleEnds(t *testing.T) {
	l := begin(t, "2026-05-01 10:50:00", Definition{Cron: "0 * * * *", End: at(t, "2026-05-01 12:00:00"), Overlap: Allow})
	l.wants(l.at("2026-05-01 11:00:00"), "11:00", "12:00:00")
	l.wants(l.at("2026-05-01 12:00:00"), "12:00", "never")
	l.wants(l.at("2026-05-01 13:00:00"), "", "never")
}

func TestJitterDelaysTasksDifferently(t *testing.T) {
	l := begin(t, "2026-05-01 10:00:00", Definition{Every: time.Minute, Jitter: 30 * time.Second, Overlap: Allow, CatchUp: CatchUp{Policy: All}})
	l.at("2026-05-01 11:00:00")
	different := map[time.Duration]bool{}
	for _, f := range l.last.Fires {
		delay := f.At.Sub(f.Time)
		if delay < 0 || delay > 30*time.Second {
			t.Errorf("the task of %v starts %v later", f.Time, delay)
		}
		different[delay] = true
	}
	if len(different) < 50 {
		t.Errorf("60 tasks have %d delays", len(different))
	}
}

func TestAPayloadKnowsItsFire(t *testing.T) {
	d := Definition{Cron: "30 2 * * *", TimeZone: "Europe/Berlin", Task: Template{Type: "report", Expires: time.Hour, Headers: map[string]string{"team": "billing"}}}
	d.Task.Payload = `{"day": "{{date}}", "at": "{{ time }}", "utc": "{{time_utc}}", "unix": {{unix}}, "of": "{{schedule}}", "id": "{{id}}", "clock": "{{clock}}", "x": {"y": {"z": 1}}}`
	l := begin(t, "2026-05-01 10:00:00", d)
	l.at("2026-05-02 00:30:00")
	r := l.last.Request(l.last.Fires[0])
	var got map[string]any
	if err := json.Unmarshal(r.Payload, &got); err != nil {
		t.Fatalf("%v: %s", err, r.Payload)
	}
	want := fmt.Sprintf("map[at:2026-05-02T02:30:00+02:00 clock:02:30:00 day:2026-05-02 id:%v of:nightly unix:1.7776818e+09 utc:2026-05-02T00:30:00Z x:map[y:map[z:1]]]", r.ID)
	if fmt.Sprint(got) != want {
		t.Errorf("the payload is %v\nnot %v", got, want)
	}
	if r.Headers[HeaderName] != "nightly" || r.Headers[HeaderTime] != "2026-05-02T02:30:00+02:00" || r.Headers["team"] != "billing" || !r.ExpiresAt.Equal(at(t, "2026-05-02 01:30:00")) {
		t.Errorf("the request is %+v", r)
	}
}
