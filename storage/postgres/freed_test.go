package postgres_test

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

// A request finds its key taken and waits for another key of its statement. Meanwhile the task that has the key is deleted.
// Before, the answer was that the task of the request exists, and it did not.
func TestATaskIsAddedThoughItsKeyBecomesFreeWhileOthersAreClaimed(t *testing.T) {
	t.Parallel()
	for name, insert := range map[string]func(s storage.Store, rows []*task.Task) ([]storage.Inserted, error){
		"by a batch": func(s storage.Store, rows []*task.Task) ([]storage.Inserted, error) {
			out, err := s.Commit(t.Context(), &storage.Batch{Insert: rows, Wait: storage.WaitLong}).Wait()
			return out.Inserted, err
		},
		"by a verb": func(s storage.Store, rows []*task.Task) ([]storage.Inserted, error) {
			return s.Insert(t.Context(), rows...)
		},
		"in a transaction": func(s storage.Store, rows []*task.Task) (out []storage.Inserted, err error) {
			err = s.Update(t.Context(), func(tx storage.Tx) (err error) {
				out, err = tx.Insert(t.Context(), rows...)
				return err
			})
			return out, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := server.Database(t)
			s, other, look := postgrestest.Open(t, url), pgtest.Connect(t, url), pgtest.Connect(t, url)
			ids, now := task.NewIDs([32]byte{1}), time.Now().UTC().Truncate(time.Second)
			row := func(key string) *task.Task {
				r := &task.Task{ID: ids.Next(now), Type: "mail", Key: key}
				r.Create(task.Submitted, now, time.Time{})
				return r
			}
			holder := row("a")
			if _, err := s.Insert(t.Context(), holder); err != nil {
				t.Fatal(err)
			}
			mustAdd(t, other, "'mail', key => 'warms up'")
			pgtest.Exec(t, other, "begin", "select taskengine.add('mail', key => 'b')")
			rows := []*task.Task{row("a"), row("b")}
			type answer struct {
				out []storage.Inserted
				err error
			}
			answers := make(chan answer, 1)
			go func() {
				out, err := insert(s, rows)
				answers <- answer{out, err}
			}()
			for one[int](t, look, "select count(*) from pg_locks where not granted and locktype = 'transactionid'") == 0 {
				select {
				case got := <-answers:
					t.Fatalf("it did not wait: %+v", got)
				default:
				}
			}
			pgtest.Exec(t, look, "delete from taskengine.task where id = '"+holder.ID.String()+"'", "delete from taskengine.key where id = '"+holder.ID.String()+"'")
			pgtest.Exec(t, other, "rollback")
			got := <-answers
			if got.err != nil || !got.out[0].Created() || !got.out[1].Created() {
				t.Errorf("it answers %+v", got)
			}
			for _, r := range rows {
				if _, err := s.Get(t.Context(), r.ID); err != nil {
					t.Errorf("the task of key %s: %v", r.Key, err)
				}
			}
		})
	}
}
