//go:build unix

package kafka_test

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/coordtest"
)

// backend returns nodes that share a topic of their own.
func backend[P any](of func(*node) P) coordtest.Backend[P] {
	return coordtest.Backend[P]{
		New: func(t *testing.T) func() P {
			topic := newName()
			return func() P { return of(connect(t, brokers, topic, nil)) }
		},
		Sever:    func(_ *testing.T, p P) { any(p).(*node).sever() },
		Patience: patience,
		Settle:   20 * time.Millisecond,
		Parallel: true,
	}
}

func TestHintsAndMessagesByATopic(t *testing.T) {
	t.Run("Bus", func(t *testing.T) {
		t.Parallel()
		coordtest.RunBus(t, backend(func(n *node) coord.Bus { return n }))
	})
	t.Run("Messages", func(t *testing.T) {
		t.Parallel()
		coordtest.RunMessages(t, backend(func(n *node) coord.Messages { return n }))
	})
}
