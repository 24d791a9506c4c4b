package workers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/plugins/handler"
)

// ledger takes answers to attempts of a node before.
type ledger struct {
	mu   sync.Mutex
	ends []EarlierEnd // guarded by mu
	fail error        // that end returns
}

func (l *ledger) end(_ context.Context, ends []EarlierEnd) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends = append(l.ends, ends...)
	return len(ends), l.fail
}

// all returns the answers so far, sorted, in words.
func (l *ledger) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, e := range l.ends {
		out = append(out, fmt.Sprintf("%s: %s, %v", e.Type, e.Result, e.Err))
	}
	slices.Sort(out)
	return out
}

func TestAnswersOutliveTheNode(t *testing.T) {
	for _, c := range []struct {
		name      string
		reconnect time.Duration
	}{
		{"that comes back before the session is over", time.Hour},
		{"that comes back later", 500 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf := Config{Reconnect: c.reconnect, Liveness: time.Hour}
			n := serve(t, conf)
			w, address := network(t, n)
			leave := join(t, handler.Connection{}, address)
			n.up(t, 1)
			answered, _ := n.begin(t, t.Context(), "until")
			running, _ := n.begin(t, t.Context(), "until")
			w.Stall()
			answered.put(t, "go")
			answered.await(t, "ended")
			w.Cut()
			n.kill()
			if c.reconnect < time.Minute {
				running.await(t, "ended") // its session is over
			}
			var l ledger
			next := serveAt(t, n.address, l.end, conf)
			t.Cleanup(leave) // before the node ends
			w.Heal()
			next.up(t, 1)
			eventually(t, "the answer comes", func() bool { return len(l.all()) > 0 })
			running.await(t, "ended")
			if got, err := next.Handle(t.Context(), newTask("upper", "a")); string(got) != "A" || err != nil {
				t.Errorf("the next task ended with %q, %v", got, err)
			}
			if got, want := l.all(), []string{"until: done, <nil>"}; !slices.Equal(got, want) {
				t.Errorf("the answers are %q, want %q", got, want)
			}
		})
	}
}

func TestAnswersOfEarlierSessionsThatWereReceivedAreNotSentAgain(t *testing.T) {
	conf := Config{Reconnect: time.Hour, Liveness: 2 * time.Second} // so that it hears soon that they were received
	n := serve(t, conf)
	w, address := network(t, n)
	leave := join(t, handler.Connection{}, address)
	n.up(t, 1)
	dir, _ := n.begin(t, t.Context(), "until")
	n.kill()
	dir.put(t, "go")
	dir.await(t, "ended")
	l := ledger{fail: errors.New("the store does not answer")}
	next := serveAt(t, n.address, l.end, conf)
	t.Cleanup(leave) // before the node ends
	next.up(t, 1)
	eventually(t, "the answer comes", func() bool { return len(l.all()) == 1 })
	eventually(t, "the worker hears of it", func() bool {
		next.mu.Lock()
		defer next.mu.Unlock()
		all := next.dispatch.Sessions()
		return len(all) > 0 && all[0].Owner.answered == 1
	})
	w.Cut()
	next.up(t, 0)
	w.Heal()
	next.up(t, 1)
	if got, err := next.Handle(t.Context(), newTask("upper", "a")); string(got) != "A" || err != nil {
		t.Errorf("the next task ended with %q, %v", got, err)
	}
	if got := l.all(); len(got) != 1 {
		t.Errorf("the answers are %q", got)
	}
}

func TestAnswersOfOtherTypesThanThoseOfTheHandlerDoNotCount(t *testing.T) {
	n := serve(t, Config{Liveness: time.Hour})
	leave := join(t, handler.Connection{}, n.address)
	n.up(t, 1)
	dir, _ := n.begin(t, t.Context(), "until")
	n.kill()
	dir.put(t, "go")
	dir.await(t, "ended")
	var l ledger
	next := serveAt(t, n.address, l.end, Config{Types: []string{"upper"}})
	t.Cleanup(leave) // before the node ends
	next.up(t, 1)
	if got, err := next.Handle(t.Context(), newTask("upper", "a")); string(got) != "A" || err != nil {
		t.Errorf("the next task ended with %q, %v", got, err)
	}
	if got := l.all(); len(got) != 0 {
		t.Errorf("the answers are %q", got)
	}
}
