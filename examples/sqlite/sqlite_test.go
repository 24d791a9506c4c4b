package sqlite_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/examples/sqlite"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/records"
	"github.com/taskengine/taskengine/storage/storagetest"
	"github.com/taskengine/taskengine/task"
)

func open(t testing.TB, path string) *records.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// file is a store under test, which can be opened again.
type file struct {
	*records.Store
	path string
}

func (f file) Reopen(t testing.TB) storage.Store {
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return file{open(t, f.path), f.path}
}

func TestStore(t *testing.T) {
	storagetest.Run(t, func(t testing.TB) storage.Store {
		path := filepath.Join(t.TempDir(), "tasks.db")
		return file{open(t, path), path}
	})
}

func TestAFileInUseIsLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.db")
	s := open(t, path)
	if _, err := sqlite.Open(t.Context(), path); !errors.Is(err, storage.ErrLocked) {
		t.Errorf("a second store opens with %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, path)
}

func TestBusinessDataSharesTheTransaction(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "tasks.db"))
	no := errors.New("no")
	for _, fail := range []error{no, nil} {
		err := s.Update(t.Context(), func(tx storage.Tx) error {
			if _, err := tx.Insert(t.Context(), &task.Task{ID: task.ID{1}, Version: 1, State: task.Submitted, Type: "mail"}); err != nil {
				return err
			}
			return errors.Join(sqlite.Conn(tx).Exec("CREATE TABLE paid (account TEXT); INSERT INTO paid VALUES ('a')"), fail)
		})
		if !errors.Is(err, fail) {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), task.ID{1}); errors.Is(err, task.ErrNotFound) != (fail != nil) {
			t.Errorf("after %v the task is read with %v", fail, err)
		}
		err = s.Update(t.Context(), func(tx storage.Tx) error {
			statement, _, err := sqlite.Conn(tx).Prepare("SELECT count(*) FROM paid")
			return errors.Join(err, statement.Close())
		})
		if (err == nil) != (fail == nil) {
			t.Errorf("after %v the account is read with %v", fail, err)
		}
	}
}

func TestAnEngineRunsItsTasks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.db")
	ran := make(chan string, 1)
	config := func(s storage.Store) engine.Config {
		return engine.Config{
			Store: s, Policies: policy.Set{Slots: 1, Types: map[string]policy.Type{"mail": policy.DefaultType()}},
			Handlers: map[string]task.Handler{"mail": task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) {
				ran <- string(t.Payload)
				return nil, nil
			})},
		}
	}
	s := open(t, path)
	e, err := engine.Open(t.Context(), config(s))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []engine.Request{{Type: "mail", Payload: []byte("now")}, {Type: "mail", Payload: []byte("later"), At: time.Now().Add(time.Hour)}} {
		if _, err := e.Submit(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if got := <-ran; got != "now" {
		t.Errorf("it runs %s", got)
	}
	if err := errors.Join(e.Close(t.Context()), s.Close()); err != nil {
		t.Fatal(err)
	}
	waiting := task.Waiting
	counts, err := open(t, path).Count(t.Context(), storage.Filter{States: []task.State{waiting}})
	if err != nil || len(counts) != 1 {
		t.Errorf("%v wait: %v", counts, err)
	}
}
