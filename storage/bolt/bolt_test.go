package bolt_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/bolt"
	"github.com/taskengine/taskengine/storage/storagetest"
	"github.com/taskengine/taskengine/task"
)

// moment is when the tests take place.
var moment = time.Date(2024, time.March, 1, 12, 0, 0, 0, time.UTC)

func TestStore(t *testing.T) {
	storagetest.Run(t, func(t testing.TB) storage.Store {
		path := filepath.Join(t.TempDir(), "tasks.db")
		return underTest{open(t, path), path}
	})
}

func TestAFileThatIsRemovedStopsTheStore(t *testing.T) {
	storagetest.RunGone(t, func(path string) (storage.Store, error) { return bolt.Open(path, bolt.Options{}) })
}

// open opens a store that is closed with the test.
func open(t testing.TB, path string) *bolt.Store {
	t.Helper()
	s, err := bolt.Open(path, bolt.Options{})
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

// underTest is a store that can be reopened.
type underTest struct {
	*bolt.Store
	path string
}

func (s underTest) Reopen(t testing.TB) storage.Store {
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return underTest{open(t, s.path), s.path}
}

func (s underTest) Restore(t testing.TB, folder string) storage.Store {
	return open(t, filepath.Join(folder, filepath.Base(s.path)))
}

func TestBusinessDataSharesTheTransaction(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "tasks.db"))
	pay := func(id task.ID, fail error) error {
		return s.Update(t.Context(), func(tx storage.Tx) error {
			accounts, err := tx.(*bolt.Tx).Bolt().CreateBucketIfNotExists([]byte("accounts"))
			if err != nil {
				return err
			}
			if err := accounts.Put(id[:], []byte("paid")); err != nil {
				return err
			}
			if _, err := tx.Insert(t.Context(), &task.Task{ID: id, Version: 1, State: task.Submitted, Type: "mail"}); err != nil {
				return err
			}
			return fail
		})
	}
	paid := func(id task.ID) (account, mail bool) {
		err := s.Update(t.Context(), func(tx storage.Tx) error {
			if accounts := tx.(*bolt.Tx).Bolt().Bucket([]byte("accounts")); accounts != nil {
				account = accounts.Get(id[:]) != nil
			}
			_, err := tx.Get(t.Context(), id)
			mail = err == nil
			if errors.Is(err, task.ErrNotFound) {
				err = nil
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return account, mail
	}
	no := errors.New("no")
	if err := pay(task.ID{1}, no); !errors.Is(err, no) {
		t.Fatal(err)
	}
	if account, mail := paid(task.ID{1}); account || mail {
		t.Fatalf("after a rollback: account %t, mail %t", account, mail)
	}
	if err := pay(task.ID{2}, nil); err != nil {
		t.Fatal(err)
	}
	if account, mail := paid(task.ID{2}); !account || !mail {
		t.Fatalf("after a commit: account %t, mail %t", account, mail)
	}
}

func TestOpenExplainsItself(t *testing.T) {
	t.Run("a missing folder is named", func(t *testing.T) {
		_, err := bolt.Open(filepath.Join(t.TempDir(), "missing", "tasks.db"), bolt.Options{})
		if !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	})
	t.Run("a file in use is locked", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "tasks.db")
		open(t, path)
		if _, err := bolt.Open(path, bolt.Options{}); !errors.Is(err, storage.ErrLocked) {
			t.Fatal(err)
		}
	})
	t.Run("a file that is none of bolt's is left alone", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "tasks.db")
		text := []byte("something else, of more than a few bytes\n")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := bolt.Open(path, bolt.Options{}); err == nil {
			t.Fatal("it was opened")
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != string(text) {
			t.Fatalf("the file is now %q (%v)", after, err)
		}
	})
	t.Run("a newer format is refused", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "tasks.db")
		s := open(t, path)
		if err := s.Update(t.Context(), func(tx storage.Tx) error {
			return tx.(*bolt.Tx).Bolt().Bucket([]byte("taskengine")).SetSequence(99)
		}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := bolt.Open(path, bolt.Options{}); !errors.Is(err, storage.ErrFormat) {
			t.Fatal(err)
		}
	})
	t.Run("a file that may not be written is named", func(t *testing.T) {
		denied := &os.PathError{Op: "open", Path: "tasks.db", Err: os.ErrPermission}
		_, err := bolt.Open(filepath.Join(t.TempDir(), "tasks.db"), bolt.Options{
			OpenFile: func(string, int, os.FileMode) (*os.File, error) { return nil, denied },
		})
		if !errors.Is(err, os.ErrPermission) {
			t.Fatal(err)
		}
	})
}

// TestWhatIsLeftOfABackupGoesWhenTheFileIsOpened leaves a file as a process that was killed does.
func TestWhatIsLeftOfABackupGoesWhenTheFileIsOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.db")
	left := path + ".backup-partial"
	if err := os.WriteFile(left, []byte("a part"), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, path)
	if _, err := os.Stat(left); err == nil {
		t.Error("old files are still there")
	}
}
