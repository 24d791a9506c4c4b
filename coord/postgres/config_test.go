//go:build unix

package postgres_test

import (
	"context"
	"sync"
	"testing"

	"github.com/taskengine/taskengine/coord"
)

// swap stores a setting that is not there yet.
func swap(n *node, value string) error {
	_, _, err := n.Swap(context.Background(), "name", "scope", 0, []byte(value))
	return err
}

// settings reads the settings.
func settings(n *node) error {
	_, err := n.Settings(context.Background(), "name")
	return err
}

// watched has the settings that a watch got.
type watched struct {
	mu  sync.Mutex
	all [][]coord.Setting // guarded by mu
}

func watch(t *testing.T, n *node) *watched {
	w := new(watched)
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		_ = n.Watch(ctx, "name", func(all []coord.Setting) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.all = append(w.all, all)
		})
	}()
	return w
}

// last returns the newest value of the only setting, "" if there is none.
func (w *watched) last() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.all); n > 0 && len(w.all[n-1]) == 1 {
		return string(w.all[n-1][0].Value)
	}
	return ""
}
