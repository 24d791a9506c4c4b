package bolt_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/bolt"
)

// TestAFileThatIsRemovedStopsTheStore takes the file from an open store.
func TestAFileThatIsRemovedStopsTheStore(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"removed":   os.Remove,
		"moved":     func(path string) error { return os.Rename(path, path+"-old") },
		"made anew": func(path string) error { return errors.Join(os.Remove(path), os.WriteFile(path, []byte("x"), 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tasks.db")
			s, err := bolt.Open(path, bolt.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Insert(t.Context(), &task.Task{ID: task.ID{1}, Version: 1, State: task.Submitted, Type: "mail"}); err != nil {
				t.Fatal(err)
			}
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			_, err = s.Insert(t.Context(), &task.Task{ID: task.ID{2}, Version: 1, State: task.Submitted, Type: "mail"})
			if !errors.Is(err, storage.ErrBroken) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v", err)
			}
			if _, err := s.Get(t.Context(), task.ID{1}); !errors.Is(err, storage.ErrBroken) {
				t.Errorf("the next call: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWhatIsLeftOfABackupGoesWhenTheFileIsOpened leaves what a process has left that was killed.
func TestWhatIsLeftOfABackupGoesWhenTheFileIsOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.db")
	left := path + ".backup-partial"
	if err := os.WriteFile(left, []byte("a part"), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, path)
	if _, err := os.Stat(left); err == nil {
		t.Error("what was left is still there")
	}
}
