//go:build !race

package enginetest_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/taskengine/taskengine/codec"
	"github.com/taskengine/taskengine/engine/enginetest"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/bolt"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/storage/pebble"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
)

// The race detector sees the same engine on memory, these stores in their own suites, and PostgreSQL below an engine in
// the scenarios of clusters. With it Pebble also checks its own invariants, which takes six times the processor.

var server *pgtest.Server // set once, before the tests

func TestMain(m *testing.M) {
	s, err := pgtest.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	server = s
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := s.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
		os.Exit(code)
	}))
}

func TestOnMemoryEncrypted(t *testing.T) {
	both, err := codec.New(codec.Config{CompressAbove: 100, Keys: map[string][]byte{"k": make([]byte, codec.KeySize)}, Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	enginetest.Run(t, enginetest.Config{
		Open: func(testing.TB) storage.Store { return memory.New() }, Codec: both,
	})
}

func TestOnPebble(t *testing.T) {
	enginetest.Run(t, enginetest.Config{
		Open: func(t testing.TB) storage.Store { return openPebble(t, filepath.Join(t.TempDir(), "tasks")) },
	})
}

func TestOnBolt(t *testing.T) {
	enginetest.Run(t, enginetest.Config{
		Open: func(t testing.TB) storage.Store { return openBolt(t, filepath.Join(t.TempDir(), "tasks.db")) },
	})
}

func TestOnPostgres(t *testing.T) {
	enginetest.Run(t, enginetest.Config{
		Open: func(t testing.TB) storage.Store { return openPostgres(t, postgrestest.Tables(t, server)) },
	})
}

// onBolt is a store that can be reopened.
type onBolt struct {
	*bolt.Store
	path string
}

func openBolt(t testing.TB, path string) onBolt {
	t.Helper()
	s, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	closeWith(t, s)
	return onBolt{s, path}
}

func (s onBolt) Reopen(t testing.TB) storage.Store {
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return openBolt(t, s.path)
}

// Copy opens a backup of the store.
func (s onBolt) Copy(t testing.TB) storage.Store {
	return openBolt(t, filepath.Join(backup(t, s), filepath.Base(s.path)))
}

// onPostgres is a store that can be reopened.
type onPostgres struct {
	*postgres.Store
	url string
}

func openPostgres(t testing.TB, url string) onPostgres {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	closeWith(t, s)
	return onPostgres{s, url}
}

func (s onPostgres) Reopen(t testing.TB) storage.Store {
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return openPostgres(t, s.url)
}

// onPebble is a store that can be reopened.
type onPebble struct {
	*pebble.Store
	dir string
}

func openPebble(t testing.TB, dir string) onPebble {
	t.Helper()
	// Small, because the memory for the tables is allocated at once.
	s, err := pebble.Open(dir, pebble.Options{CacheSize: 4 << 20, MemTableSize: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	closeWith(t, s)
	return onPebble{s, dir}
}

func (s onPebble) Reopen(t testing.TB) storage.Store {
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return openPebble(t, s.dir)
}

// Copy opens a backup of the store.
func (s onPebble) Copy(t testing.TB) storage.Store { return openPebble(t, backup(t, s)) }

// backup makes a backup, and returns its folder.
func backup(t testing.TB, s storage.Backuper) string {
	t.Helper()
	folder := t.TempDir()
	err := s.Backup(t.Context(), func(name string, _ int64, content io.Reader) error {
		f, err := os.Create(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		_, err = io.Copy(f, content)
		return errors.Join(err, f.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

func closeWith(t testing.TB, s storage.Store) {
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
