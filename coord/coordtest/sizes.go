package coordtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/internal/logtest"
)

// RunSizes runs a test of a coordinator that takes values of less than largest bytes: a larger value is refused, and
// disturbs nothing else. node is a connected node, and log returns its log.
func RunSizes(t *testing.T, node Node, log *logtest.Buffer, largest int) {
	var lost atomic.Value
	lost.Store("")
	note := func(what string, err error) {
		if t.Context().Err() == nil {
			lost.Store(fmt.Sprint(what, " ends: ", err))
		}
	}
	led := make(chan bool, 1)
	go func() {
		note("the role", node.Lead(t.Context(), "role", func(ctx context.Context) error { led <- true; <-ctx.Done(); return nil }))
	}()
	within(t, "a role", led)
	go func() {
		note("the member", node.Join(t.Context(), coord.Member{Incarnation: newID()}, func([]coord.Member) {}))
	}()

	const count, size = 5000, 900
	holder := newID()
	var mu sync.Mutex
	held := map[string]int{} // guarded by mu: permits by limit
	total := func() (sum int) {
		mu.Lock()
		defer mu.Unlock()
		for _, n := range held {
			sum += n
		}
		return sum
	}
	lives := make(chan bool, 1)
	go func() {
		note("the holder", node.Hold(t.Context(), holder, func(all []coord.Holding) {
			if len(all) == 0 {
				lives <- true
			}
			mu.Lock()
			defer mu.Unlock()
			for _, h := range all {
				held[h.Name] = h.Held
			}
		}))
	}()
	within(t, "a holder", lives)
	long := strings.Repeat("v", size)
	var orders []coord.Order
	for i := range count {
		orders = append(orders, coord.Order{Name: fmt.Sprint(long, i), Number: uint64(i + 1), Want: 1, Max: 1})
	}
	node.Order(holder, orders...)
	Await(t, "permits of all values", func() bool { return total() == count })

	draws := make([]coord.Draw, count)
	for i := range draws {
		draws[i] = coord.Draw{Name: orders[i].Name, Interval: slow, Burst: 1, Tokens: 1}
	}
	drawn, err := node.Draw(t.Context(), draws...)
	if err != nil || slices.ContainsFunc(drawn, func(d coord.Drawn) bool { return d.Tokens != 1 }) {
		t.Errorf("draws of many long names: %v, %v", drawn, err)
	}

	refused := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "at most") {
			t.Errorf("%s is refused with %v, want an error that says how much is taken", what, err)
		}
	}
	_, _, err = node.Swap(t.Context(), "name", "large", 0, make([]byte, largest))
	refused("a setting", err)
	refused("a member", node.Join(t.Context(), coord.Member{Incarnation: newID(), Name: strings.Repeat("n", largest)}, func([]coord.Member) {}))
	if _, _, err := node.Swap(t.Context(), "name", "small", 0, []byte("value")); err != nil {
		t.Errorf("then no other setting is stored: %v", err)
	}
	node.Order(holder, coord.Order{Name: "other", Number: 1, Want: 1, Max: 1})
	Await(t, "a permit of another limit", func() bool { return total() == count+1 })
	if lost.Load() != "" {
		t.Error(lost.Load())
	}
	if strings.Contains(log.String(), "tries again") {
		t.Errorf("the log says\n%.2000s", log.String())
	}
}
