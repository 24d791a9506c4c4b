package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage/memory"
)

// unsteady is a Config that fails while err is set.
type unsteady struct {
	coord.Config
	err atomic.Pointer[error]
}

func (f *unsteady) fail(err error) { f.err.Store(&err) }

func (f *unsteady) failure() error {
	if err := f.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (f *unsteady) Settings(ctx context.Context, name string) ([]coord.Setting, error) {
	if err := f.failure(); err != nil {
		return nil, err
	}
	return f.Config.Settings(ctx, name)
}

// Watch ends with an error after the first call of fn while err is set.
func (f *unsteady) Watch(ctx context.Context, name string, fn func([]coord.Setting)) error {
	if err := f.failure(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := f.Config.Watch(ctx, name, func(all []coord.Setting) {
		if f.failure() != nil {
			cancel()
			return
		}
		fn(all)
	})
	return errors.Join(err, f.failure())
}

func TestANodeThatCannotWatchTheSettingsGoesOnAndCatchesUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		broken := errors.New("broken")
		shared := local.New()
		settings := &unsteady{Config: shared}
		n := start(t, partners(), handle("work", takes(time.Hour)))
		n.close()
		n.config.Coordinator.Settings = settings
		n.open()
		most, more := 2, 3
		setLimit(t, n.Engine, engine.LimitSetting{Limit: "all", Max: &most})
		settings.fail(broken)
		if _, err := n.SetLimit(t.Context(), engine.LimitSetting{Limit: "all", Max: &more}, nil); !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
		if _, _, err := shared.Swap(t.Context(), "limits", "partner", 0, []byte(`{"max":1}`)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		n.work("acme", 9)
		n.uses("", 2)
		settings.fail(nil)
		time.Sleep(2 * time.Second)
		if l, err := n.Limit(t.Context(), "partner", "x"); err != nil || l.Max != 1 {
			t.Errorf("got %+v, %v", l, err)
		}
		n.close()
		settings.fail(broken)
		if _, err := engine.Open(t.Context(), n.config); !errors.Is(err, broken) {
			t.Errorf("it opens without knowing the limits: %v", err)
		}
		settings.fail(nil)
		n.open()
		n.uses("", 2)
	})
}

// lineCounter counts log lines that contain a text.
type lineCounter struct {
	slog.Handler
	text  string
	count *atomic.Int64
}

func (l lineCounter) Enabled(context.Context, slog.Level) bool { return true }

func (l lineCounter) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, l.text) {
		l.count.Add(1)
	}
	return nil
}

func TestASettingThatCannotBeReadIsShownAndLoggedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		config := local.New()
		put := func(scope, value string) {
			t.Helper()
			if _, swapped, err := config.Swap(t.Context(), "limits", scope, 0, []byte(value)); err != nil || !swapped {
				t.Fatal(swapped, err)
			}
		}
		put("all", "{")
		put("partner/acme", `{"max":-1}`)
		put("partner/a%zz", `{"rate":{"count":1,"per":"soon"},"max":3}`)
		put("partner/beta", `{"max":5,"future":true}`)
		var count atomic.Int64
		n := &node{t: t, store: memory.New(), config: engine.Config{
			Policies: partners(), Handlers: handle("work", takes(time.Hour)), Coordinator: coord.Coordinator{Settings: config},
			Log: slog.New(lineCounter{slog.DiscardHandler, "a limit was changed", &count}),
		}}
		n.config.Store = n.store
		n.open()
		t.Cleanup(n.close)
		var got []string
		for _, s := range settings(t, n.Engine) {
			most := -1
			if s.Max != nil {
				most = *s.Max
			}
			got = append(got, fmt.Sprint(s.Limit, " ", s.Value, " ", most, " ", s.Problem != "" && strings.Contains(s.Problem, "cannot read")))
		}
		want := []string{"all  -1 true", "partner a%zz -1 true", "partner acme -1 true", "partner beta 5 false"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		setLimit(t, n.Engine, engine.LimitSetting{Limit: "partner", Paused: true})
		if count.Load() != 3 {
			t.Errorf("%d lines were logged, want one for each", count.Load())
		}
		if l, err := n.Limit(t.Context(), "all", ""); err != nil || l.Max != 50 || l.Paused {
			t.Errorf("got %+v, %v", l, err)
		}
		for _, value := range []string{"acme", "a%zz"} {
			if err := n.UnsetLimit(t.Context(), "partner", value, nil); err != nil {
				t.Error(err)
			}
		}
		most := 7
		if s := setLimit(t, n.Engine, engine.LimitSetting{Limit: "all", Max: &most}); s.Problem != "" || len(settings(t, n.Engine)) != 3 {
			t.Errorf("got %+v and %+v", s, settings(t, n.Engine))
		}
	})
}

func TestChangesOfOneLimitAtOnceDoNotOverwriteEachOther(t *testing.T) {
	g := newGroup(t)
	g.settings = true
	a, b := g.join("a", partners(), takes(0), "work"), g.join("b", partners(), takes(0), "work")
	const each = 20
	var made atomic.Int64
	done := make(chan error, 2)
	for _, m := range []*member{a, b} {
		go func() {
			for range each {
				l, err := m.Limit(context.Background(), "all", "")
				if err != nil {
					done <- err
					return
				}
				version, most := uint64(0), 1
				if s := l.Setting(); s != nil {
					version, most = s.Version, *s.Max+1
				}
				_, err = m.SetLimit(context.Background(), engine.LimitSetting{Limit: "all", Max: &most}, &version)
				switch {
				case err == nil:
					made.Add(1)
				case !errors.Is(err, engine.ErrStale):
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	if err := errors.Join(<-done, <-done); err != nil {
		t.Fatal(err)
	}
	if all := settings(t, a.Engine); len(all) != 1 || int64(*all[0].Max) != made.Load() {
		t.Errorf("after %d changes there is %+v", made.Load(), all)
	}
}
