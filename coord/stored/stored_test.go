package stored_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/coord/stored"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPorts(t *testing.T) {
	for name, b := range map[string]coordtest.Backend[coord.Config]{
		"callers of one process": {
			New: func(*testing.T) func() coord.Config {
				c := stored.New(memory.New())
				return func() coord.Config { return c }
			},
			Settle: 5 * time.Millisecond,
		},
		"callers of one process in simulated time": {
			New: func(*testing.T) func() coord.Config {
				c := stored.New(memory.New())
				return func() coord.Config { return c }
			},
			Bubble: true,
		},
		"several processes": {
			New: func(*testing.T) func() coord.Config {
				s := memory.New()
				return func() coord.Config { return stored.NewShared(s) }
			},
			Bubble: true, Patience: time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b.Sever = func(*testing.T, coord.Config) {} // it holds nothing
			coordtest.RunConfig(t, b)
		})
	}
}

// failing is a store that fails with err.
type failing struct {
	storage.Settings
	read, write error
}

func (f *failing) Setting(ctx context.Context, name string) ([]byte, error) {
	if f.read != nil {
		return nil, f.read
	}
	return f.Settings.Setting(ctx, name)
}

func (f *failing) SetSetting(ctx context.Context, name string, value []byte) error {
	if err := f.Settings.SetSetting(ctx, name, value); err != nil {
		return err
	}
	return f.write
}

func TestErrorsOfTheStoreAreReturned(t *testing.T) {
	broken := errors.New("broken")
	f := &failing{Settings: memory.New(), read: broken}
	c := stored.New(f)
	ctx := t.Context()
	if _, err := c.Settings(ctx, "name"); !errors.Is(err, broken) {
		t.Errorf("Settings returned %v", err)
	}
	if _, swapped, err := c.Swap(ctx, "name", "scope", 0, []byte("v")); !errors.Is(err, broken) || swapped {
		t.Errorf("Swap returned %t, %v", swapped, err)
	}
	if err := c.Watch(ctx, "name", func([]coord.Setting) { t.Error("the watch got something") }); !errors.Is(err, broken) {
		t.Errorf("Watch returned %v", err)
	}
}

func TestAWatchLearnsOfAChangeThatWasNotConfirmed(t *testing.T) {
	f := &failing{Settings: memory.New(), write: errors.New("no answer")}
	c := stored.New(f)
	ctx, cancel := context.WithCancel(t.Context())
	news := make(chan []coord.Setting, 1)
	ended := make(chan error)
	go func() { ended <- c.Watch(ctx, "name", func(all []coord.Setting) { news <- all }) }()
	if all := <-news; len(all) != 0 {
		t.Errorf("it got %v first", all)
	}
	if _, swapped, err := c.Swap(ctx, "name", "scope", 0, []byte("v")); err == nil || swapped {
		t.Errorf("Swap returned %t, %v", swapped, err)
	}
	if all := <-news; len(all) != 1 || string(all[0].Value) != "v" {
		t.Errorf("it got %v", all)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestSettingsThatAreDamagedAreSaidToBe(t *testing.T) {
	s := memory.New()
	c := stored.New(s)
	if _, _, err := c.Swap(t.Context(), "name", "scope", 0, []byte("v")); err != nil {
		t.Fatal(err)
	}
	if err := s.SetSetting(t.Context(), "taskengine/settings/name", []byte("{")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Settings(t.Context(), "name"); err == nil || !strings.Contains(err.Error(), `"name"`) {
		t.Errorf("Settings returned %v", err)
	}
}
