package storagetest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// RunGone tests that a store accepts nothing more once the file or folder with its rows was
// removed, moved, replaced, or overwritten by an older copy. Each call of open returns an empty store at a path that does not
// exist yet.
func RunGone(t *testing.T, open func(path string) (storage.Store, error)) {
	for name, spoil := range map[string]func(path string) error{
		"removed":                      os.RemoveAll,
		"moved":                        moveAway,
		"replaced by another":          func(path string) error { return errors.Join(moveAway(path), makeLike(path)) },
		"replaced by a copy":           func(path string) error { return errors.Join(moveAway(path), copyBack(path)) },
		"overwritten by an older copy": func(path string) error { return layOver(path, overwrite) },
		"each file replaced by that of an older copy": func(path string) error { return layOver(path, swapFile) },
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
			if err := copyTo(olderOf(path), path); err != nil {
				t.Fatal(err)
			}
			for id := range byte(100) {
				if err := insert(100 + id); err != nil {
					t.Fatal(err)
				}
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

// asideOf is the destination of moveAway.
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
func copyBack(path string) error { return copyTo(path, asideOf(path)) }

// olderOf is the path of a copy of a file or folder from before its last changes.
func olderOf(path string) string { return path + "-older" }

// copyTo copies a file or folder.
func copyTo(path, from string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.CopyFS(path, os.DirFS(from))
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}

// layOver writes each file of the older copy to its place by put. Files that the copy does not have stay.
func layOver(path string, put func(path string, content []byte) error) error {
	return filepath.WalkDir(olderOf(path), func(from string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		below, err := filepath.Rel(olderOf(path), from)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(from)
		if err != nil || len(content) == 0 { // such as a file that is only locked: tools for copies leave it as it is
			return err
		}
		return put(filepath.Join(path, below), content)
	})
}

// overwrite writes into a file that exists, as cp does.
func overwrite(path string, content []byte) error { return os.WriteFile(path, content, 0o600) }

// swapFile replaces a file by a new one of the same name, as rsync does.
func swapFile(path string, content []byte) error {
	return errors.Join(os.WriteFile(path+"-new", content, 0o600), os.Rename(path+"-new", path))
}
