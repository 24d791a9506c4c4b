package cells_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
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

// The coordinator takes values of 1 kB, and 30,000 limits would need 2 kB in each of the 1024 cells. told is the limit that it
// announces.
func TestLimitsForWhichACellHasNoRoomDisturbNothingElse(t *testing.T) {
	for name, told := range map[string]int{"that is known": 0, "that is not known": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				m := newMemory()
				m.most, m.told = 1000, told
				c := m.connect(nil)
				n := cells.New(c, cells.Options{Driver: "memory", Name: "test", Lease: lease, Now: time.Now, Log: slog.New(slog.NewTextHandler(&log, nil))})
				t.Cleanup(func() { _ = n.Close() })
				lost := make(chan error, 1)
				go func() {
					lost <- n.Join(t.Context(), coord.Member{Incarnation: task.ID{1}}, func([]coord.Member) {})
				}()
				ctx, end := context.WithCancel(t.Context())
				many, other := tallied(ctx, n, task.ID{1}), tallied(t.Context(), n, task.ID{2})
				const count = 30_000
				n.Order(task.ID{1}, orders(count)...)
				time.Sleep(lease)
				answered, held := many.count()
				if answered != count || held < count/4 || held > count*3/4 {
					t.Errorf("%d of %d orders are answered, with %d permits", answered, count, held)
				}
				n.Order(task.ID{1}, coord.Order{Name: "partner/0", Number: count + 1})
				n.Order(task.ID{2}, coord.Order{Name: "other", Number: 1, Want: 1, Max: 1})
				time.Sleep(lease)
				if _, held := other.count(); held > 1 {
					t.Errorf("the other holder has %d permits of 1", held)
				}
				before := c.requests()
				time.Sleep(time.Minute)
				if most := int(time.Minute/(lease/3)) + 10; c.requests()-before > most {
					t.Errorf("%d requests in a minute in which nothing changes, want the renewals, %d", c.requests()-before, most)
				}
				if !strings.Contains(log.String(), "larger requests") || strings.Contains(log.String(), "tries again") || strings.Count(log.String(), "\n") > 1024 {
					t.Errorf("the log says\n%.2000s", log.String())
				}
				end()
				time.Sleep(2 * lease) // there is room now
				n.Order(task.ID{2}, coord.Order{Name: "another", Number: 1, Want: 1, Max: 1})
				synctest.Wait()
				if _, held := other.count(); held != 2 {
					t.Errorf("when there is room, the other holder has %d permits of 2", held)
				}
				select {
				case err := <-lost:
					t.Errorf("the node is no member any more: %v", err)
				default:
				}
			})
		})
	}
}

func TestAMemberThatIsTooLargeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.most, m.told = 2000, 1<<20
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

func TestPermitsOfLongNamesAreToldApart(t *testing.T) {
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
