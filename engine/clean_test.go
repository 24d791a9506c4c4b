package engine_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
)

// sweeps is a store that is a [storage.Expirer].
type sweeps struct {
	storage.Store
	mu    sync.Mutex
	at    []time.Duration // guarded by mu: times of the calls of Expire, since begin
	begin time.Time
}

func (s *sweeps) Expire(_ context.Context, now time.Time) (int64, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = append(s.at, now.Sub(s.begin))
	switch len(s.at) {
	case 1:
		return 0, now.Add(3 * time.Minute), nil // the next row is due in three minutes
	case 2:
		return 7, now, nil // more rows are due
	}
	return 0, time.Time{}, nil
}

func TestAStoreThatSweepsIsAskedToWhenItIsWorthIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &sweeps{Store: memory.New(), begin: time.Now()}
		n := &node{t: t, store: s}
		n.config.Store, n.config.Policies = s, one("x", nil)
		n.open()
		time.Sleep(25 * time.Minute)
		n.close()
		want := []time.Duration{0, 3 * time.Minute, 4 * time.Minute, 14 * time.Minute, 24 * time.Minute}
		if !slices.Equal(s.at, want) {
			t.Errorf("it was asked at %v, want %v", s.at, want)
		}
	})
}
