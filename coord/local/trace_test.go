package local

import (
	"context"
	"testing"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/task"
)

func TestNothingIsKeptOfWhatHasEnded(t *testing.T) {
	n := New()
	ctx, cancel := context.WithCancel(t.Context())
	err := n.Lead(ctx, "role", func(ctx context.Context) error {
		waiter, stop := context.WithCancel(ctx)
		stop()
		_ = n.Lead(waiter, "role", func(context.Context) error { return nil })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []func(stop func()){func(stop func()) { stop() }, func(func()) { n.Sever() }} {
		held, stop := context.WithCancel(ctx)
		id := task.ID{1}
		_ = n.Hold(held, id, func(news []coord.Holding) {
			if len(news) > 0 {
				end(stop)
				return
			}
			go n.Order(id, coord.Order{Name: "limit", Want: 2, Max: 1}, coord.Order{Name: "a\x00", Want: 1, Max: 1})
		})
		stop()
	}

	cancel()
	_ = n.Join(ctx, coord.Member{Incarnation: task.ID{1}}, func([]coord.Member) {})
	_ = n.Watch(ctx, "name", func([]coord.Setting) {})
	_ = n.Subscribe(ctx, func([]task.Hint) {})

	c := n.cluster
	if kept := len(c.roles) + len(c.semaphores) + len(c.holders) + len(c.members) + len(c.watches) + len(*c.subscribers.Load()); kept != 0 {
		t.Errorf("kept %d entries", kept)
	}
}
