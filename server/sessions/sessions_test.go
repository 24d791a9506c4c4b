package sessions_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/internal/logtest"
	"github.com/taskengine/taskengine/server/sessions"
)

// cluster is the settings of nodes. They cannot be read while away is true.
type cluster struct {
	*testing.T
	coord.Config
	away  atomic.Bool
	swaps atomic.Int64
	log   *logtest.Buffer
}

func newCluster(t *testing.T) *cluster {
	return &cluster{T: t, Config: local.New(), log: new(logtest.Buffer)}
}

func (c *cluster) Settings(ctx context.Context, name string) ([]coord.Setting, error) {
	if c.away.Load() {
		return nil, errors.New("no answer")
	}
	return c.Config.Settings(ctx, name)
}

func (c *cluster) Swap(ctx context.Context, name, scope string, version uint64, value []byte) (coord.Setting, bool, error) {
	c.swaps.Add(1)
	return c.Config.Swap(ctx, name, scope, version, value)
}

const session = 8 * time.Hour

// node returns what a node knows. It follows the settings until the test ends.
func (c *cluster) node() *sessions.Ended {
	c.Helper()
	e, err := sessions.Open(c.Context(), sessions.Config{Settings: c, Session: session, Now: time.Now, Log: slog.New(slog.NewTextHandler(c.log, nil))})
	if err != nil {
		c.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { e.Watch(ctx) })
	c.Cleanup(func() { stop(); all.Wait() })
	return e
}

// begun returns a session that begins now, by a provider with a clock of its own.
func begun(person, id string) *access.Session {
	return &access.Session{Person: person + "@example.com", Subject: person, ID: id, Issued: providerTime(), Begun: time.Now()}
}

// providerTime is the clock of the provider, which is late.
func providerTime() time.Time { return time.Now().Add(-3 * time.Minute) }

func has(t *testing.T, e *sessions.Ended, s *access.Session) bool {
	t.Helper()
	is, err := e.Has(s)
	if err != nil {
		t.Error(err)
	}
	return is
}

func end(t *testing.T, e *sessions.Ended, what access.Ending, order string) {
	t.Helper()
	if err := e.End(t.Context(), what, order, "test"); err != nil {
		t.Error(err)
	}
}

func TestASessionEndsOnEveryNodeThatSharesTheSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		a, b := c.node(), c.node()
		one, two, none, other := begun("ann", "1"), begun("ann", "2"), begun("ann", ""), begun("bob", "3")
		end(t, a, access.Ending{Session: "1", Subject: "ann", Before: providerTime()}, "x")
		time.Sleep(time.Second)
		synctest.Wait()
		late := c.node()
		for i, e := range []*sessions.Ended{a, b, late} {
			if !has(t, e, one) || has(t, e, two) || !has(t, e, none) || has(t, e, other) {
				t.Errorf("node %d: the sessions have ended: %v %v %v %v", i, has(t, e, one), has(t, e, two), has(t, e, none), has(t, e, other))
			}
		}
		again := begun("ann", "")
		if has(t, a, again) {
			t.Error("a session that began later has ended")
		}
		end(t, b, access.Ending{Subject: "ann", Before: providerTime()}, "y")
		if !has(t, b, two) || !has(t, b, again) || has(t, b, other) {
			t.Errorf("all sessions of a person: %v %v %v", has(t, b, two), has(t, b, again), has(t, b, other))
		}
	})
}

func TestSessionsEndByTheNameOfThePersonByTheClockOfTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newCluster(t).node()
		before, other := begun("ann", "1"), begun("bob", "1")
		time.Sleep(time.Second)
		end(t, e, access.Ending{Person: "ann@example.com", Before: time.Now()}, "")
		time.Sleep(time.Second)
		if !has(t, e, before) || has(t, e, other) || has(t, e, begun("ann", "2")) {
			t.Errorf("the sessions have ended: %v %v %v", has(t, e, before), has(t, e, other), has(t, e, begun("ann", "2")))
		}
	})
}

// An order that is given again is refused by its identifier. If that is not known any more, it changes nothing.
func TestAnOrderThatIsGivenAgainEndsNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		e := c.node()
		order := access.Ending{Subject: "ann", Before: providerTime()}
		end(t, e, order, "x")
		time.Sleep(time.Second)
		s := begun("ann", "")
		if err := e.End(t.Context(), order, "x", ""); !errors.Is(err, sessions.ErrKnown) {
			t.Errorf("the same order: %v", err)
		}
		swaps := c.swaps.Load()
		end(t, e, order, "y")
		if c.swaps.Load() != swaps || has(t, e, s) {
			t.Errorf("another order for the same: %d writes, the session has ended: %v", c.swaps.Load()-swaps, has(t, e, s))
		}
	})
}

func TestARecordIsKeptUntilTheSessionIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		e := c.node()
		s := begun("ann", "1")
		end(t, e, access.Ending{Session: "1", Before: providerTime()}, "x")
		time.Sleep(session)
		end(t, e, access.Ending{Session: "2", Before: providerTime()}, "y")
		if !has(t, e, s) {
			t.Error("the session has not ended")
		}
		time.Sleep(time.Hour)
		end(t, e, access.Ending{Session: "3", Before: providerTime()}, "z")
		all, err := c.Settings(t.Context(), coord.EndedSetting)
		if err != nil || strings.Contains(string(all[0].Value), `"1"`) || !strings.Contains(string(all[0].Value), `"2"`) {
			t.Errorf("the records are %s, %v", all[0].Value, err)
		}
	})
}

// Whatever is ended has ended, also if there are more records than there is room for.
func TestTheSettingStaysSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		e := c.node()
		size := func() int {
			t.Helper()
			all, err := c.Settings(t.Context(), coord.EndedSetting)
			if err != nil {
				t.Fatal(err)
			}
			return len(all[0].Value)
		}
		var ended []*access.Session
		for i := range 100 {
			s := begun("ann", fmt.Sprint(i))
			ended = append(ended, s)
			end(t, e, access.Ending{Session: s.ID, Subject: "ann", Before: providerTime()}, fmt.Sprint("order", i))
		}
		if size() > 10_000 {
			t.Errorf("100 sessions of a person have %d bytes", size())
		}
		time.Sleep(time.Second)
		fresh := begun("ann", "fresh")
		for _, s := range ended {
			if !has(t, e, s) {
				t.Errorf("the session %s has not ended", s.ID)
			}
		}
		if has(t, e, fresh) {
			t.Error("a session of the same person that began later has ended")
		}
		long := strings.Repeat("s", 60_000)
		for i := range 10 {
			s := begun(fmt.Sprint("person", i), fmt.Sprint(long, i))
			ended = append(ended, s)
			end(t, e, access.Ending{Session: s.ID, Subject: s.Subject, Before: providerTime()}, fmt.Sprint("long", i))
		}
		if size() > 512<<10 || !strings.Contains(c.log.String(), "all have ended") {
			t.Errorf("long records have %d bytes; the log says %s", size(), c.log)
		}
		for _, s := range append(ended, fresh) {
			if !has(t, e, s) {
				t.Errorf("the session %.20s has not ended", s.ID)
			}
		}
		time.Sleep(time.Second)
		if has(t, e, begun("bob", "later")) {
			t.Error("a session that began later has ended")
		}
	})
}

func TestANodeThatCannotReadTheRecordsAcceptsNoSessionInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		e := c.node()
		s := begun("ann", "1")
		c.away.Store(true)
		time.Sleep(4 * time.Minute)
		if has(t, e, s) || !strings.Contains(c.log.String(), "the ended sessions of the cluster cannot be read: changes") {
			t.Errorf("the session has ended, or the log says nothing: %s", c.log)
		}
		if err := e.End(t.Context(), access.Ending{Session: "1"}, "x", ""); !errors.Is(err, sessions.ErrUnavailable) {
			t.Errorf("an order: %v", err)
		}
		time.Sleep(2 * time.Minute)
		if _, err := e.Has(s); err == nil || !strings.Contains(err.Error(), "has not been able to read") {
			t.Errorf("in the end: %v", err)
		}
		c.away.Store(false)
		time.Sleep(2 * time.Second)
		if has(t, e, s) {
			t.Error("the session has ended")
		}
	})
}

// A field that this version does not know may end more sessions.
func TestRecordsThatThisVersionDoesNotUnderstandAreNotAccepted(t *testing.T) {
	for _, value := range []string{"", "{", `{"ended":[]} {}`, `{"ended":[{"address":"10.0.0.1","before":"2026-01-01T00:00:00Z","until":"2026-01-01T00:00:00Z"}]}`} {
		c := newCluster(t)
		if _, swapped, err := c.Swap(t.Context(), coord.EndedSetting, "", 0, []byte(value)); err != nil || !swapped {
			t.Fatal(err)
		}
		if _, err := sessions.Open(t.Context(), sessions.Config{Settings: c}); err == nil || !strings.Contains(err.Error(), "the ended sessions of the cluster are damaged") {
			t.Errorf("with %s a node opens: %v", value, err)
		}
	}
}
