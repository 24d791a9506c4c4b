package cells_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/cells"
	"github.com/taskengine/taskengine/task"
)

// holding holds permits of one limit, and counts them.
func holding(t *testing.T, n *cells.Node, id task.ID) (held *atomic.Int64) {
	held = new(atomic.Int64)
	go func() {
		_ = n.Hold(t.Context(), id, func(news []coord.Holding) {
			for _, h := range news {
				held.Store(int64(h.Held))
			}
		})
	}()
	synctest.Wait()
	return held
}

func want(n *cells.Node, id task.ID, number uint64, want int) {
	n.Order(id, coord.Order{Name: "limit", Number: number, Want: want, Max: 2})
}

// A request of which nothing is known takes effect after the order was changed. Its permits are given back.
func TestPermitsOfALateRequestAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		c := m.connect(nil)
		a, b := node(t, c), node(t, m.connect(nil))
		holding(t, a, task.ID{1})
		other := holding(t, b, task.ID{2})
		c.mu.Lock()
		c.late = 100 * time.Millisecond
		c.mu.Unlock()
		want(a, task.ID{1}, 1, 2)
		synctest.Wait()
		want(a, task.ID{1}, 2, 0)
		time.Sleep(90 * time.Millisecond)
		synctest.Wait()
		if list, err := a.Holders(t.Context(), "limit"); err != nil || len(list) > 0 {
			t.Errorf("before the late request the holders are %v, %v", list, err)
		}
		time.Sleep(30 * time.Millisecond)
		want(b, task.ID{2}, 1, 2)
		time.Sleep(time.Minute)
		if other.Load() != 2 {
			t.Errorf("another holder has %d permits", other.Load())
		}
	})
}

// A member leaves while it is not known whether it has joined.
func TestAMemberLeavesThatHadNoAnswerToItsJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		c := m.connect(nil)
		a, b := node(t, c), node(t, m.connect(nil))
		var members atomic.Int64
		go func() {
			_ = b.Join(t.Context(), coord.Member{Incarnation: task.ID{2}}, func(all []coord.Member) { members.Store(int64(len(all))) })
		}()
		holding(t, a, task.ID{9}) // opens a session
		c.mu.Lock()
		c.lost = true
		c.mu.Unlock()
		ctx, leave := context.WithCancel(t.Context())
		joined := make(chan error)
		go func() { joined <- a.Join(ctx, coord.Member{Incarnation: task.ID{1}}, func([]coord.Member) {}) }()
		synctest.Wait()
		leave()
		if err := <-joined; err != nil {
			t.Errorf("Join returned %v", err)
		}
		time.Sleep(lease / 2) // shorter than the lease, which would remove it, too
		if members.Load() != 1 {
			t.Errorf("there are %d members", members.Load())
		}
	})
}

// The request that makes the cell of a member takes effect after the member has left.
func TestAMemberLeavesWithAJoinThatIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		c := m.connect(nil)
		a, b := node(t, c), node(t, m.connect(nil))
		holding(t, a, task.ID{9}) // opens a session
		var members atomic.Int64
		go func() {
			_ = b.Join(t.Context(), coord.Member{Incarnation: task.ID{2}}, func(all []coord.Member) { members.Store(int64(len(all))) })
		}()
		synctest.Wait()
		c.mu.Lock()
		c.late = 100 * time.Millisecond
		c.mu.Unlock()
		ctx, leave := context.WithCancel(t.Context())
		joined := make(chan error)
		go func() { joined <- a.Join(ctx, coord.Member{Incarnation: task.ID{1}}, func([]coord.Member) {}) }()
		synctest.Wait()
		leave()
		if err := <-joined; err != nil {
			t.Errorf("Join returned %v", err)
		}
		time.Sleep(time.Minute)
		if members.Load() != 1 {
			t.Errorf("there are %d members", members.Load())
		}
	})
}

func TestANodeAtRestOnlyRenewsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		c := m.connect(nil)
		a, b := node(t, c), node(t, m.connect(nil))
		held := holding(t, a, task.ID{1})
		holding(t, b, task.ID{2})
		want(a, task.ID{1}, 1, 2)
		synctest.Wait()
		want(b, task.ID{2}, 1, 1)
		go func() { _ = a.Join(t.Context(), coord.Member{Incarnation: task.ID{1}}, func([]coord.Member) {}) }()
		for _, n := range []*cells.Node{b, a} {
			if err := n.Lead(t.Context(), "role", func(context.Context) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		c.mu.Lock()
		before := c.calls
		c.mu.Unlock()
		const renewals = 30
		time.Sleep(renewals * lease / 3)
		c.mu.Lock()
		defer c.mu.Unlock()
		if calls := c.calls - before; calls > renewals+1 || calls < renewals-1 {
			t.Errorf("%d calls in the time of %d renewals", calls, renewals)
		}
		if held.Load() != 2 {
			t.Errorf("it holds %d permits", held.Load())
		}
	})
}

// lateReader is a client. The next answer to a request for cells is late.
type lateReader struct {
	*client
	asked, answer chan struct{} // the first is closed when there is an answer, and the second by the test to let it arrive
	once          sync.Once
}

func (r *lateReader) Read(ctx context.Context, keys ...string) ([]cells.Cell, error) {
	all, err := r.client.Read(ctx, keys...)
	r.once.Do(func() {
		close(r.asked)
		<-r.answer
	})
	return all, err
}

// If the cell seemed to be removed, the node would try to make it for ever.
func TestALateAnswerToADoubtHidesNoNewerCell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		c := &lateReader{client: m.connect(nil), asked: make(chan struct{}), answer: make(chan struct{})}
		a, b := node(t, c), node(t, m.connect(nil))
		holding(t, a, task.ID{9}) // opens a session
		c.mu.Lock()
		c.late = time.Hour // so it is not known whether there is a leader
		c.mu.Unlock()
		led := make(chan error, 1)
		go func() { led <- a.Lead(t.Context(), "role", func(context.Context) error { return nil }) }()
		<-c.asked
		end := make(chan struct{})
		go func() { _ = b.Lead(t.Context(), "role", func(context.Context) error { <-end; return nil }) }()
		synctest.Wait() // both nodes know that b leads
		c.mu.Lock()
		calls := c.calls
		c.mu.Unlock()
		close(c.answer)
		time.Sleep(time.Millisecond)
		c.mu.Lock()
		if more := c.calls - calls; more > 10 {
			t.Errorf("the node makes %d requests though it waits", more)
		}
		c.mu.Unlock()
		close(end)
		if err := <-led; err != nil {
			t.Error(err)
		}
	})
}
