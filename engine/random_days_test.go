//go:build !race

// Days of virtual time with random clocks, stores and requests, and a list of many types. The core that decides in them has one
// goroutine; other tests have the goroutines around it under the race detector.

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// Random requests get the answers of a naive model, for keys of different windows.
func TestThrottledRequestsAreAnsweredAsAModelSays(t *testing.T) {
	for seed := range uint64(8) {
		inBubble(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			n := start(t, throttled(func(p *policy.Type) { p.Timeout.Run = 24 * time.Hour }), handle("x", func(ctx context.Context, t *task.Task) ([]byte, error) {
				select {
				case <-time.After(runs(len(t.Payload))):
				case <-ctx.Done():
				}
				return nil, ctx.Err()
			}))
			type added struct {
				id        task.ID
				at, until time.Time
			}
			latest := make(map[string]added) // by key
			for range 150 {
				time.Sleep(time.Duration(r.IntN(30)) * time.Minute)
				key, minutes := fmt.Sprint(r.IntN(3)), 1+r.IntN(100)
				req := engine.Request{Type: "x", Key: key, Payload: []byte(strings.Repeat("m", minutes))}
				now := time.Now()
				name := []string{"alone", "in a transaction"}[r.IntN(2)]
				receipts, err := submits(n)[name](req)
				if err != nil {
					t.Fatal(err)
				}
				got, was := receipts[0], latest[key]
				want := engine.Receipt{ID: was.id}
				switch isRunning := now.Before(was.until); {
				case !isRunning && !now.Before(was.at.Add(time.Hour)):
					want = engine.Receipt{ID: got.ID, Created: true, Outcome: engine.OutcomeCreated}
					latest[key] = added{got.ID, now, now.Add(runs(minutes))}
				case !isRunning:
					want.Outcome = engine.OutcomeAlreadyDone
				}
				if got != want || got.Created && got.ID == was.id {
					t.Fatalf("seed %d: got %+v, want %+v", seed, got, want)
				}
			}
			if err := n.WaitType(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestOnlySoManyTypesThatAreNotConfiguredCanBePaused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, one("x", nil), handle("x", func(context.Context, *task.Task) ([]byte, error) { return nil, nil }))
		for i := range 1000 {
			if err := n.Pause(t.Context(), fmt.Sprint("made up ", i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.Pause(t.Context(), "one more"); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("one more is paused: %v", err)
		}
		for _, typ := range []string{"x", "made up 7"} {
			if err := n.Pause(t.Context(), typ); err != nil {
				t.Errorf("%s cannot be paused: %v", typ, err)
			}
		}
	})
}

// A database is restored from a backup under running nodes, which notice nothing of it by themselves, or lose their leases
// with it. All tasks that it has end as their types promise.
func TestNodesGoOnWhenTheirStoreHasGoneBackInTime(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T) { restoredLife(t, seed) })
		})
	}
}

func TestNodesWithAWrongClockStartTasksNeitherEarlyNorLate(t *testing.T) {
	off(t, func(g *group, now func() time.Time, _ func(time.Duration)) {
		began := make(chan time.Time, 1)
		work := func(_ context.Context, t *task.Task) ([]byte, error) {
			began <- now()
			if string(t.Payload) != "fail" || t.Attempt > 1 {
				return nil, nil
			}
			return nil, errNo
		}
		set := one("work", func(p *policy.Type) {
			p.Retry.Backoff = policy.Backoff{Kind: policy.Fixed, Delays: []time.Duration{time.Minute}}
		})
		a := g.join("a", set, work, "work")
		b := g.join("b", set, work, "work")
		expect := func(what string, due time.Time) {
			t.Helper()
			if by := (<-began).Sub(due); by < 0 || by > late {
				g.t.Errorf("%s begins %v late", what, by)
			}
		}
		for range 5 { // on either node
			due := now().Add(10 * time.Minute)
			a.submit(engine.Request{Type: "work", At: due})
			expect("a task for a time", due)
			id := b.submit(engine.Request{Type: "work", Payload: []byte("fail")})
			expect("a task for now", now())
			expect("a task that failed a minute ago", now().Add(time.Minute-late))
			a.end(id)
			id = b.submit(engine.Request{Type: "work", At: now().Add(time.Hour)})
			due = now().Add(5 * time.Minute)
			if _, err := a.Reschedule(context.Background(), task.Ref{ID: id}, due); err != nil {
				g.t.Fatal(err)
			}
			expect("a task whose time was changed", due)
		}
	})
}

func TestAStepOfTheSharedClockIsFollowedAndTimesOutNothingThatRuns(t *testing.T) {
	off(t, func(g *group, now func() time.Time, set func(time.Duration)) {
		began := make(chan time.Time, 1)
		work := func(ctx context.Context, t *task.Task) ([]byte, error) {
			if string(t.Payload) == "long" {
				return takes(9*time.Minute)(ctx, t)
			}
			began <- now()
			return nil, nil
		}
		a := g.join("a", one("work", func(p *policy.Type) {
			p.Timeout.Run, p.Timeout.Grace, p.Delivery = 10*time.Minute, time.Second, policy.AtMostOnce
		}), work, "work")
		for _, ahead := range []time.Duration{0, time.Hour, -time.Hour, 3 * time.Second} {
			long := a.submit(engine.Request{Type: "work", Payload: []byte("long")})
			time.Sleep(time.Minute)
			set(ahead)
			due := now().Add(20 * time.Minute)
			a.submit(engine.Request{Type: "work", At: due})
			if got := a.end(long); got.State != task.Done {
				g.t.Errorf("after a step to %v, a task that ran for nine of ten minutes is %v: %s", ahead, got.State, got.LastError)
			}
			if by := (<-began).Sub(due); by < 0 || by > late {
				g.t.Errorf("after a step to %v, a task begins %v late", ahead, by)
			}
		}
	})
}
