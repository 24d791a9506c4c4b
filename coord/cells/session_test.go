package cells_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord/cells"
	"github.com/taskengine/taskengine/internal/logtest"
	"github.com/taskengine/taskengine/task"
)

// mute is a store. While it is silent, its sessions get no answer, and its watch goes on, as over a network that has
// stopped.
type mute struct {
	cells.Store
	silent atomic.Bool
}

func (m *mute) wait(ctx context.Context) error {
	if !m.silent.Load() {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (m *mute) Open(ctx context.Context, lease time.Duration) (cells.Session, error) {
	if err := m.wait(ctx); err != nil {
		return nil, err
	}
	s, err := m.Store.Open(ctx, lease)
	return muteSession{s, m}, err
}

type muteSession struct {
	cells.Session
	of *mute
}

func (s muteSession) Renew(ctx context.Context) (cells.Renewal, error) {
	if err := s.of.wait(ctx); err != nil {
		return cells.Renewal{}, err
	}
	return s.Session.Renew(ctx)
}

// The session ends while its renewal has no answer. That is no sign that the store can be used.
func TestAnOutageLastsUntilTheStoreAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out logtest.Buffer
		store := &mute{Store: newMemory().connect(nil)}
		n := cells.New(store, cells.Options{Driver: "memory", Name: "test", Lease: lease, Now: time.Now, Log: slog.New(slog.NewTextHandler(&out, nil))})
		t.Cleanup(func() { _ = n.Close() })
		holding(t, n, task.ID{1})
		store.silent.Store(true)
		time.Sleep(4 * lease)
		synctest.Wait()
		if text := out.String(); !strings.Contains(text, "cannot use memory") || strings.Contains(text, "can use memory again") {
			t.Errorf("during the outage the log is\n%s", text)
		}
		store.silent.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if text := out.String(); strings.Count(text, "cannot use memory") != 1 || strings.Count(text, "can use memory again") != 1 {
			t.Errorf("after the outage the log is\n%s", text)
		}
	})
}
