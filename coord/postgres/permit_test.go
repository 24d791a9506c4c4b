//go:build unix

package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/task"
)

// permits is one call of Hold, which lasts until the test ends.
type permits struct {
	node   *node
	id     task.ID
	lives  <-chan struct{} // closed by the first call of fn
	result <-chan error    // the result of Hold
	end    context.CancelFunc

	mu      sync.Mutex
	number  uint64                   // guarded by mu: of the latest order
	ordered map[string]uint64        // guarded by mu: the number of the latest order of a limit
	newest  map[string]coord.Holding // guarded by mu: the newest holding of a limit
	calls   int                      // guarded by mu: of fn
}

// hold starts a holder, and waits until it lives.
func hold(t *testing.T, n *node) *permits {
	t.Helper()
	p := holdLater(t, n)
	receive(t, "the first call of fn", p.lives)
	return p
}

func holdLater(t *testing.T, n *node) *permits {
	lives, result, done := make(chan struct{}), make(chan error, 1), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	p := &permits{node: n, lives: lives, result: result, end: cancel, ordered: map[string]uint64{}, newest: map[string]coord.Holding{}}
	_, _ = rand.Read(p.id[:])
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		result <- n.Hold(ctx, p.id, func(news []coord.Holding) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.calls++; p.calls == 1 {
				close(lives)
			}
			for _, h := range news {
				p.newest[h.Name] = h
			}
		})
	}()
	return p
}

// order orders permits of a limit.
func (p *permits) order(name string, want, most int) {
	p.mu.Lock()
	p.number++
	p.ordered[name] = p.number
	o := coord.Order{Name: name, Number: p.number, Want: want, Max: most}
	p.mu.Unlock()
	p.node.Order(p.id, o)
}

// gets waits until the latest order is answered, and a number of permits is held.
func (p *permits) gets(t *testing.T, name string, held int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d permits of %s", held, name), func() bool { return p.has(name, held) })
}

// has reports whether the latest order is answered, and a number of permits is held.
func (p *permits) has(name string, held int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.newest[name]
	return h.Number > 0 && h.Number == p.ordered[name] && h.Held == held
}

// orders calls coord_orders by hand.
const orders = "SELECT taskengine.coord_orders($1::text::jsonb)::text"

// ordering returns a request with an order of a holder, which has the id of its session.
func ordering(session task.ID, number, want, most int) string {
	return fmt.Sprintf(`{"session": %q, "number": %d, "known": 0, "all": false, "names": 1000, "orders": [{"i": 0, "holder": %[1]q, "name": "limit",
		"keep": %[3]d, "wanted": %[3]d, "at_least": 1, "most": %[4]d, "version": 0}]}`, session, number, want, most)
}

// open opens a session by hand, which lasts longer than the test.
func open(t *testing.T, url string, session task.ID) {
	t.Helper()
	if !ask[bool](t, url, beat, session.String(), 1, 3_600_000, true, []string{}) {
		t.Fatal("a session does not begin")
	}
}

// heldOf returns how many permits of the limit a holder has in the database.
func heldOf(t *testing.T, url string, holder task.ID) int {
	t.Helper()
	return ask[int](t, url, "SELECT coalesce(sum(held), 0)::bigint FROM taskengine.permit WHERE holder = $1::text::uuid", holder.String())
}

func TestALateOrderGetsNothing(t *testing.T) {
	url, me := database(t), task.ID{1}
	open(t, url, me)
	const alive = "SELECT (taskengine.coord_orders($1::text::jsonb)->>'alive')::bool"
	for _, c := range []struct {
		number, want int
		alive        bool
	}{{2, 0, true}, {1, 1, false}, {2, 1, false}, {3, 1, true}, {2, 0, false}} {
		if got := ask[bool](t, url, alive, ordering(me, c.number, c.want, 1)); got != c.alive {
			t.Errorf("request %d was answered: %v", c.number, got)
		}
	}
	if n := heldOf(t, url, me); n != 1 {
		t.Errorf("%d permits are held after an order for 1", n)
	}
	if ask[bool](t, url, alive, ordering(task.ID{2}, 1, 1, 2)) {
		t.Error("an order without a session was taken")
	}
}

// Two sessions give back one permit each while a third waits for both: the second one sees the free
// permit only after the commit of the first.
func TestPermitsGivenBackAtOnceAreSeenByEachOther(t *testing.T) {
	url := database(t)
	for n, want := range []int{1, 1, 2} {
		open(t, url, task.ID{byte(n + 1)})
		ask[string](t, url, orders, strings.Replace(ordering(task.ID{byte(n + 1)}, 1, want, 2), `"at_least": 1`, fmt.Sprintf(`"at_least": %d`, want), 1))
	}
	commit := begin(t, url, ordering(task.ID{1}, 2, 0, 2))
	second := make(chan struct{})
	go func() {
		defer close(second)
		ask[string](t, url, orders, ordering(task.ID{2}, 2, 0, 2))
	}()
	eventually(t, "the second one to wait, or to end", func() bool {
		select {
		case <-second:
			return true
		default:
			return isLocked(t, url)
		}
	})
	commit()
	receive(t, "the second one to end", second)
	if n := heldOf(t, url, task.ID{3}); n != 2 {
		t.Errorf("both permits were given back, and the one that waits has %d", n)
	}
}

// begin makes a request in a transaction that commit commits.
func begin(t *testing.T, url, request string) (commit func()) {
	t.Helper()
	conn := pgtest.Connect(t, url)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), orders, request); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// isLocked reports whether a statement waits for a lock.
func isLocked(t *testing.T, url string) bool {
	t.Helper()
	return ask[bool](t, url, `SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
}

// The connection is cut while the database carries out an order, and the node does not know the outcome.
func TestAnOrderWithAnUnknownOutcomeIsMadeAgain(t *testing.T) {
	for _, done := range []bool{true, false} {
		t.Run(fmt.Sprint("done ", done), func(t *testing.T) {
			url := database(t)
			h := hold(t, connect(t, url, setup{Options: postgres.Options{Lease: time.Minute}})) // requests do not time out
			h.order("limit", 3, 3)
			h.gets(t, "limit", 3)
			conn := pgtest.Connect(t, url)
			tx, err := conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			pgtest.Exec(t, conn, "SELECT FROM taskengine.semaphore FOR UPDATE")
			h.order("limit", 1, 3)
			h.order("another", 1, 1)
			eventually(t, "the order to wait", func() bool { return isLocked(t, url) })
			if done {
				execute(t, url, "UPDATE taskengine.ordering SET orders = orders + 1") // as if it had come to its end
			}
			execute(t, url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			h.gets(t, "limit", 1)
			h.gets(t, "another", 1)
			if n := heldOf(t, url, h.id); n != 2 {
				t.Errorf("the database has %d permits of a holder that has 2", n)
			}
		})
	}
}

// A replica that became the primary lacks the last commits: here a grant, and that it was answered.
func TestAHolderOfPermitsThatTheDatabaseHasForgottenIsLost(t *testing.T) {
	url := database(t)
	n := connect(t, url, setup{Options: postgres.Options{Lease: patientLease}})
	h := hold(t, n)
	h.order("limit", 1, 1)
	h.gets(t, "limit", 1)
	execute(t, url, "DELETE FROM taskengine.permit; DELETE FROM taskengine.semaphore; UPDATE taskengine.ordering SET orders = orders - 1")
	if err := receive(t, "Hold to return", h.result); !errors.Is(err, postgres.ErrLeaseOver) {
		t.Errorf("Hold returned %v", err)
	}
	again := hold(t, n)
	again.order("limit", 1, 1)
	again.gets(t, "limit", 1)
}

func TestOnlyTheSessionsConcernedGetNewsOfPermits(t *testing.T) {
	url := database(t)
	var sent statements
	long := postgres.Options{Lease: time.Minute} // a node sends orders again when it has lost its lease
	a, b := hold(t, connect(t, url, setup{Options: long})), hold(t, connect(t, url, setup{Options: long}))
	n := connect(t, url, setup{tracer: &sent, Options: long})
	other := hold(t, n)
	other.order("another", 1, 1)
	other.gets(t, "another", 1)
	eventually(t, "nodes that listen", func() bool { return n.Listening() && a.node.Listening() && b.node.Listening() })
	other.order("another", 2, 1)
	other.gets(t, "another", 1)
	sent.forget()
	for range 20 {
		a.order("limit", 1, 1)
		a.gets(t, "limit", 1)
		b.order("limit", 1, 1)
		b.gets(t, "limit", 0)
		a.order("limit", 0, 1)
		b.gets(t, "limit", 1)
		b.order("limit", 0, 1)
		b.gets(t, "limit", 0)
	}
	if asked := sent.with("coord_orders"); len(asked) > 0 {
		t.Errorf("a node sent %d statements for limits that it does not use", len(asked))
	}
}

func TestManyOrdersShareAStatement(t *testing.T) {
	const many = 3000
	url := database(t)
	var sent statements
	n := connect(t, url, setup{tracer: &sent, Options: postgres.Options{Lease: time.Minute}}) // requests do not time out
	h := hold(t, n)
	var all []coord.Order
	for i := range many {
		all = append(all, coord.Order{Name: fmt.Sprint("limit ", i), Number: 1, Want: 1, Max: 1})
	}
	h.ordered[all[many-1].Name] = 1
	n.Order(h.id, all...)
	h.gets(t, all[many-1].Name, 1)
	if asked := sent.with("coord_orders"); len(asked) > many/50 { // slow requests are followed by smaller ones
		t.Errorf("%d orders took %d statements", many, len(asked))
	}
}

func TestAHeartbeatFreesThePermitsOfTheDead(t *testing.T) {
	url := database(t)
	h := hold(t, connect(t, url, setup{Options: postgres.Options{Lease: time.Minute}}))
	dead := task.ID{1}
	open(t, url, dead)
	ask[string](t, url, orders, ordering(dead, 1, 1, 1))
	h.order("limit", 1, 1)
	h.gets(t, "limit", 0)
	ask[string](t, url, "UPDATE taskengine.session SET expires_at = clock_timestamp() WHERE id = $1::text::uuid RETURNING id::text", dead.String())
	open(t, url, task.ID{2})
	h.gets(t, "limit", 1)
}

// The limit only gets higher, so at any moment no more may be held than it has.
func TestTheDatabaseNeverGrantsMoreThanThereAre(t *testing.T) {
	url := database(t)
	var most atomic.Int64
	most.Store(1)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 4 {
		h := hold(t, connect(t, url, setup{Options: postgres.Options{Lease: time.Minute}})) // a holder that is lost gets no answers
		random := mathrand.New(mathrand.NewPCG(uint64(i), 0))
		wg.Go(func() {
			for number := uint64(1); ; number++ {
				select {
				case <-stop:
					return
				default:
				}
				if random.IntN(20) == 0 {
					most.Add(1)
				}
				limit := most.Load()
				want := random.IntN(6)
				h.node.Order(h.id, coord.Order{Name: "limit", Number: number, Want: want, Least: random.IntN(want + 1), Max: int(limit), Version: uint64(limit)})
				h.mu.Lock()
				h.ordered["limit"] = number
				h.mu.Unlock()
				if random.IntN(3) == 0 {
					eventually(t, "an answer", func() bool {
						h.mu.Lock()
						defer h.mu.Unlock()
						return h.newest["limit"].Number == number
					})
				}
			}
		})
	}
	conn := pgtest.Connect(t, url)
	for granted := 0; granted < 200; {
		var held, limit int
		err := conn.QueryRow(t.Context(), `SELECT coalesce(sum(p.held), 0)::bigint, coalesce(max(s.most), 0)::bigint
			FROM taskengine.permit p JOIN taskengine.semaphore s ON s.name = p.name`).Scan(&held, &limit)
		if err != nil {
			t.Fatal(err)
		}
		if held > limit {
			t.Errorf("%d permits are held, and the limit is %d", held, limit)
		}
		if held > 0 {
			granted++
		}
	}
	close(stop)
	wg.Wait()
}

func TestRatesThatAreFullAreRemoved(t *testing.T) {
	url := database(t)
	n := connect(t, url, setup{})
	draw := func() {
		t.Helper()
		drawn, err := n.Draw(t.Context(), coord.Draw{Name: "full", Interval: 1, Burst: 1, Tokens: 1},
			coord.Draw{Name: "used", Interval: time.Hour, Burst: 1, Tokens: 1})
		if err != nil || drawn[0].Tokens != 1 {
			t.Fatalf("Draw returned %v, %v", drawn, err)
		}
	}
	draw()
	n.SweepSoon()
	draw()
	if left := ask[string](t, url, "SELECT string_agg(name, ',') FROM taskengine.rate"); left != "used" {
		t.Errorf("there are still the rates %s", left)
	}
	draw()
}

// The test moves the bucket instead of setting the clock back.
func TestAClockThatIsSetBackDoesNotCloseARate(t *testing.T) {
	url := database(t)
	n := connect(t, url, setup{})
	d := coord.Draw{Name: "rate", Interval: time.Millisecond, Burst: 2, Tokens: 2}
	if drawn, err := n.Draw(t.Context(), d); err != nil || drawn[0].Tokens != 2 {
		t.Fatalf("Draw returned %v, %v", drawn, err)
	}
	execute(t, url, "UPDATE taskengine.rate SET due = due + 3600000000000, at = at + 3600000000000")
	eventually(t, "tokens", func() bool {
		drawn, err := n.Draw(t.Context(), d)
		return err == nil && drawn[0].Tokens > 0
	})
}

// A node gives its permits up some time before the end of its lease, so that its tasks can stop. They stay
// its own until that end, also if the node can use the database again at once.
func TestPermitsThatANodeHasGivenUpAreFreeOnlyAtTheEndOfItsLease(t *testing.T) {
	url := database(t)
	patient := setup{Options: postgres.Options{Lease: patientLease}}
	n := connect(t, url, patient)
	a, b := hold(t, n), hold(t, connect(t, url, patient))
	a.order("limit", 1, 1)
	a.gets(t, "limit", 1)
	b.order("limit", 1, 1)
	b.gets(t, "limit", 0)
	n.wire.Stall()
	lease := ask[time.Time](t, url, "SELECT expires_at FROM taskengine.session s JOIN taskengine.permit p ON p.session = s.id WHERE p.held > 0")
	if err := receive(t, "Hold to return", a.result); !errors.Is(err, postgres.ErrLeaseOver) {
		t.Errorf("Hold returned %v", err)
	}
	n.wire.Resume()
	b.gets(t, "limit", 1)
	granted := ask[time.Time](t, url, "SELECT since FROM taskengine.permit WHERE held > 0")
	if granted.Before(lease) {
		t.Errorf("the permit was granted to another %v before the end of the lease", lease.Sub(granted))
	}
}
