package bolt_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/bolt"
	"github.com/taskengine/taskengine/task"
)

func TestAFileThatIsOnlyReadIsNotChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.db")
	if _, err := bolt.Open(path, bolt.Options{ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there gives %v", err)
	}
	s := open(t, path)
	id := task.ID{1}
	if _, err := s.Insert(t.Context(), &task.Task{ID: id, Version: 1, State: task.Submitted, Type: "mail"}); err != nil {
		t.Fatal(err)
	}
	if _, err := bolt.Open(path, bolt.Options{ReadOnly: true}); !errors.Is(err, storage.ErrLocked) {
		t.Errorf("a file in use gives %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // both at the same time
		s, err := bolt.Open(path, bolt.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.Check(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := s.Get(t.Context(), id); err != nil {
			t.Error(err)
		}
		if _, err := s.Delete(t.Context(), task.Ref{ID: id, Version: 1}); err == nil {
			t.Error("a task was removed from a store that is only read")
		}
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the file has changed, %v", err)
	}
}

func TestAFileWithoutTasksIsNotReadAsAStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.db")
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err := bolt.Open(path, bolt.Options{ReadOnly: true}); err == nil {
		s.Close()
		t.Error("it was opened")
	}
}
