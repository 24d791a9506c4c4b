package cells_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/task"
)

// On a slow coordinator a request for hundreds of limits takes longer than a request may, and keeps the renewals of the
// session waiting.
func TestSlowRequestsAreMadeSmaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newMemory().connect(nil)
		t.Cleanup(c.transfers.Wait) // after the node has closed
		n := node(t, c)
		const many = 2000
		held := map[string]int{}
		got, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- n.Hold(t.Context(), task.ID{1}, func(news []coord.Holding) {
				for _, h := range news {
					if held[h.Name] = h.Held; len(held) == many && h.Held > 0 {
						close(got)
					}
				}
			})
		}()
		synctest.Wait()
		c.mu.Lock()
		c.slow = time.Millisecond
		c.mu.Unlock()
		var orders []coord.Order
		for i := range many {
			orders = append(orders, coord.Order{Name: fmt.Sprint("limit/", i), Number: 1, Want: 1, Max: 1})
		}
		n.Order(task.ID{1}, orders...)
		select {
		case <-got:
		case err := <-ended:
			t.Errorf("the node has lost its permits: %v", err)
		case <-time.After(time.Minute):
			t.Error("after a minute not all permits are granted")
		}
	})
}
