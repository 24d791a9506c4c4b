package sharded_test

import (
	"os"
	"sync/atomic"
	"testing"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/placement"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/storage/sharded"
	"github.com/taskengine/taskengine/task"
)

var _ sharded.Backend = (*postgres.Store)(nil)

var server *pgtest.Server // set once, before the tests

func TestMain(m *testing.M) {
	os.Exit(pgtest.Run(m, func(s *pgtest.Server) { server = s }))
}

// database returns an empty database that is named.
func database(t testing.TB, name string) placement.Database {
	t.Helper()
	url := postgrestest.Tables(t, server)
	s, err := postgres.Open(t.Context(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return placement.Database{Name: name, Store: s}
}

func TestTasksLiveOnWhileTheirShardsAreMovedBetweenDatabases(t *testing.T) {
	a, b := database(t, "a"), database(t, "b")
	if _, err := placement.Divide(t.Context(), a, b); err != nil {
		t.Fatal(err)
	}
	s, err := sharded.Open(t.Context(), []sharded.Database{{Name: "a", Store: a.Store}, {Name: "b", Store: b.Store}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	var lives atomic.Int64
	enough, ended := make(chan struct{}), make(chan []*task.Task)
	go func() {
		var all []*task.Task
		defer func() { ended <- all }()
		for {
			select {
			case <-enough:
				return
			default:
			}
			rows := make([]*task.Task, 64)
			for i := range rows {
				rows[i] = row(uint16(i * task.ShardCount / len(rows)))
			}
			all = append(all, rows...)
			if !live(t, s, rows) {
				return
			}
			lives.Add(1)
		}
	}()
	for range 2 {
		for before := lives.Load(); lives.Load() == before && !t.Failed(); {
			if _, err := s.Queues(t.Context(), task.Queue{}, 10); err != nil {
				t.Fatal(err)
			}
		}
		if err := placement.Move(t.Context(), a, b, shards(0, 63), nil); err != nil {
			t.Error(err)
		}
		a, b = b, a
	}
	close(enough)
	all := <-ended
	for _, r := range all {
		if got, err := s.Get(t.Context(), r.ID); err != nil || got.State != task.Done || got.Version != 3 || got.Seq == 0 {
			t.Errorf("got %v, %v", got, err)
		}
	}
	count, err := s.Count(t.Context(), storage.Filter{})
	if n := count[storage.StateType{State: task.Done, Type: "mail"}]; err != nil || len(count) != 1 || n != int64(len(all)) {
		t.Errorf("%v of %d tasks are done, %v", count, len(all), err)
	}
}

// live takes rows through their lives, and reports whether it could.
func live(t *testing.T, s *sharded.Store, rows []*task.Task) bool {
	for _, to := range []task.State{task.Submitted, task.Processing, task.Done} {
		b := &storage.Batch{}
		for _, r := range rows {
			if to == task.Submitted {
				b.Insert = append(b.Insert, r)
			} else {
				b.Swap = append(b.Swap, task.Change{Ref: r.Ref(), To: to, At: epoch, Owner: task.ID{1}, Outcome: task.Completed})
			}
		}
		out, err := commit(t.Context(), s, b)
		if err != nil {
			t.Error(err)
			return false
		}
		for i, r := range rows {
			switch {
			case to == task.Submitted && !out.Inserted[i].Created() || to != task.Submitted && out.Swapped[i] == nil:
				t.Errorf("%v could not become %v", r.ID, to)
				return false
			case to != task.Submitted:
				r.Version = out.Swapped[i].Version
			}
		}
	}
	return true
}
