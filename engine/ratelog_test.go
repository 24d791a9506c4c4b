package engine_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
)

// unreadable is a store that cannot list unclaimed tasks, for which nodes ask every second.
type unreadable struct {
	*memory.Store
	away atomic.Bool
}

func (s *unreadable) Unclaimed(ctx context.Context, q storage.UnclaimedQuery) (storage.UnclaimedPage, error) {
	if s.away.Load() {
		return storage.UnclaimedPage{}, errors.New("no answer")
	}
	return s.Store.Unclaimed(ctx, q)
}

func TestAProblemThatLastsIsLoggedOnceInAMinute(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		s := &unreadable{Store: g.store}
		g.wrap = func(*memory.Store) storage.Store { return s }
		a := g.join("a", one("work", nil), takes(0), "work")
		a.close()
		var said bytes.Buffer
		a.config.Log = slog.New(slog.NewTextHandler(&said, nil))
		a.open()
		s.away.Store(true)
		time.Sleep(10 * time.Minute)
		s.away.Store(false)
		a.end(a.submit(engine.Request{Type: "work"}))
		a.close()
		if n := bytes.Count(said.Bytes(), []byte("no answer")); n < 9 || n > 11 {
			t.Errorf("it was logged %d times in ten minutes:\n%s", n, &said)
		}
	})
}
