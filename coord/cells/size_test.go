package cells_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/cells"
	"github.com/taskengine/taskengine/task"
)

// tally counts the answers and permits of a holder.
type tally struct {
	mu   sync.Mutex
	held map[string]coord.Holding
}

func (h *tally) count() (answered, held int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, g := range h.held {
		answered++
		held += g.Held
	}
	return answered, held
}

// tallied holds permits, and counts them.
func tallied(ctx context.Context, n *cells.Node, id task.ID) *tally {
	h := &tally{held: map[string]coord.Holding{}}
	go func() {
		_ = n.Hold(ctx, id, func(all []coord.Holding) {
			h.mu.Lock()
			defer h.mu.Unlock()
			for _, g := range all {
				h.held[g.Name] = g
			}
		})
	}()
	synctest.Wait()
	return h
}

func orders(count int) (all []coord.Order) {
	for i := range count {
		all = append(all, coord.Order{Name: fmt.Sprint("partner/", i), Number: uint64(i + 1), Want: 1, Least: 1, Max: 1})
	}
	return all
}

func TestAMemberThatIsTooLargeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.most, m.bound = 2000, 1<<20
		n, looks := node(t, m.connect(nil)), node(t, m.connect(nil))
		small := coord.Member{Incarnation: task.ID{1}, Name: "small"}
		large := coord.Member{Incarnation: task.ID{2}, Name: "large", Handlers: strings.Split(strings.Repeat("type ", 1000), " ")}
		var members []coord.Member
		go func() {
			_ = looks.Join(t.Context(), coord.Member{Incarnation: task.ID{3}}, func(all []coord.Member) { members = all })
		}()
		left := make(chan error, 1)
		go func() { left <- n.Join(t.Context(), small, func([]coord.Member) {}) }()
		synctest.Wait()
		if err := n.Join(t.Context(), large, func([]coord.Member) {}); err == nil || !strings.Contains(err.Error(), "at most 2000") {
			t.Errorf("a member that is too large joins with %v", err)
		}
		small.Handlers = large.Handlers
		n.Announce(small)
		time.Sleep(time.Minute)
		small.Handlers, small.Draining = nil, true
		n.Announce(small)
		synctest.Wait()
		if len(members) != 2 || members[0].Incarnation != small.Incarnation || !members[0].Draining || len(left) > 0 {
			t.Errorf("the members are %+v", members)
		}
	})
}

func TestPermitsOfLongNamesAreNotMixedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		n := node(t, m.connect(nil))
		h := tallied(t.Context(), n, task.ID{1})
		long := strings.Repeat("v", 900)
		for i := range 3 {
			n.Order(task.ID{1}, coord.Order{Name: fmt.Sprint(long, i), Number: uint64(i + 1), Want: i, Max: 9})
		}
		synctest.Wait()
		for i := range 3 {
			if got := h.held[fmt.Sprint(long, i)]; got.Held != i || got.Number != uint64(i+1) {
				t.Errorf("of limit %d it gets %+v", i, got)
			}
			list, err := n.Holders(t.Context(), fmt.Sprint(long, i))
			if held := len(list) == 1 && list[0].Held == i; held != (i > 0) || err != nil {
				t.Errorf("the holders of limit %d are %v, %v", i, list, err)
			}
		}
	})
}
