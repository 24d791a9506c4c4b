package storagetest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

// RunGone tests that a store accepts nothing more once the file or folder with its rows was
// removed, moved or replaced. Each call of open returns an empty store at a path that does not
// exist yet.
func RunGone(t *testing.T, open func(path string) (storage.Store, error)) {
	for name, spoil := range map[string]func(path string) error{
		"removed":             os.RemoveAll,
		"moved":               moveAway,
		"replaced by another": func(path string) error { return errors.Join(moveAway(path), makeLike(path)) },
		"replaced by a copy":  func(path string) error { return errors.Join(moveAway(path), copyBack(path)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "data")
			s, err := open(path)
			if err != nil {
				t.Fatal(err)
			}
			insert := func(id byte) error {
				_, err := s.Insert(t.Context(), &task.Task{ID: task.ID{id}, Version: 1, State: task.Submitted, Type: "mail"})
				return err
			}
			if err := insert(1); err != nil {
				t.Fatal(err)
			}
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			if err := insert(2); !errors.Is(err, storage.ErrBroken) || !strings.Contains(err.Error(), path) {
				t.Errorf("the next change returned %v, want ErrBroken with the path", err)
			}
			if _, err := s.Get(t.Context(), task.ID{1}); !errors.Is(err, storage.ErrBroken) {
				t.Errorf("the call after it returned %v, want ErrBroken", err)
			}
			if err := s.Close(); err != nil && !errors.Is(err, storage.ErrBroken) {
				t.Errorf("Close returned %v", err)
			}
		})
	}
}

// asideOf is where moveAway moves a file or folder to.
func asideOf(path string) string { return path + "-old" }

func moveAway(path string) error { return os.Rename(path, asideOf(path)) }

// makeLike creates an empty folder or file like the one that was moved away.
func makeLike(path string) error {
	info, err := os.Stat(asideOf(path))
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.Mkdir(path, 0o700)
	}
	return os.WriteFile(path, []byte("x"), 0o600)
}

// copyBack copies the folder or file that was moved away.
func copyBack(path string) error {
	info, err := os.Stat(asideOf(path))
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.CopyFS(path, os.DirFS(asideOf(path)))
	}
	content, err := os.ReadFile(asideOf(path))
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}
