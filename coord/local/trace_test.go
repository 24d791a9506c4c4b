package local

import (
	"context"
	"testing"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine/task"
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
	p, err := n.Acquire(ctx, "limit", 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	n.Sever()
	p.Release()
	p, err = n.Acquire(ctx, "limit", 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	p.Release()

	cancel()
	_ = n.Join(ctx, coord.Member{Incarnation: task.ID{1}}, func([]coord.Member) {})
	_ = n.Watch(ctx, "name", "", func([]byte) {})
	_ = n.Subscribe(ctx, func([]task.Hint) {})

	c := n.cluster
	if kept := len(c.resources) + len(c.members) + len(c.watches) + len(*c.subscribers.Load()); kept != 0 {
		t.Errorf("kept %d entries", kept)
	}
}
