package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

// A connection that does not answer is given up. The store then works with another one.
func TestANetworkThatSwallowsEverythingIsNotWaitedForForever(t *testing.T) {
	url := server.Database(t)
	s := postgrestest.Open(t, url)
	row := &task.Task{ID: task.ID{1}, Version: 1, State: task.Submitted, Type: "mail"}
	if _, err := s.Insert(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	// A server that does not answer is like a network that drops all packets.
	c := pgtest.Connect(t, url)
	pgtest.Exec(t, c, `create function taskengine.sleep() returns trigger language plpgsql as 'begin perform pg_sleep(600); return new; end'`,
		"create trigger sleep before update on taskengine.task for each row execute function taskengine.sleep()")
	grab := task.Change{Ref: row.Ref(), To: task.Processing, At: moment}
	var timeout net.Error
	if _, err := s.Swap(t.Context(), grab); !errors.Is(err, context.DeadlineExceeded) && !(errors.As(err, &timeout) && timeout.Timeout()) {
		t.Errorf("got %v", err)
	}
	pgtest.Exec(t, c, "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and wait_event = 'PgSleep'",
		"drop trigger sleep on taskengine.task")
	// It is unknown whether the first one was made.
	if _, err := s.Swap(t.Context(), grab); err != nil {
		t.Error(err)
	}
	if got, err := s.Get(t.Context(), row.ID); err != nil || got.State != task.Processing || got.Version != 2 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A row that another transaction has locked fails the batch that needs it, with an error that says so,
// before the connection is given up. Nothing of the batch is done, and the rest of it succeeds on its
// own.
func TestALockedRowFailsItsBatchAndIsReported(t *testing.T) {
	url := server.Database(t)
	s := postgrestest.Open(t, url)
	row := func(id byte) *task.Task {
		return &task.Task{ID: task.ID{id}, Version: 1, State: task.Submitted, Type: "mail", Key: string(rune('a' + id))}
	}
	locked, free, other := row(1), row(2), row(3)
	if _, err := s.Insert(t.Context(), locked, free); err != nil {
		t.Fatal(err)
	}
	c := pgtest.Connect(t, url)
	pgtest.Exec(t, c, "begin", "select from taskengine.task where id = '01000000-0000-0000-0000-000000000000' for update",
		"insert into taskengine.key (type, ordering_key, key, id) values ('mail', '', 'e', '04000000-0000-0000-0000-000000000000')")
	grab := func(t *task.Task) task.Change { return task.Change{Ref: t.Ref(), To: task.Processing, At: moment} }
	reject := grab(locked)
	reject.To, reject.Error = task.Error, "no"
	for what, b := range map[string]*storage.Batch{
		"a grab":        {Insert: []*task.Task{other}, Swap: []task.Change{grab(free), grab(locked)}},
		"another edit":  {Insert: []*task.Task{other}, Swap: []task.Change{grab(free), reject}},
		"a unique key":  {Insert: []*task.Task{other, row(4)}, Swap: []task.Change{grab(free)}},
		"its own error": {Insert: []*task.Task{row(4)}},
	} {
		if _, err := s.Commit(t.Context(), b).Wait(); !errors.Is(err, storage.ErrRefused) || errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := s.Get(t.Context(), other.ID); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("%s: a part of the batch was done: %v", what, err)
		}
		if got, err := s.Get(t.Context(), free.ID); err != nil || got.Version != 1 {
			t.Errorf("%s: a part of the batch was done: %+v, %v", what, got, err)
		}
	}
	rest := &storage.Batch{Insert: []*task.Task{other}, Swap: []task.Change{grab(free)}}
	if out, err := s.Commit(t.Context(), rest).Wait(); err != nil || !out.Inserted[0].Created() || out.Swapped[0] == nil {
		t.Errorf("rows that are not locked: %+v, %v", out, err)
	}
	pgtest.Exec(t, c, "rollback")
	for _, b := range []*storage.Batch{{Insert: []*task.Task{row(4)}}, {Swap: []task.Change{grab(locked)}}} {
		var blocked *storage.Blocked
		if _, err := s.Commit(t.Context(), b).Wait(); err != nil && !errors.As(err, &blocked) {
			t.Errorf("a row that was locked a moment ago: %v", err)
		}
		b.Wait = storage.WaitLong
		if _, err := s.Commit(t.Context(), b).Wait(); blocked != nil && err != nil {
			t.Errorf("a row that is not locked any more: %v", err)
		}
	}
	out, err := s.Commit(t.Context(), &storage.Batch{Insert: []*task.Task{row(4)}, Swap: []task.Change{grab(locked)}}).Wait()
	if err != nil || out.Inserted[0].Created() || out.Swapped[0] != nil {
		t.Errorf("the same again: %+v, %v", out, err)
	}
}

// Tasks can be added, found and changed while queries use all connections that are not reserved for
// writes.
func TestSlowQueriesOfOthersTakeNoConnectionFromWrites(t *testing.T) {
	for _, conns := range []int{2, 4, 6} {
		t.Run(fmt.Sprint(conns, " connections"), func(t *testing.T) {
			url := server.Database(t)
			c, outside := pgtest.Connect(t, url), pgtest.Connect(t, url) // outside of the transaction of c
			s := postgrestest.Open(t, fmt.Sprint(url, "&application_name=under_test&pool_max_conns=", conns))
			pgtest.Exec(t, c, "begin", "select pg_advisory_xact_lock(1)")
			var slow sync.WaitGroup
			for range 48 {
				slow.Go(func() {
					if _, err := s.Pool().Exec(t.Context(), "select pg_advisory_xact_lock_shared(1)"); err != nil {
						t.Error(err)
					}
				})
			}
			for busy := s.Pool().Stat(); busy.AcquiredConns() < busy.MaxConns(); busy = s.Pool().Stat() {
				runtime.Gosched()
			}
			var tasks sync.WaitGroup
			for i := range byte(20) {
				tasks.Go(func() {
					row := &task.Task{ID: task.ID{1, i}, Version: 1, State: task.Submitted, Type: "mail"}
					if _, err := s.Commit(t.Context(), &storage.Batch{Insert: []*task.Task{row}}).Wait(); err != nil {
						t.Error(err)
					}
					if got, err := s.Get(t.Context(), row.ID); err != nil || got.State != task.Submitted {
						t.Errorf("got %+v, %v", got, err)
					}
					if page, err := s.Ready(t.Context(), storage.ReadyQuery{Queue: row.Queue(), Limit: 100}); err != nil || len(page) == 0 {
						t.Errorf("ready: %v, %v", page, err)
					}
					if _, err := s.Swap(t.Context(), task.Change{Ref: row.Ref(), To: task.Cancelled, At: moment}); err != nil {
						t.Error(err)
					}
				})
			}
			tasks.Wait()
			// The server shows a connection for a moment that was closed.
			for begin := time.Now(); ; time.Sleep(time.Millisecond) {
				n := one[int](t, outside, "select count(*) from pg_stat_activity where application_name = 'under_test'")
				if n <= conns+7 { // seven for statements that may wait for locks
					break
				}
				if time.Since(begin) > 3*time.Minute {
					t.Errorf("%d connections, of at most %d, and seven more for statements that may wait", n, conns)
					break
				}
			}
			pgtest.Exec(t, c, "rollback")
			slow.Wait()
		})
	}
}

// A row that another transaction has locked fails the changes that need it, and no others of the same
// batch.
func TestALockedRowFailsNoUnrelatedSubmit(t *testing.T) {
	url := server.Database(t)
	n := alone(t, url, types("work"), map[string]work{"work": nothing})
	id := n.submit(engine.Request{Type: "work", At: time.Now().Add(time.Hour)})
	row, err := n.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	c := pgtest.Connect(t, url)
	pgtest.Exec(t, c, "begin", "select from taskengine.task for update")
	var all sync.WaitGroup
	for range 3 { // operators try again
		all.Go(func() {
			if _, err := n.Cancel(t.Context(), row.Ref(), "not needed"); !errors.Is(err, storage.ErrRefused) {
				t.Errorf("a cancel of the locked row: %v", err)
			}
		})
	}
	for range 100 {
		all.Go(func() {
			receipts, err := n.Submit(t.Context(), engine.Request{Type: "work"})
			if err != nil {
				t.Errorf("an unrelated submit: %v", err)
				return
			}
			n.end(receipts[0].ID, task.Done)
		})
	}
	all.Wait()
	pgtest.Exec(t, c, "rollback")
	if got, err := n.Cancel(t.Context(), row.Ref(), "not needed"); err != nil || got.State != task.Cancelled {
		t.Errorf("when it is not locked any more: %+v, %v", got, err)
	}
}

func TestAnEmptyBatchFindsOutWhetherTheDatabaseAnswers(t *testing.T) {
	own, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := own.Close(); err != nil {
			t.Error(err)
		}
	})
	s := postgrestest.Open(t, own.Database(t))
	for _, answers := range []bool{true, false} {
		if _, err := s.Commit(t.Context(), new(storage.Batch)).Wait(); answers == storage.IsOutage(err) {
			t.Errorf("the database answers: %v, and a batch ends with %v", answers, err)
		}
		if answers {
			if err := own.Crash(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
