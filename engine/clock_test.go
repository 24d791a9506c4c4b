package engine

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

func TestTheClockGoesSlowlyBackByLittleAndAgreesWithTheWallInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ahead := began.Round(0).Add(time.Second) // the wall clock was set back by a second
		c := clock{last: ahead, read: began}
		for last := ahead; ; {
			time.Sleep(100 * time.Millisecond)
			now := c.now()
			if now.Before(last) {
				t.Fatalf("it stepped back from %v to %v", last, now)
			}
			if behind := time.Since(began); behind < 2*time.Second && now.Sub(ahead) != behind/2 {
				t.Fatalf("after %v it went on by %v, want half of that", behind, now.Sub(ahead))
			}
			if now.Equal(time.Now().Round(0)) {
				break
			}
			last = now
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("it agreed with the wall after %v, want 2s", took)
		}
		time.Sleep(time.Hour)
		if now := c.now(); !now.Equal(time.Now().Round(0)) {
			t.Errorf("it says %v at %v", now, time.Now())
		}
	})
}

func TestAClockThatIsSetIsFollowedAtOnceAndReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard []time.Duration
		c := clock{stepped: func(d time.Duration) { heard = append(heard, d) }}
		begin := c.now()
		for _, skew := range []time.Duration{time.Hour, -time.Minute, 0} {
			time.Sleep(time.Second)
			c.skew = skew
			if got := c.now(); !got.Equal(time.Now().Round(0).Add(skew)) {
				t.Errorf("set by %v it says %v", skew, got.Sub(begin))
			}
		}
		if want := []time.Duration{time.Hour, -time.Hour - time.Minute, time.Minute}; !slices.Equal(heard, want) {
			t.Errorf("it reported %v, want %v", heard, want)
		}
	})
}

// stepped opens an engine with a wall clock that can be set, and tasks of type x.
func stepped(t *testing.T, p policy.Type, h task.HandlerFunc) (e *Engine, set func(time.Duration)) {
	t.Helper()
	e, err := Open(t.Context(), Config{
		Store: memory.New(), Handlers: map[string]task.Handler{"x": h}, Policies: policy.Set{Slots: 10, Types: map[string]policy.Type{"x": p}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return e, func(skew time.Duration) { e.tell(func(s *state, _ time.Time) { s.clock.skew = skew }) }
}

func TestAStepOfTheWallClockTimesOutNothingThatRuns(t *testing.T) {
	for _, skew := range []time.Duration{time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			p := policy.DefaultType()
			p.Delivery, p.Timeout.Run, p.Timeout.Grace = policy.AtMostOnce, 10*time.Minute, time.Second
			var left time.Duration
			takes := 9 * time.Minute
			e, set := stepped(t, p, func(ctx context.Context, _ *task.Task) ([]byte, error) {
				select {
				case <-time.After(takes):
				case <-ctx.Done():
				}
				deadline, _ := ctx.Deadline()
				left = time.Until(deadline)
				return nil, context.Cause(ctx)
			})
			run := func() *task.Task {
				receipts, err := e.Submit(t.Context(), Request{Type: "x"})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				set(skew)
				if err := e.WaitTasks(t.Context(), receipts[0].ID); err != nil {
					t.Fatal(err)
				}
				got, err := e.Get(t.Context(), receipts[0].ID)
				if err != nil {
					t.Fatal(err)
				}
				return got
			}
			if got := run(); got.State != task.Done || left != time.Minute {
				t.Errorf("after nine of ten minutes it is %v, and %v were left: %s", got.State, left, got.LastError)
			}
			set(0)
			takes = time.Hour
			begin := time.Now()
			if got := run(); got.State != task.Error || time.Since(begin) > 11*time.Minute {
				t.Errorf("it is %v after %v", got.State, time.Since(begin))
			}
			if err := e.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestATaskStartsByTheWallClockAlsoAfterAGlitch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var began time.Time
		e, set := stepped(t, policy.DefaultType(), func(context.Context, *task.Task) ([]byte, error) {
			began = time.Now()
			return nil, nil
		})
		set(time.Hour)
		time.Sleep(time.Second)
		set(0)
		due := time.Now().Add(time.Hour)
		receipts, err := e.Submit(t.Context(), Request{Type: "x", At: due})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.WaitTasks(t.Context(), receipts[0].ID); err != nil {
			t.Fatal(err)
		}
		if early := due.Sub(began); early > 0 || early < -time.Second {
			t.Errorf("it started %v early", early)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// slow is a shared clock that is an hour behind the wall clock.
type slow struct{}

func (slow) ClockAt(t time.Time) (time.Time, time.Duration, bool) { return t.Add(-time.Hour), 0, true }

// In a bubble of testing/synctest no time has a monotonic reading.
func TestATimeThatAHandlerDerivedFromTheWallClockIsConverted(t *testing.T) {
	e := &Engine{base: timebase{shared: slow{}}}
	at := time.Now().Add(time.Minute)
	if got := e.byTimebase(at); !got.Equal(at.Add(-time.Hour)) {
		t.Errorf("%v is %v by a clock that is an hour behind", at, got)
	}
	at = at.Round(0)
	if got := e.byTimebase(at); !got.Equal(at) {
		t.Errorf("a time of the day, %v, becomes %v", at, got)
	}
}
