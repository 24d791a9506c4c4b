package pebble_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/pebble"
)

// TestAFolderThatIsRemovedStopsTheStore takes the folder from an open store.
func TestAFolderThatIsRemovedStopsTheStore(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"removed":   os.RemoveAll,
		"moved":     func(dir string) error { return os.Rename(dir, dir+"-old") },
		"made anew": func(dir string) error { return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)) },
		"another file": func(dir string) error {
			return errors.Join(os.Rename(dir, dir+"-old"), os.CopyFS(dir, os.DirFS(dir+"-old")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			s, err := pebble.Open(dir, small)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Insert(t.Context(), &task.Task{ID: task.ID{1}, Version: 1, State: task.Submitted, Type: "mail"}); err != nil {
				t.Fatal(err)
			}
			if err := spoil(dir); err != nil {
				t.Fatal(err)
			}
			_, err = s.Insert(t.Context(), &task.Task{ID: task.ID{2}, Version: 1, State: task.Submitted, Type: "mail"})
			if !errors.Is(err, storage.ErrBroken) || !strings.Contains(err.Error(), dir) {
				t.Errorf("got %v", err)
			}
			if _, err := s.Get(t.Context(), task.ID{1}); !errors.Is(err, storage.ErrBroken) {
				t.Errorf("the next call: %v", err)
			}
			if err := s.Close(); !errors.Is(err, storage.ErrBroken) {
				t.Errorf("close: %v", err)
			}
		})
	}
}
