package guid_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/coord/guid"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/internal/logtest"
)

const lease = guid.DefaultLease

const settle = lease / 6

// soon is a little longer than it takes until a candidate leads that is alone.
const soon = settle + 100*time.Millisecond

// node is the elector of a node with a wire of its own.
type node struct {
	*guid.Elector
	wire *wire
}

func connect(t *testing.T, to *local.Node, o guid.Options) *node {
	t.Helper()
	w := &wire{messages: to.Peer()}
	o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	e, err := guid.New(w, o)
	if err != nil {
		t.Fatal(err)
	}
	return &node{e, w}
}

// backend makes nodes that send messages within a process, in simulated time. A severed node hears nothing for
// longer than its lease.
func backend(o guid.Options) coordtest.Backend[coord.Elector] {
	return coordtest.Backend[coord.Elector]{
		New: func(t *testing.T) func() coord.Elector {
			first := local.New()
			return func() coord.Elector { return connect(t, first, o) }
		},
		Sever:    func(_ *testing.T, n coord.Elector) { n.(*node).wire.cut(lease + settle) },
		Patience: 10 * time.Minute,
		Overlap:  lease, // a node that has just been connected again cannot know of a leader that is cut off now
		Bubble:   true,
	}
}

func TestTheSuiteHoldsForNodesThatMustHearThemselves(t *testing.T) {
	coordtest.RunElector(t, backend(guid.Options{MustHear: true}))
}

// By default a node that is severed leads, which TestAnIsolatedNodeLeadsUnlessItMustHearItself shows. So the rest of the
// suite, which demands the opposite, does not hold.
func TestThePartOfTheSuiteWithoutSeveredNodesHoldsByDefault(t *testing.T) {
	b := backend(guid.Options{})
	b.Sever, b.Overlap = nil, 0
	coordtest.RunTurns(t, b)
}

// reign is a leadership: it begins and ends.
type reign struct {
	ctx context.Context
	end chan struct{} // closed by the test: fn returns
}

// campaign has a node stand for a role until the test ends. Reigns are sent when they begin. fn returns when the test
// says so, and not before, even if its context ends.
func campaign(t *testing.T, n *node, role string) <-chan reign {
	reigns := make(chan reign, 100)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		err := n.Lead(ctx, role, func(c context.Context) error {
			r := reign{c, make(chan struct{})}
			reigns <- r
			select {
			case <-r.end:
			case <-ctx.Done():
			}
			return nil
		})
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Lead returned %v", err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return reigns
}

// begins returns the reign that begins within a time.
func begins(t *testing.T, reigns <-chan reign, within time.Duration) reign {
	t.Helper()
	select {
	case r := <-reigns:
		return r
	case <-time.After(within):
		t.Fatalf("it does not lead within %v", within)
		panic("unreachable")
	}
}

// none fails if a reign begins within a time.
func none(t *testing.T, reigns <-chan reign, within time.Duration) {
	t.Helper()
	select {
	case <-reigns:
		t.Fatal("it leads")
	case <-time.After(within):
	}
}

// E1, E5 of a shell
func TestAnIsolatedNodeLeadsUnlessItMustHearItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := local.New()
		old, young := connect(t, first, guid.Options{}), connect(t, first, guid.Options{})
		r := begins(t, campaign(t, old, "role"), soon)
		other := campaign(t, young, "role")
		none(t, other, time.Minute)
		old.wire.cut(time.Hour)
		whole := time.Now().Add(time.Hour)
		s := begins(t, other, lease+soon)
		time.Sleep(time.Until(whole) - time.Second)
		if r.ctx.Err() != nil || s.ctx.Err() != nil {
			t.Error("a node does not lead on its side of the cut")
		}
		time.Sleep(2 * time.Second)
		if r.ctx.Err() != nil || s.ctx.Err() == nil {
			t.Error("the younger one leads afterwards")
		}
		if why := context.Cause(s.ctx); why == nil || !strings.Contains(why.Error(), "older candidate") {
			t.Errorf("it gave up because of %v", why)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		n := connect(t, local.New(), guid.Options{MustHear: true})
		n.wire.cut(time.Hour)
		reigns := campaign(t, n, "role")
		none(t, reigns, time.Hour-time.Second)
		r := begins(t, reigns, time.Second+soon)
		n.wire.cut(time.Hour)
		select {
		case <-r.ctx.Done():
		case <-time.After(lease):
			t.Error("an isolated node goes on to lead")
		}
	})
}

func TestALeaderThatIsIsolatedSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Buffer
		w := &wire{messages: local.New()}
		e, err := guid.New(w, guid.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		reigns := campaign(t, &node{e, w}, "role")
		begins(t, reigns, soon)
		time.Sleep(10 * lease)
		if got := log.String(); got != "" {
			t.Errorf("logged: %s", got)
		}
		w.cut(time.Hour)
		time.Sleep(time.Hour + lease)
		if got := log.String(); strings.Count(got, "not even this node's own") != 1 || strings.Count(got, "arrive again") != 1 {
			t.Errorf("logged: %s", got)
		}
	})
}

// E4
func TestANodeThatResignsIsFollowedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := local.New()
		a := campaign(t, connect(t, first, guid.Options{}), "role")
		r := begins(t, a, soon)
		b := campaign(t, connect(t, first, guid.Options{}), "role")
		none(t, b, time.Minute)
		close(r.end)
		begins(t, b, soon)
	})
}

// E8
func TestWorkThatBlocksDelaysNoMessagesAndIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := local.New()
		busy := connect(t, first, guid.Options{MustHear: true})
		reigns := campaign(t, busy, "role")
		r := begins(t, reigns, soon)
		other := campaign(t, connect(t, first, guid.Options{MustHear: true}), "role")
		before := busy.wire.count()
		none(t, other, 10*lease) // its function has not returned in this time
		if n := busy.wire.count() - before; n < 4*9 {
			t.Errorf("a leader sent %d messages in ten leases", n)
		}
		busy.wire.cut(3 * lease)
		s := begins(t, other, lease+soon)
		if r.ctx.Err() == nil {
			t.Error("the work is not cancelled before another one leads")
		}
		none(t, reigns, time.Minute) // while the function does not return, it is no candidate
		close(r.end)
		none(t, reigns, time.Minute)
		close(s.end)
		begins(t, reigns, soon)
	})
}

// E13
func TestRolesAreElectedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := local.New()
		a, b := connect(t, first, guid.Options{}), connect(t, first, guid.Options{})
		timers := begins(t, campaign(t, a, "timers"), soon)
		healer := begins(t, campaign(t, b, "healer"), soon)
		waits := campaign(t, a, "healer")
		campaign(t, b, "timers")
		none(t, waits, time.Minute)
		close(healer.end)
		begins(t, waits, soon)
		if timers.ctx.Err() != nil {
			t.Error("another role has ended this one")
		}
	})
}

func TestTheEndOfMessagesEndsALeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := local.New()
		e, err := guid.New(bus, guid.Options{})
		if err != nil {
			t.Fatal(err)
		}
		result := make(chan error, 1)
		begun := make(chan struct{})
		go func() {
			result <- e.Lead(t.Context(), "role", func(ctx context.Context) error {
				close(begun)
				<-ctx.Done()
				return nil
			})
		}()
		<-begun
		_ = bus.Close()
		if err := <-result; !errors.Is(err, coord.ErrClosed) {
			t.Errorf("Lead returned %v, want %v", err, coord.ErrClosed)
		}
		if err := e.Lead(t.Context(), "role", nil); !errors.Is(err, coord.ErrClosed) {
			t.Errorf("Lead returned %v, want %v", err, coord.ErrClosed)
		}
	})
}

func TestMessagesThatAreNotUnderstoodChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := local.New()
		reigns := campaign(t, connect(t, first, guid.Options{}), "role")
		for _, garbage := range []string{"", "x", strings.Repeat("\x00", 100)} {
			if err := first.Send("guid/role", []byte(garbage)); err != nil {
				t.Fatal(err)
			}
		}
		begins(t, reigns, soon)
	})
}

func TestBadOptionsAreRefused(t *testing.T) {
	for _, l := range []time.Duration{-1, time.Millisecond, 2 * time.Hour} {
		if _, err := guid.New(local.New(), guid.Options{Lease: l}); err == nil {
			t.Errorf("a lease of %v was taken", l)
		}
	}
	e, err := guid.New(local.New(), guid.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Lead(t.Context(), strings.Repeat("x", coord.MaxMessage), nil); err == nil {
		t.Error("a role that does not fit into a message was taken")
	}
}
