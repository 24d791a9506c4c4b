//go:build !race

package incidents

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
)

const day = 24 * time.Hour

// The scheduler loads tasks that are due within five minutes.
func TestATaskForInThreeDaysRunsThen(t *testing.T) {
	run(t, func(p *pager) {
		p.add(p.request("a", "later", 3*day), p.request("a", "soon", time.Second))
		p.Advance(3*day + time.Minute)
		p.wantsAt("soon", time.Second)
		p.wantsAt("later", 3*day)
	})
}

func TestARequestThatIsRepeatedIsOneTask(t *testing.T) {
	run(t, func(p *pager) {
		again := func(want engine.SubmitOutcome, first engine.Receipt) {
			t.Helper()
			if got := p.add(p.request("a", "one", time.Minute))[0]; got.Outcome != want || got.ID != first.ID {
				p.t.Errorf("after %v the answer is %v, task %v; want %v, task %v", time.Since(p.begin), got.Outcome, got.ID, want, first.ID)
			}
		}
		first := p.add(p.request("a", "one", time.Minute))[0]
		again(engine.OutcomeReplaced, first) // it waits for its time
		p.Advance(time.Minute)
		again(engine.OutcomeExisting, first) // it runs
		p.Advance(time.Minute)
		again(engine.OutcomeAlreadyDone, first)
		p.Restart(time.Hour)
		again(engine.OutcomeAlreadyDone, first)
		p.Advance(13 * day)
		again(engine.OutcomeAlreadyDone, first)
		p.wantsAt("one", time.Minute)

		p.Advance(2 * day) // the retention of the type is over
		if got := p.add(p.request("a", "one", time.Since(p.begin)))[0]; got.Outcome != engine.OutcomeCreated {
			p.t.Errorf("after 15 days the answer is %v", got.Outcome)
		}
	})
}

// The client of the scheduler refuses tasks that are more than ten seconds late.
func TestATaskThatIsTenSecondsLateRunsAtOnceAndALaterOneIsRefused(t *testing.T) {
	run(t, func(p *pager) {
		p.Advance(3 * day)
		for _, late := range []time.Duration{0, 10 * time.Second} {
			text := late.String()
			p.add(p.request("incident "+text, text, 3*day-late))
			p.Advance(0)
			p.wantsAt(text, 3*day)
		}
		for _, late := range []time.Duration{30 * time.Second, 3 * day} {
			if got, err := p.Submit(p.t.Context(), p.request("a", late.String(), 3*day-late)); !errors.Is(err, engine.ErrLate) {
				p.t.Errorf("a task that is %v late: %v, %v", late, got, err)
			}
		}
		p.Advance(time.Minute)
		p.wants("a", "")
	})
}

// The scheduler loads nothing that is more than two hours old after a restart, and stops loading at 1000 tasks.
func TestThreeDaysOfBacklogLoseNothing(t *testing.T) {
	const incidents, each = 40, 50
	run(t, func(p *pager) {
		rng := rand.New(rand.NewPCG(17, 18))
		want := make(map[string][]string)
		var reqs []engine.Request
		for i := range incidents {
			incident, times := fmt.Sprint("incident-", i), make([]time.Duration, each)
			for i := range times {
				times[i] = time.Minute + time.Duration(rng.Int64N(int64(3*day)))
			}
			slices.Sort(times)
			for i, at := range times {
				text := fmt.Sprint("page-", i)
				want[incident] = append(want[incident], text)
				reqs = append(reqs, p.requestTo([]string{"web", "db"}[rng.IntN(2)], incident, text, at))
			}
		}
		rng.Shuffle(len(reqs), func(i, j int) { reqs[i], reqs[j] = reqs[j], reqs[i] })
		for some := range slices.Chunk(reqs, 100) {
			if _, err := p.Submit(p.t.Context(), some...); err != nil {
				p.t.Fatal(err)
			}
		}
		p.Restart(3*day + time.Hour)
		p.reach("db", false) // every incident is held up for a while
		p.Advance(time.Minute)
		p.reach("db", true)
		p.Advance(10 * time.Minute)
		for incident, texts := range want {
			p.wants(incident, strings.Join(texts, " "))
		}
	})
}

// The scheduler counts the tasks behind a failing task against the 1000 tasks that it keeps in memory.
func TestThousandsOfTasksBehindAFailingOneDelayNoOtherIncident(t *testing.T) {
	const behind = 2000
	run(t, func(p *pager) {
		p.reach("db", false)
		p.add(p.requestTo("db", "stuck", "failing", 0))
		reqs := make([]engine.Request, behind)
		for i := range reqs {
			reqs[i] = p.request("stuck", fmt.Sprint("behind ", i), time.Duration(i)*time.Millisecond)
		}
		if _, err := p.Submit(p.t.Context(), reqs...); err != nil {
			p.t.Fatal(err)
		}
		p.Advance(5 * time.Second) // the first attempt has failed
		p.Restart(55 * time.Second)
		p.add(p.request("healthy", "overdue", 55*time.Second), p.request("healthy", "soon", 2*time.Minute))
		p.Advance(10 * time.Minute)
		p.wantsAt("overdue", time.Minute)
		p.wantsAt("soon", 2*time.Minute)
		p.wants("stuck", "")
		page, err := p.Key(p.t.Context(), "stuck", nil, behind+1)
		if err != nil || page.Head == nil || len(page.Behind) != behind {
			p.t.Errorf("behind the head %v are %d tasks, %v", page.Head, len(page.Behind), err)
		}
	})
}
