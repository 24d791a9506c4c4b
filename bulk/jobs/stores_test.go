//go:build !race

package jobs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/taskengine/taskengine/bulk"
	"github.com/taskengine/taskengine/bulk/jobs"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/bolt"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/placement"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/storage/sharded"
	"github.com/taskengine/taskengine/storage/storagetest"
)

var server *pgtest.Server // set once, before the tests

func TestMain(m *testing.M) {
	s, err := pgtest.Start("max_connections=200")
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

// part is a database of several, with faults.
type part struct {
	storage.Store // with faults
	storage.ShardOwner
	storage.Shared
	storage.LiveCounter
	storage.Settings
	storage.Expirer
	storage.Ruled
	storage.Exporter
	storage.KeyFinder
}

// stores are the stores on which jobs are compared with a model.
func stores() map[string]func(*testing.T, *storm) storage.Store {
	return map[string]func(*testing.T, *storm) storage.Store{
		"memory": func(_ *testing.T, s *storm) storage.Store { return s.below(memory.New()) },
		"bolt": func(t *testing.T, s *storm) storage.Store {
			store, err := bolt.Open(filepath.Join(t.TempDir(), "tasks.db"), bolt.Options{})
			if err != nil {
				t.Fatal(err)
			}
			closeWith(t, store)
			return s.below(store)
		},
		"postgres": func(t *testing.T, s *storm) storage.Store {
			return s.below(postgrestest.Open(t, postgrestest.Tables(t, server)))
		},
		"two databases": func(t *testing.T, s *storm) storage.Store {
			var all []placement.Database
			var parts []sharded.Database
			for _, name := range []string{"a", "b"} {
				store, err := postgres.Open(t.Context(), postgrestest.Tables(t, server), postgres.Options{})
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, placement.Database{Name: name, Store: store})
				parts = append(parts, sharded.Database{Name: name, Store: part{storagetest.Faulty(store, s.decide), store, store, store, store, store, store, store, store}})
			}
			if _, err := placement.Divide(t.Context(), all...); err != nil {
				t.Fatal(err)
			}
			store, err := sharded.Open(t.Context(), parts, nil)
			if err != nil {
				t.Fatal(err)
			}
			closeWith(t, store)
			return store
		},
	}
}

func closeWith(t *testing.T, s storage.Store) {
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestAPreviewSaysHowManyRowsItHasReadOfHowMany(t *testing.T) {
	t.Parallel()
	store, err := bolt.Open(filepath.Join(t.TempDir(), "tasks.db"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	n := start(t, store)
	n.add("pay", 20)
	n.add("mail", 5)
	for where, want := range map[string]jobs.Preview{
		"type=pay error~503":                {Read: 25, Total: 25, Index: "state"},
		"type=pay state=error error~nobody": {Read: 25, Total: 25, Index: "state"},
	} {
		p, err := n.Preview(t.Context(), new(n.prepare(bulk.Resume, where)))
		if err != nil || p.Read != want.Read || p.Total != want.Total || p.Index != want.Index {
			t.Errorf("%s: read were %d of %d by %q, want %d of %d by %q: %v", where, p.Read, p.Total, p.Index, want.Read, want.Total, want.Index, err)
		}
	}
}
