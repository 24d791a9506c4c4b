//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/postgres"
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

// told is what a watch was told.
type told struct {
	mu  sync.Mutex
	all [][]coord.Setting // guarded by mu
}

func watch(t *testing.T, n *node) *told {
	w := new(told)
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

// count returns how often the watch was told.
func (w *told) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.all)
}

// last returns the newest value of the only setting, "" if there is none.
func (w *told) last() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.all); n > 0 && len(w.all[n-1]) == 1 {
		return string(w.all[n-1][0].Value)
	}
	return ""
}

func TestTablesWithoutVersionsHaveNoSettingsUntilTheyAreUpgraded(t *testing.T) {
	url := server.Database(t)
	execute(t, url, "CREATE SCHEMA taskengine")
	execute(t, url, postgres.DDL("taskengine"))
	execute(t, url, postgres.Upgrade("taskengine"))
	n := connect(t, url, setup{})
	before, err := n.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	execute(t, url, "SELECT taskengine.coord_set('name', 'scope', 'old')")
	w := watch(t, n)
	eventually(t, "the first call", func() bool { return w.count() == 1 })
	if all, err := n.Settings(t.Context(), "name"); err != nil || len(all) != 0 {
		t.Errorf("there are %v, %v", all, err)
	}
	if err := swap(n, "new"); !errors.Is(err, postgres.ErrNoVersions) {
		t.Errorf("Swap returned %v", err)
	}

	execute(t, url, postgres.Limits("taskengine"))
	execute(t, url, "SELECT taskengine.coord_set('other', '', 'x')") // tells the watch
	eventually(t, "the setting of before", func() bool { return w.last() == "old" })
	all, err := n.Settings(t.Context(), "name")
	if err != nil || len(all) != 1 {
		t.Fatalf("there are %v, %v", all, err)
	}
	now, swapped, err := n.Swap(t.Context(), "name", "scope", all[0].Version, []byte("new"))
	if err != nil || !swapped || now.Version <= all[0].Version {
		t.Errorf("Swap of %v returned %v, %v, %v", all[0], now, swapped, err)
	}
	if after, err := n.Identity(t.Context()); err != nil || !after.Is(before) {
		t.Errorf("the identity is %v, %v; it was %v", after, err, before)
	}
}

func TestProgramsThatDoNotKnowVersionsChangeThem(t *testing.T) {
	url := database(t)
	n := connect(t, url, setup{})
	w := watch(t, n)
	var before uint64
	for _, value := range []string{"one", "two", "two"} {
		execute(t, url, "SELECT taskengine.coord_set('name', 'scope', '"+value+"')")
		eventually(t, "the value "+value, func() bool { return w.last() == value })
		all, err := n.Settings(t.Context(), "name")
		if err != nil || len(all) != 1 || all[0].Version <= before {
			t.Fatalf("there are %v, %v, and the version was %d", all, err, before)
		}
		before = all[0].Version
	}
	execute(t, url, "SELECT taskengine.coord_set('name', 'scope', NULL)")
	eventually(t, "the removal", func() bool { return w.last() == "" })
	if now, swapped, err := n.Swap(t.Context(), "name", "scope", 0, []byte("three")); err != nil || !swapped || now.Version <= before {
		t.Errorf("Swap returned %v, %v, %v, and the version was %d", now, swapped, err, before)
	}
}
