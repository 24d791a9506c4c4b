package incidents

import (
	"fmt"
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
)

// secondFailed is a time at which a task that was ready at the begin waits for its third attempt, whatever its delays are.
const secondFailed = 30 * time.Second

// The delays of the scheduler are between a half and the whole of 20 s, 40 s, 80 s, and 120 s from then on.
func TestAFailingTaskIsRetriedWithTheDelaysOfTheScheduler(t *testing.T) {
	run(t, func(p *pager) {
		p.reach("db", false)
		p.add(p.requestTo("db", "a", "failing", 0))
		p.Advance(10 * time.Minute)
		at := p.begins("failing")
		if len(at) < 6 {
			p.t.Fatalf("there were %d attempts in ten minutes", len(at))
		}
		for i, most := range []time.Duration{20 * time.Second, 40 * time.Second, 80 * time.Second, 120 * time.Second, 120 * time.Second} {
			if delay := at[i+1] - at[i] - time.Second; delay < most/2 || delay > most { // an attempt takes a second
				p.t.Errorf("attempt %d began %v after the end of the one before, want %v to %v", i+2, delay, most/2, most)
			}
		}
	})
}

func TestAFailingTaskHoldsUpItsIncidentAndNoOther(t *testing.T) {
	run(t, func(p *pager) {
		p.reach("db", false)
		p.add(p.requestTo("db", "stuck", "failing", 0), p.request("stuck", "behind", time.Second))
		for i := range 100 {
			p.add(p.request(fmt.Sprint("healthy ", i%10), fmt.Sprint(i), time.Duration(i+1)*10*time.Second))
		}
		p.Advance(time.Hour)
		for i := range 100 {
			p.wantsAt(fmt.Sprint(i), time.Duration(i+1)*10*time.Second)
		}
		p.wants("stuck", "")
		p.reach("db", true)
		p.Advance(3 * time.Minute)
		p.wants("stuck", "failing behind")
	})
}

func TestATaskThatIsOutOfAttemptsIsAnErrorAndTheNextOfItsIncidentRuns(t *testing.T) {
	run(t, func(p *pager) {
		p.reach("db", false)
		failing := p.add(p.requestTo("db", "a", "failing", 0), p.request("a", "next", time.Second))[0]
		p.Advance(time.Hour)
		p.wants("a", "")
		p.Advance(3 * time.Hour)
		p.wantsState(failing, task.Error, 101)
		p.wants("a", "next")

		p.reach("db", true) // a person runs it after all
		if _, err := p.Resume(p.t.Context(), task.Ref{ID: failing.ID}); err != nil {
			p.t.Fatal(err)
		}
		p.Advance(time.Minute)
		p.wants("a", "next failing")
	})
}

// The scheduler restarts for a task that is dropped.
func TestTheTaskBehindAFailingOneRunsWhenThatIsDropped(t *testing.T) {
	run(t, func(p *pager) {
		p.reach("db", false)
		failing := p.add(p.requestTo("db", "a", "01", 0), p.request("a", "02", time.Second))[0]
		p.Advance(secondFailed)
		p.wants("a", "")
		if _, err := p.Cancel(p.t.Context(), task.Ref{ID: failing.ID}, "dropped"); err != nil {
			p.t.Fatal(err)
		}
		dropped := time.Since(p.begin)
		p.Advance(time.Minute)
		p.wantsAt("02", dropped)
		if n, again := len(p.begins("01")), p.add(p.requestTo("db", "a", "01", 0))[0]; again.ID != failing.ID || len(p.begins("01")) != n {
			p.t.Errorf("a dropped task runs again when its request is repeated: %v", again)
		}
	})
}

func TestAttemptsAndDelaysOutliveARestart(t *testing.T) {
	run(t, func(p *pager) {
		p.reach("db", false)
		failing := p.add(p.requestTo("db", "a", "failing", 0), p.request("a", "behind", time.Second))[0]
		p.Advance(secondFailed)
		before, err := p.Get(p.t.Context(), failing.ID)
		if err != nil {
			p.t.Fatal(err)
		}
		p.Restart(time.Second)
		p.wantsState(failing, task.Waiting, 2)
		p.Advance(time.Minute)
		if at := p.begins("failing"); len(at) < 3 || !p.begin.Add(at[2]).Equal(before.NextEventAt) {
			p.t.Errorf("the attempts began at %v, want the third at %v", at, before.NextEventAt.Sub(p.begin))
		}
		p.wants("a", "")
	})
}

// A message that the scheduler cannot read stops its consumer, again and again.
func TestAPayloadThatCannotBeReadConcernsItsTaskOnly(t *testing.T) {
	run(t, func(p *pager) {
		bad := p.request("a", "bad", 0)
		bad.Payload = []byte("\x00{no JSON")
		got := p.add(bad, p.request("a", "next", time.Second), p.request("b", "other", time.Second))[0]
		p.Advance(time.Minute)
		p.wantsState(got, task.Error, 1)
		p.wantsAt("next", time.Second)
		p.wantsAt("other", time.Second)
	})
}

func TestAnErrorOfATypeThatHaltsStopsItsIncidentUntilAPersonDecides(t *testing.T) {
	for name, c := range map[string]struct {
		decide func(p *pager) error
		pages  string
	}{
		"to resume it": {func(p *pager) error { _, err := p.ResumeKey(p.t.Context(), "a"); return err }, "closing next"},
		"to skip it":   {func(p *pager) error { _, err := p.SkipKey(p.t.Context(), "a", "known"); return err }, "next"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(p *pager) {
				p.reach("db", false)
				closing := p.requestTo("db", "a", "closing", 0)
				closing.Type = "closing"
				got := p.add(closing, p.request("a", "next", time.Second), p.request("b", "other", time.Second))[0]
				p.Advance(time.Hour)
				p.wantsState(got, task.Error, 2)
				p.wants("", "other")
				p.reach("db", true)
				if err := c.decide(p); err != nil {
					p.t.Fatal(err)
				}
				p.Advance(time.Minute)
				p.wants("a", c.pages)
			})
		})
	}
}
