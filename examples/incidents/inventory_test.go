// Package incidents has a configuration for the work of PagerDuty's scheduler, and tests of the properties that the tests of
// that scheduler have. docs/from-pagerduty.md lists both.
package incidents

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/task"
)

func TestTasksRunAtTheirTimesWhateverTheirKeysHaveInCommon(t *testing.T) {
	run(t, func(p *pager) {
		for _, r := range []engine.Request{
			p.request("a", "1", time.Minute), p.request("a", "2", 2*time.Minute), // one incident
			p.request("b", "3", time.Minute), p.request("c", "4", time.Minute), // one time
		} {
			p.add(r)
		}
		shared := p.request("d", "5", 3*time.Minute) // one key, of two incidents
		shared.Key = "1"
		p.add(shared)
		p.Advance(10 * time.Minute)
		p.wantsAt("1", time.Minute)
		p.wantsAt("2", 2*time.Minute)
		p.wantsAt("3", time.Minute)
		p.wantsAt("4", time.Minute)
		p.wantsAt("5", 3*time.Minute)
	})
}

func TestTasksRunInTheOrderOfTheirTimesAndNotOfTheirRequests(t *testing.T) {
	for name, incidents := range map[string][]string{"of one incident": {"a", "a", "a"}, "of several": {"a", "b", "c"}} {
		t.Run(name, func(t *testing.T) {
			run(t, func(p *pager) {
				p.add(
					p.request(incidents[0], "third", 30*time.Second),
					p.request(incidents[1], "first", 10*time.Second),
					p.request(incidents[2], "second", 20*time.Second),
				)
				p.Advance(time.Minute)
				p.wants("", "first second third")
				p.wantsAt("first", 10*time.Second)
				p.wantsAt("second", 20*time.Second)
				p.wantsAt("third", 30*time.Second)
			})
		})
	}
}

// The scheduler takes the order of the uniqueness keys.
func TestTasksOfOneTimeRunInTheOrderOfTheirRequests(t *testing.T) {
	run(t, func(p *pager) {
		var want []string
		for i := range 20 {
			text := fmt.Sprintf("%c", 'z'-i)
			want = append(want, text)
			p.add(p.request("a", text, time.Minute))
		}
		p.Advance(time.Hour)
		p.wants("a", strings.Join(want, " "))
	})
}

func TestATaskThatBecameDueWhileTheNodeWasAwayRunsAtItsStart(t *testing.T) {
	run(t, func(p *pager) {
		p.add(p.request("a", "overdue", time.Minute), p.request("a", "future", time.Hour))
		p.Restart(10 * time.Minute)
		p.Advance(time.Second)
		p.wantsAt("overdue", 10*time.Minute)
		p.Advance(2 * time.Hour)
		p.wantsAt("future", time.Hour)
	})
}

func TestARequestGivesATaskThatHasNotBegunItsPayload(t *testing.T) {
	run(t, func(p *pager) {
		of := func(key, text string) engine.Request {
			r := p.requestTo("db", "a", text, time.Minute)
			r.Key = key
			return r
		}
		p.add(of("x", "old"), of("y", "older"))
		later := of("x", "new") // x waits for its time, and keeps it
		later.At = later.At.Add(time.Hour)
		p.add(later)
		p.reach("db", false)
		p.Advance(time.Minute + 5*time.Second)
		p.add(of("y", "newer")) // it is behind x
		p.add(of("x", "newest"))
		p.reach("db", true)
		p.Advance(time.Hour)
		p.wants("a", "new newer") // x had begun
		if at := p.begins("new"); len(at) != 2 || at[0] != time.Minute {
			p.t.Errorf("the attempts for x began at %v, want two from %v on", at, time.Minute)
		}
	})
}

func TestATaskThatIsOlderThanOneThatHasRunRunsToo(t *testing.T) {
	run(t, func(p *pager) {
		p.add(p.request("a", "later", 10*time.Minute))
		p.Advance(10*time.Minute + 5*time.Second)
		p.add(p.request("a", "older", 9*time.Minute+58*time.Second))
		p.Advance(time.Minute)
		p.wants("a", "later older")
	})
}

func TestAnOlderTaskOvertakesThoseThatWaitAndNotTheOneThatHasBegun(t *testing.T) {
	for name, reachable := range map[string]bool{"that runs": true, "that waits for its next attempt": false} {
		t.Run(name, func(t *testing.T) {
			run(t, func(p *pager) {
				p.reach("db", reachable)
				p.add(p.requestTo("db", "a", "begun", 0), p.request("a", "behind", time.Second/4))
				p.Advance(time.Second / 2)
				if !reachable {
					p.Advance(time.Second)
				}
				p.add(p.request("a", "older", -time.Second))
				p.reach("db", true)
				p.Advance(time.Hour)
				p.wants("a", "begun older behind")
			})
		})
	}
}

func TestKeysMayHaveAnyCharacters(t *testing.T) {
	run(t, func(p *pager) {
		names := []string{"a", "a,b", "a/b", "a%2Cb", `"a"`, "TaskKey(a,b)", "ä", "𝄞", "a\x1fb", " ", "*", "2000-01-01T00:00:00Z"}
		for _, incident := range names {
			for _, key := range names {
				r := p.request(incident, "text", time.Minute)
				r.Key = key
				for range 2 {
					p.add(r)
				}
			}
		}
		p.Advance(time.Hour)
		for _, incident := range names {
			if n := strings.Count(p.paged(incident), "text"); n != len(names) {
				p.t.Errorf("%d tasks of incident %q ran, want %d", n, incident, len(names))
			}
		}
		for _, key := range names {
			if tk, err := p.Find(p.t.Context(), "incident", "a,b", key); err != nil || tk.State != task.Done {
				p.t.Errorf("the task with key %q is %v, %v", key, tk, err)
			}
		}
	})
}
