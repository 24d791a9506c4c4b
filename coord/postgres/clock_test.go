//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/task"
)

// agrees reports whether a node knows the clock of the database as well as it claims.
func agrees(t *testing.T, n *node, url string) bool {
	t.Helper()
	before := ask[time.Time](t, url, "SELECT clock_timestamp()")
	now, within, ok := n.ClockAt(time.Now())
	after := ask[time.Time](t, url, "SELECT clock_timestamp()")
	return ok && !now.Add(within+time.Microsecond).Before(before) && !now.Add(-within).After(after)
}

func TestNodesKnowWhatTheClockOfTheDatabaseSays(t *testing.T) {
	for name, s := range map[string]setup{"values apart": {}, "values in the text": {simple: true}} {
		t.Run(name, func(t *testing.T) {
			url := server.Database(t)
			pgtest.SetClock(t, url, 10*time.Minute)
			execute(t, url, `ALTER DATABASE "`+ask[string](t, url, "SELECT current_database()")+`" SET datestyle = 'German'`)
			prepare(t, url, "taskengine")
			nodes := []*node{connect(t, url, s), connect(t, url, s)}
			for i, n := range nodes {
				if _, _, ok := n.ClockAt(time.Now()); ok {
					t.Error("a node knows the clock before it has read it")
				}
				known := make(chan bool, 1)
				first := true
				self := coord.Member{Incarnation: task.ID{0: byte(i + 1)}}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				t.Cleanup(func() { cancel(); <-done })
				go func() {
					defer close(done)
					_ = n.Join(ctx, self, func([]coord.Member) {
						if _, _, ok := n.ClockAt(time.Now()); first {
							first = false
							known <- ok
						}
					})
				}()
				if !receive(t, "the list of members", known) {
					t.Error("a node that has joined does not know the clock")
				}
				if !agrees(t, n, url) {
					t.Error("a node that has joined has another time than the database")
				}
			}
			for _, ahead := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
				pgtest.SetClock(t, url, ahead)
				for _, n := range nodes {
					eventually(t, "the new time of the database", func() bool { return agrees(t, n, url) })
				}
			}
		})
	}
}

func TestAProgramThatUsesOnlyTheBusAndTheClockHasBoth(t *testing.T) {
	url := database(t)
	pgtest.SetClock(t, url, 10*time.Minute)
	sessions := func() int { return ask[int](t, url, "SELECT count(*)::int FROM taskengine.session") }
	a, first := listener(t, url)
	b, second := listener(t, url)
	for _, n := range []*node{a, b} {
		now, err := n.ReadClock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, _, ok := n.ClockAt(time.Now()); !ok || !agrees(t, n, url) {
			t.Error("the clock was read, and is not that of the database")
		}
		before := ask[time.Time](t, url, "SELECT clock_timestamp()")
		if off := now().Sub(before); off < -time.Second || off > patience {
			t.Errorf("the time is %v off", off)
		}
	}
	if n := sessions(); n != 2 {
		t.Errorf("%d programs have a session, want 2", n)
	}
	for i, from := range []*node{a, b} {
		h := hint(i)
		eventually(t, "a hint on both sides", func() bool { // it may be lost
			if err := from.Publish(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			return first.count(h) > 0 && second.count(h) > 0
		})
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if n := sessions(); n != 1 {
		t.Errorf("after one of two has closed, %d have a session", n)
	}
	pgtest.SetClock(t, url, -10*time.Minute)
	eventually(t, "the new time of the database", func() bool { return agrees(t, a, url) })
}

func TestReadClockWaitsForTheDatabase(t *testing.T) {
	url := database(t)
	n := connect(t, url, setup{})
	n.wire.Cut()
	errOver := errors.New("it is over")
	over, cancel := context.WithCancelCause(t.Context())
	cancel(errOver)
	if _, err := n.ReadClock(over); !errors.Is(err, errOver) {
		t.Errorf("when its context has ended, it returns %v", err)
	}
	read := make(chan error, 1)
	go func() {
		_, err := n.ReadClock(t.Context())
		read <- err
	}()
	n.wire.Heal()
	if err := receive(t, "the clock", read); err != nil {
		t.Error(err)
	}

	never := connect(t, url, setup{})
	never.wire.Cut()
	go func() {
		_, err := never.ReadClock(t.Context())
		read <- err
	}()
	if err := never.Close(); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, "the end", read); !errors.Is(err, coord.ErrClosed) {
		t.Errorf("when it is closed, it returns %v", err)
	}
	if _, err := n.ReadClock(t.Context()); err != nil {
		t.Error(err)
	}
}
