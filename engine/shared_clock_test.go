package engine_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// common is a clock that nodes share. The wall clock of the machine is ahead of it.
type common struct {
	ahead *atomic.Int64 // how far the clock of the test is, which is that of every call of [time.Now]
	more  time.Duration // how much further that of the machine is
}

// clocked is a membership with a clock that its members share.
type clocked struct {
	*local.Node
	common
}

var _ coord.Clock = clocked{}

// wallKey is the key of how far the wall clock of a node is ahead of the clock of the test, in the context of
// its handlers.
type wallKey struct{}

func wallOf(ctx context.Context) time.Duration { return ctx.Value(wallKey{}).(time.Duration) }

// within is the bound of the error of a common clock.
const within = time.Millisecond

func (c common) ClockAt(t time.Time) (time.Time, time.Duration, bool) {
	return t.Add(-time.Duration(c.ahead.Load()) - c.more), within, true
}

// off runs a test with nodes with wall clocks ten minutes ahead, with nodes behind, and with
// nodes of which one is ahead and the next is behind. The test gets the time of the clock that they share,
// and sets how far the wall clock is ahead of it.
func off(t *testing.T, test func(g *group, now func() time.Time, set func(time.Duration))) {
	t.Helper()
	for name, c := range map[string]struct {
		ahead, apart time.Duration
		clock        bool
	}{
		"ahead":  {ahead: 10 * time.Minute},
		"behind": {ahead: -10 * time.Minute},
		"apart":  {apart: 10 * time.Minute},
		"apart, by a clock that is not the membership": {apart: 10 * time.Minute, clock: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				g := newGroup(t)
				g.ahead, g.apart, g.clock = new(atomic.Int64), c.apart, c.clock
				set := func(d time.Duration) { g.ahead.Store(int64(d)) }
				set(c.ahead)
				test(g, func() time.Time { return time.Now().Round(0).Add(-time.Duration(g.ahead.Load())) }, set)
			})
		})
	}
}

// late is how long a node may take to start a due task: it may need a hint of another.
const late = 1100 * time.Millisecond

func TestAHandlerOfANodeWithAWrongClockIsCalledAgainWhenItAsksForThat(t *testing.T) {
	off(t, func(g *group, now func() time.Time, _ func(time.Duration)) {
		began := make(chan time.Time, 2)
		work := func(_ context.Context, t *task.Task) ([]byte, error) {
			began <- now()
			switch {
			case len(began) > 1:
				return nil, nil
			case string(t.Payload) == "after a minute":
				return nil, task.Snooze(time.Minute)
			}
			return nil, task.Again(now().Add(time.Minute))
		}
		a := g.join("a", one("work", nil), work, "work")
		for _, payload := range []string{"after a minute", "at a time"} {
			a.end(a.submit(engine.Request{Type: "work", Payload: []byte(payload)}))
			if rest := -(<-began).Sub(<-began); rest < time.Minute || rest > time.Minute+late {
				g.t.Errorf("asked to be called again %s, it is after %v", payload, rest)
			}
		}
	})
}

func TestTasksOfNodesWithAWrongClockAreTooLateWhenTheirTimeIsOver(t *testing.T) {
	off(t, func(g *group, now func() time.Time, _ func(time.Duration)) {
		set := one("work", func(p *policy.Type) {
			p.Concurrency, p.Timeout.Queue, p.Timeout.Run = 1, 5*time.Minute, 3*time.Hour
		})
		a := g.join("a", set, takes(2*time.Hour), "work")
		a.submit(engine.Request{Type: "work"}) // it takes the slot
		time.Sleep(time.Second)
		submitted := now()
		queued := a.submit(engine.Request{Type: "work"})
		expires := now().Add(2 * time.Minute)
		expiring := a.submit(engine.Request{Type: "work", ExpiresAt: expires})
		for id, over := range map[task.ID]time.Time{queued: submitted.Add(5 * time.Minute), expiring: expires} {
			got := a.end(id)
			if by := got.UpdatedAt.Sub(over); got.State != task.Error || by < 0 || by > late {
				g.t.Errorf("it is %v, %v after its time: %s", got.State, by, got.LastError)
			}
		}
		if passed := now().Sub(submitted); passed < 5*time.Minute || passed > 5*time.Minute+late {
			g.t.Errorf("the last of them was too late after %v", passed)
		}
	})
}

// A time that is taken from the wall clock is ten minutes off.
func TestEveryTimeOfATaskIsOfTheClockThatTheNodesShare(t *testing.T) {
	off(t, func(g *group, now func() time.Time, _ func(time.Duration)) {
		begin := now()
		check := func(what string, at time.Time) {
			g.t.Helper()
			if passed := at.Sub(begin); !at.IsZero() && (passed < 0 || passed > 5*time.Minute) {
				g.t.Errorf("the time at which a task %s is %v after the begin of the test", what, passed)
			}
		}
		g.observer = engine.Observer{
			Inserted: func(at time.Time, _ *task.Task) { check("was seen to be inserted", at) },
			Started:  func(at time.Time, _ *task.Task) { check("was seen to start", at) },
			Saved:    func(at time.Time, _ task.Ref, _ *task.Task) { check("was seen to be saved", at) },
		}
		work := func(ctx context.Context, t *task.Task) ([]byte, error) {
			task.ReportProgress(ctx, 1, 2, "half")
			if _, err := takes(2*time.Second)(ctx, t); err != nil {
				return nil, err
			}
			deadline, _ := ctx.Deadline()
			switch left := time.Until(deadline) - wallOf(ctx); {
			case left <= 0 || left > 8*time.Second:
				return nil, task.Permanent(errNo)
			case t.Attempt == 1:
				return nil, errNo
			case len(t.Payload) > 0:
				return nil, g.store.Update(ctx, func(tx storage.Tx) error { return engine.FinishTx(ctx, tx, nil) })
			}
			return nil, nil
		}
		set := one("work", func(p *policy.Type) {
			p.Retry.Backoff = policy.Backoff{Kind: policy.Fixed, Delays: []time.Duration{time.Second}}
			p.Timeout.Run, p.Timeout.Queue, p.Timeout.Total = 10*time.Second, 20*time.Second, time.Minute
			p.Retention = policy.Retention{Done: time.Minute, Failed: time.Minute, Cancelled: time.Minute}
		})
		set.Limits = map[string]policy.Limit{"unused": {Max: 1}}
		a, b := g.join("a", set, work, "work"), g.join("b", set, work, "work")
		look := func(row *task.Task) {
			g.t.Helper()
			check("was created", row.CreatedAt)
			check("was ready", row.ReadyAt)
			check("is looked at", row.NextEventAt)
			check("is too late", row.ExpiresAt)
			check("was started", row.StartedAt)
			check("was changed", row.UpdatedAt)
			for _, h := range row.History {
				check("began an attempt", h.StartedAt)
				check("ended an attempt", h.EndedAt)
			}
			if row.Notes != nil {
				check("has made progress", row.Notes.Progress.At)
			}
			made := time.UnixMilli(int64(binary.BigEndian.Uint64(row.ID[:8]) >> 16))
			check("got its id", made.Add(time.Millisecond))
		}
		paused, err := a.SetLimit(context.Background(), engine.LimitSetting{Limit: "unused", Paused: true}, nil)
		if check("or a limit was changed", paused.At); err != nil {
			g.t.Error(err)
		}
		var ids []task.ID
		for i := range 20 {
			ids = append(ids, a.submit(engine.Request{Type: "work", Payload: make([]byte, i%2)}))
		}
		for i := range 5 {
			for _, id := range ids {
				look(a.get(id))
			}
			time.Sleep(1100 * time.Millisecond)
			switch i {
			case 1:
				row, err := a.Cancel(context.Background(), task.Ref{ID: ids[0]}, "no")
				if err != nil {
					g.t.Fatal(err)
				}
				look(row)
			case 2:
				b.coord.Sever() // its tasks are recovered
			}
		}
		for _, id := range ids[1:] {
			row := a.end(id)
			if look(row); row.State != task.Done {
				g.t.Errorf("it is %v: %s", row.State, row.LastError)
			}
		}
	})
}

func TestEndedTasksOfNodesWithAWrongClockAreKeptAsLongAsTheirTypeSays(t *testing.T) {
	off(t, func(g *group, now func() time.Time, _ func(time.Duration)) {
		a := g.join("a", one("work", func(p *policy.Type) { p.Retention.Done = 5 * time.Minute }), takes(0), "work")
		id := a.submit(engine.Request{Type: "work"})
		ended := a.end(id).UpdatedAt
		time.Sleep(ended.Add(5*time.Minute - time.Second).Sub(now()))
		a.expect(id, task.Done)
		time.Sleep(6 * time.Minute) // the cleaner may have looked just before
		if _, err := a.Get(context.Background(), id); err == nil {
			g.t.Error("a task is kept for longer than twice its retention")
		}
	})
}

// expirer is a store that removes ended tasks by itself. It has nothing to remove, and wants to be
// called again after five minutes.
type expirer struct {
	*memory.Store
	called chan time.Time
}

func (e expirer) Expire(_ context.Context, now time.Time) (int64, time.Time, error) {
	e.called <- now
	return 0, now.Add(5 * time.Minute), nil
}

func TestAStoreRemovesEndedTasksByTheSharedClock(t *testing.T) {
	off(t, func(g *group, now func() time.Time, _ func(time.Duration)) {
		called := make(chan time.Time, 100)
		g.wrap = func(s *memory.Store) storage.Store { return expirer{s, called} }
		g.join("a", one("work", nil), takes(0), "work")
		last := now().Add(-5 * time.Minute)
		for range 3 {
			at := <-called
			if !at.Equal(now()) || at.Sub(last) != 5*time.Minute {
				g.t.Errorf("a store hears that it is %v, %v after the call before, at %v", at, at.Sub(last), now())
			}
			last = at
		}
	})
}

func TestATaskOfADeadNodeIsRecoveredByTheSharedClock(t *testing.T) {
	off(t, func(g *group, now func() time.Time, _ func(time.Duration)) {
		release := make(chan struct{})
		set := one("work", func(p *policy.Type) { p.Delivery = policy.AtMostOnce })
		a := g.join("a", set, takes(0), "work")
		b := g.join("b", set, func(context.Context, *task.Task) ([]byte, error) {
			<-release // it ignores its context
			return nil, nil
		}, "work")
		defer close(release)
		begin := now()
		var id task.ID
		for i := 0; len(g.ran(id)) == 0 || g.ran(id)[0] != "b"; i++ {
			id = a.submit(engine.Request{Type: "work", OrderingKey: fmt.Sprint(i)})
			time.Sleep(2 * time.Second)
		}
		b.coord.Sever()
		got := a.end(id)
		if passed := got.UpdatedAt.Sub(begin); got.State != task.Error || passed < 0 || passed > 5*time.Minute {
			g.t.Errorf("it is %v after %v: %s", got.State, passed, got.LastError)
		}
	})
}

func TestATaskThatAStepOfTheSharedClockHasMadeDueStartsAtOnce(t *testing.T) {
	off(t, func(g *group, now func() time.Time, set func(time.Duration)) {
		began := make(chan time.Time, 1)
		a := g.join("a", one("work", nil), func(context.Context, *task.Task) ([]byte, error) {
			began <- now()
			return nil, nil
		}, "work")
		set(0)
		due := now().Add(time.Hour)
		a.submit(engine.Request{Type: "work", At: due})
		time.Sleep(time.Minute)
		set(-time.Hour)
		if by := (<-began).Sub(due); by < time.Minute || by > time.Minute+late {
			g.t.Errorf("it begins %v after its time, and the step was a minute beyond that", by)
		}
	})
}

func TestAWallClockThatIsOffIsLoggedOnceAndReported(t *testing.T) {
	off(t, func(g *group, _ func() time.Time, setTest func(time.Duration)) {
		apart := g.apart
		ahead, set := time.Duration(g.ahead.Load())+apart, func(d time.Duration) { setTest(d - apart) }
		var lines bytes.Buffer
		n := &node{t: g.t, store: g.store}
		n.config = engine.Config{Store: g.store, Coordinator: coord.Coordinator{Membership: g.first.Peer(), Clock: common{g.ahead, apart}}, Log: slog.New(slog.NewTextHandler(&lines, nil))}
		n.config.SetWall(func() time.Time { return time.Now().Add(apart) })
		n.open()
		offset := func() engine.ClockOffset {
			g.t.Helper()
			o, ok := n.ClockOffset()
			if !ok {
				g.t.Error("the offset is not known")
			}
			return o
		}
		if want := (engine.ClockOffset{Ahead: ahead, Within: within}); offset() != want || !offset().IsOff() {
			g.t.Errorf("it is off by %v, want %v", offset(), want)
		}
		const warning, good = "level=WARN msg=\"the clock of this machine is not that of the cluster", "level=INFO msg=\"the clock of this machine agrees"
		logged := func(warnings, goods int) {
			g.t.Helper()
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if text := lines.String(); strings.Count(text, warning) != warnings || strings.Count(text, good) != goods {
				g.t.Errorf("want %d warnings and %d that it is well again:\n%s", warnings, goods, text)
			}
		}
		logged(1, 0)
		set(time.Second + 2*within) // neither well nor worth another line
		logged(1, 0)
		set(within)
		logged(1, 1)
		if offset().IsOff() {
			g.t.Errorf("off by %v is reported", offset())
		}
		set(-time.Minute)
		logged(2, 1)
		n.close()
	})
}

func TestANodeAloneGoesByItsWallClock(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, one("work", nil), nil)
		if o, ok := n.ClockOffset(); ok || o != (engine.ClockOffset{}) {
			t.Errorf("its clock is off by %v", o)
		}
		if now := n.Now(); !now.Equal(time.Now()) {
			t.Errorf("its time is %v at %v", now, time.Now())
		}
	})
}

// unread is a clock that was not read yet.
type unread struct{}

func (unread) ClockAt(time.Time) (shared time.Time, within time.Duration, ok bool) { return }

func TestAClockThatWasNotReadIsRefused(t *testing.T) {
	_, err := engine.Open(t.Context(), engine.Config{Store: memory.New(), Coordinator: coord.Coordinator{Clock: unread{}}})
	if err == nil || !strings.Contains(err.Error(), "the Clock of Config.Coordinator") {
		t.Errorf("the engine opens with %v", err)
	}
}
