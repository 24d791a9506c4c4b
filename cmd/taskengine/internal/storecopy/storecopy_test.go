package storecopy

import (
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/backup"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/stores"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/stored"
	"github.com/taskengine/taskengine/task"
)

var silent = slog.New(slog.DiscardHandler)

// storeWith makes a store with tasks of these IDs.
func storeWith(t *testing.T, driver config.Driver, ids ...byte) stores.Location {
	t.Helper()
	p := stores.Location{Driver: driver, Path: filepath.Join(t.TempDir(), "data"), Name: driver.String()}
	s, err := p.Open(t.Context(), silent)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if _, err := s.Insert(t.Context(), &task.Task{ID: task.ID{id}, Version: 1, State: task.Submitted, Type: "mail"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return p
}

// shown is a progress that keeps its calls.
type shown struct {
	began          int64
	copied, ended  bool
	afterEnd, wide int // calls after End, and with more rows than there are
}

func (s *shown) Begin(rows int64) { s.began = rows }
func (s *shown) End()             { s.ended = true }

func (s *shown) Show(verifying bool, rows int64) {
	if s.ended {
		s.afterEnd++
	}
	if rows > s.began {
		s.wide++
	}
	s.copied = s.copied || !verifying
}

func TestACopyHasTheTasksOfItsSource(t *testing.T) {
	from, to := storeWith(t, config.Bolt, 1, 2, 3), storeWith(t, config.Pebble)
	var progress shown
	c := &Copy{From: from, To: to, Log: silent, Progress: &progress}
	r, err := c.Run(t.Context())
	if err != nil || r.Rows != 3 || r.Added != 3 || !r.Complete {
		t.Fatalf("the report is %+v, %v", r, err)
	}
	if want := (shown{began: 3, copied: true, ended: true}); progress != want {
		t.Errorf("the progress was %+v, want %+v", progress, want)
	}
	if r, err := c.Run(t.Context()); err != nil || !r.Nothing {
		t.Errorf("again, the report is %+v, %v", r, err)
	}
}

// changed sets the changes of limits of a store, by their names, and returns the settings after that.
func changed(t *testing.T, p stores.Location, values map[string]string) map[string]string {
	t.Helper()
	s, err := p.Open(t.Context(), silent)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	c := stored.New(s)
	for scope, value := range values {
		if _, swapped, err := c.Swap(t.Context(), coord.LimitsSetting, scope, 0, []byte(value)); err != nil || !swapped {
			t.Fatal(swapped, err)
		}
	}
	all, err := c.Settings(t.Context(), coord.LimitsSetting)
	if err != nil {
		t.Fatal(err)
	}
	now := make(map[string]string)
	for _, s := range all {
		now[s.Scope] = string(s.Value)
	}
	return now
}

func TestACopyHasTheChangedLimitsOfItsSource(t *testing.T) {
	for _, merge := range []bool{false, true} {
		from, to := storeWith(t, config.Bolt, 1), storeWith(t, config.Pebble)
		changed(t, from, map[string]string{"mail": "1", "bank/acme": "2"})
		changed(t, to, map[string]string{"mail": "3", "other": "4"})
		c := &Copy{From: from, To: to, Log: silent, Merge: merge}
		if r, err := c.Run(t.Context()); err != nil || !r.Complete {
			t.Fatalf("the report is %+v, %v", r, err)
		}
		want := map[string]string{"mail": "1", "bank/acme": "2", "other": "4"}
		if merge {
			want["mail"] = "3"
		}
		if got := changed(t, to, nil); !maps.Equal(got, want) {
			t.Errorf("with merge %t the limits are %v, want %v", merge, got, want)
		}
	}
}

func TestADestinationWithOtherTasksNeedsMerge(t *testing.T) {
	c := &Copy{From: storeWith(t, config.Bolt, 1), To: storeWith(t, config.Bolt, 2), Log: silent}
	if _, err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "--merge") {
		t.Errorf("without it: %v", err)
	}
	c.Merge = true
	if r, err := c.Run(t.Context()); err != nil || r.Added != 1 || !r.Complete {
		t.Errorf("with it: %+v, %v", r, err)
	}
}

func TestADamagedBackupIsNotCopied(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "b")
	if _, err := backup.Take(t.Context(), storeWith(t, config.Bolt, 1), folder, silent); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(folder, stores.BoltFile), 5000); err != nil {
		t.Fatal(err)
	}
	to := stores.Location{Driver: config.Bolt, Path: filepath.Join(t.TempDir(), "data")}
	c := &Copy{From: stores.Location{Driver: config.Bolt, Path: folder}, To: to, Log: silent}
	if _, err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "the source: the backup") {
		t.Errorf("it says %v", err)
	}
	if _, err := os.Stat(to.Path); err == nil {
		t.Error("the destination was made")
	}
}
