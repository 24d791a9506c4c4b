package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// punctual returns a set with the type x, which accepts times up to 20 seconds in the past, and the type any.
func punctual(mode policy.OnConflict) policy.Set {
	set := unique(mode, func(p *policy.Type) { p.MaxLateness = 20 * time.Second })
	set.Types["any"] = policy.DefaultType()
	return set
}

// The times are from a test of PagerDuty's scheduler.
func TestATimeThatLiesTooFarInThePastIsRefusedAndTheOtherRequestsAreDone(t *testing.T) {
	for name := range submits(nil) {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var j journal
				n := start(t, punctual(policy.KeepExisting), map[string]task.Handler{"x": handle("x", j.work(0))["x"], "any": handle("any", j.work(0))["any"]})
				at := func(typ, payload string, late time.Duration) engine.Request {
					return engine.Request{Type: typ, Payload: []byte(payload), At: time.Now().Add(-late)}
				}
				submit := submits(n)[name]
				receipts, err := submit(
					at("x", "10 s", 10*time.Second), at("x", "30 s", 30*time.Second), at("x", "20 s", 20*time.Second),
					at("any", "a year", 365*24*time.Hour), at("x", "20 s and more", 20*time.Second+time.Microsecond),
					engine.Request{Type: "x", Payload: []byte("now")}, at("x", "to come", -time.Second),
				)
				if !errors.Is(err, engine.ErrLate) || !strings.Contains(err.Error(), "2 of 7 requests were refused, and the others are done; the first is request 2: ") {
					t.Errorf("got %v", err)
				}
				if len(receipts) != 7 {
					t.Fatalf("got %+v, %v", receipts, err)
				}
				for i, r := range receipts {
					late := i == 1 || i == 4
					if late != (r.Outcome == engine.OutcomeLate) || late != r.ID.IsZero() || late != errors.Is(r.Err, engine.ErrLate) || late == r.Created {
						t.Errorf("request %d: %+v", i, r)
					}
				}
				time.Sleep(time.Minute)
				if got := len(j.payloads()); got != 5 {
					t.Errorf("%q ran", j.payloads())
				}

				receipts, err = submit(at("x", "", time.Hour))
				want := "its time, " + time.Now().Add(-time.Hour).UTC().Format(time.RFC3339) + ", lies more than 20s in the past, which is max_lateness of type x"
				if !errors.Is(err, engine.ErrLate) || !strings.Contains(err.Error(), want) || len(receipts) != 1 || receipts[0].Outcome != engine.OutcomeLate {
					t.Errorf("got %+v, %v", receipts, err)
				}
			})
		})
	}
}

// A caller that has no answer repeats its request, perhaps much later.
func TestALateRequestIsNotRefusedIfItsTaskExists(t *testing.T) {
	for name := range submits(nil) {
		for _, mode := range []policy.OnConflict{policy.KeepExisting, policy.RejectNew, policy.ReplaceExisting, policy.DebounceExisting} {
			t.Run(mode.String()+" "+name, func(t *testing.T) { inBubble(t, func(t *testing.T) { repeatLate(t, name, mode) }) })
		}
	}
}

func repeatLate(t *testing.T, name string, mode policy.OnConflict) {
	n := start(t, punctual(mode), handle("x", func(context.Context, *task.Task) ([]byte, error) { return nil, nil }))
	submit := submits(n)[name]
	now := time.Now()
	byID := engine.Request{Type: "x", ID: task.ID{1: 1, 6: 0x70, 8: 0x80, 15: 1}, At: now}
	byKey := engine.Request{Type: "x", Key: "k", At: now}
	receipts, err := submit(byID, byKey)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Hour)
	n.end(receipts[1].ID)
	got, err := submit(byID, byKey, engine.Request{Type: "x", Key: "another", At: now})
	if !errors.Is(err, engine.ErrLate) || errors.Is(err, engine.ErrExists) != (mode == policy.RejectNew) {
		t.Errorf("got %v", err)
	}
	want := engine.OutcomeAlreadyDone
	switch mode {
	case policy.KeepExisting:
		want = engine.OutcomeExisting
	case policy.RejectNew:
		want = engine.OutcomeRejected
	}
	if got[0] != (engine.Receipt{ID: byID.ID}) || got[1].ID != receipts[1].ID || got[1].Outcome != want || got[1].Created || got[2].Outcome != engine.OutcomeLate {
		t.Errorf("got %+v, want %v", got, want)
	}
}

func TestALateRequestReplacesATaskButDoesNotMoveItIntoThePast(t *testing.T) {
	for name := range submits(nil) {
		for _, mode := range []policy.OnConflict{policy.ReplaceExisting, policy.DebounceExisting} {
			inBubble(t, func(t *testing.T) {
				n := start(t, punctual(mode), handle("x", func(context.Context, *task.Task) ([]byte, error) { return nil, nil }))
				at := time.Now().Add(time.Hour)
				id := n.submit(engine.Request{Type: "x", Key: "k", Payload: []byte("old"), At: at})
				receipts, err := submits(n)[name](engine.Request{Type: "x", Key: "k", Payload: []byte("new"), At: time.Now().Add(-time.Minute)})
				is := n.expect(id, task.Waiting)
				if !is.NextEventAt.Equal(at) {
					t.Errorf("%v %s: it is due at %v", mode, name, is.NextEventAt)
				}
				if mode == policy.ReplaceExisting {
					if err != nil || receipts[0] != (engine.Receipt{ID: id, Outcome: engine.OutcomeReplaced}) || string(is.Payload) != "new" {
						t.Errorf("%s: %+v, %v, with %q", name, receipts, err, is.Payload)
					}
				} else if !errors.Is(err, engine.ErrLate) || receipts[0].Outcome != engine.OutcomeLate || string(is.Payload) != "old" {
					t.Errorf("%s: %+v, %v, with %q", name, receipts, err, is.Payload)
				}
			})
		}
	}
}

func TestALateRequestNeedsNoRoom(t *testing.T) {
	for name := range submits(nil) {
		inBubble(t, func(t *testing.T) {
			n := start(t, one("x", func(p *policy.Type) {
				p.MaxLateness, p.MaxBacklog.Max, p.Paused = time.Second, 1, true
			}), handle("x", func(context.Context, *task.Task) ([]byte, error) { return nil, nil }))
			late := engine.Request{Type: "x", At: time.Now().Add(-time.Minute)}
			receipts, err := submits(n)[name](late, engine.Request{Type: "x"}, late)
			if !errors.Is(err, engine.ErrLate) || errors.Is(err, engine.ErrBacklog) || !receipts[1].Created {
				t.Errorf("%s: %+v, %v", name, receipts, err)
			}
			if receipts, err := submits(n)[name](late); !errors.Is(err, engine.ErrLate) || errors.Is(err, engine.ErrBacklog) {
				t.Errorf("%s: %+v, %v", name, receipts, err)
			}
		})
	}
}

// A handler with a late attempt would otherwise never run again.
func TestATaskThatFollowsAnAttemptIsNeverLate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		set := punctual(policy.KeepExisting)
		n := start(t, set, map[string]task.Handler{
			"x": handle("x", j.work(0))["x"],
			"any": handle("any", func(context.Context, *task.Task) ([]byte, error) {
				child := engine.Request{Type: "x", Payload: []byte("child"), At: time.Now().Add(-time.Hour)}
				return nil, task.Again(time.Now().Add(24*time.Hour), task.WithTasks(child))
			})["any"],
		})
		n.submit(engine.Request{Type: "any"})
		time.Sleep(time.Minute)
		if got := strings.Join(j.payloads(), " "); got != "child" {
			t.Errorf("%q ran", got)
		}
	})
}

func TestLatenessIsMeasuredByTheSharedClock(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := common{ahead: new(atomic.Int64), more: time.Hour}
		n := startWith(t, punctual(policy.KeepExisting), handle("x", func(context.Context, *task.Task) ([]byte, error) { return nil, nil }),
			func(config *engine.Config) { config.Coordinator.Clock = c })
		n.end(n.submit(engine.Request{Type: "x", At: n.Now().Add(-10 * time.Second)}))
		if _, err := n.Submit(t.Context(), engine.Request{Type: "x", At: n.Now().Add(-30 * time.Second)}); !errors.Is(err, engine.ErrLate) {
			t.Errorf("got %v", err)
		}
		if n.Now().After(time.Now().Add(-time.Minute)) {
			t.Error("the clock is that of the machine")
		}
	})
}
