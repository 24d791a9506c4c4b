package postgres_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

// A signal and the end of a child that another transaction delivers while the end of the attempt waits for it are in the row then: the wait is
// over at once.
func TestTheEndOfAnAttemptSeesWhatItHasWaitedFor(t *testing.T) {
	t.Parallel()
	url := server.Database(t)
	s, c := postgrestest.Open(t, url), pgtest.Connect(t, url)
	ids, now := task.NewIDs([32]byte{1}), time.Now().UTC().Truncate(time.Second)
	for by, delivery := range map[task.WakeBy]task.Change{
		task.BySignal:   {At: now, Signal: &task.Delivery{Signal: task.Signal{ID: task.ID{1}, Name: "paid"}, Keep: true}},
		task.ByChildren: {At: now, Ends: &task.ChildEnds{Name: "page", Ends: []task.ChildEnd{{State: task.Done}}}},
	} {
		r := &task.Task{ID: ids.Next(now), Type: "order", Version: 1, State: task.Processing, Owner: task.ID{9}, CreatedAt: now, ReadyAt: now, UpdatedAt: now, StartedAt: now}
		r.Children = &task.Children{Sets: []task.ChildSet{{Name: "page", Added: 1}}}
		if _, err := s.Insert(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		end := task.Change{
			Ref: r.Ref(), By: r.Owner, To: task.Waiting, At: now, Outcome: task.Completed, Count: task.Reset,
			Await: &task.Await{Names: []string{"paid", task.AwaitsChildren}, Children: []task.ChildrenWait{{Name: "page"}}},
		}
		delivery.ID = r.ID
		made := make(chan *task.Task, 1)
		err := s.Update(t.Context(), func(tx storage.Tx) error {
			if rows, err := tx.Swap(t.Context(), delivery); err != nil || rows[0] == nil {
				return fmt.Errorf("the delivery: %v, %w", rows, err)
			}
			go func() {
				var row *task.Task
				for { // a slow machine may make it wait for too long
					rows, err := s.Swap(context.WithoutCancel(t.Context()), end)
					if err == nil {
						row = rows[0]
						break
					}
				}
				made <- row
			}()
			for one[int](t, c, "select count(*) from pg_locks where not granted") == 0 {
				time.Sleep(time.Millisecond)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := <-made; got == nil || got.State != task.Submitted || got.Woken().By != by {
			t.Errorf("the end of the attempt makes %v, want one that is woken by %v", got, by)
		}
	}
}

// Contents that are so long that the server keeps them beside the row are kept, and not written again, by an end that does not change them.
func TestTheEndOfAnAttemptKeepsLongContents(t *testing.T) {
	t.Parallel()
	url := server.Database(t)
	s, c := postgrestest.Open(t, url), pgtest.Connect(t, url)
	ids, now := task.NewIDs([32]byte{1}), time.Now().UTC().Truncate(time.Second)
	long := bytes.Repeat([]byte("payload "), 100_000)
	r := &task.Task{ID: ids.Next(now), Type: "order", Version: 1, State: task.Processing, Owner: task.ID{9}, CreatedAt: now, ReadyAt: now, UpdatedAt: now, StartedAt: now, Payload: long}
	if _, err := s.Insert(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	end := task.Change{Ref: r.Ref(), By: r.Owner, To: task.Waiting, At: now, Outcome: task.Completed, Count: task.Reset, Await: &task.Await{Names: []string{"paid"}}}
	chunks := "select string_agg(distinct chunk_id::text, ' ') from " + one[string](t, c, "select reltoastrelid::regclass::text from pg_class where oid = 'taskengine.task'::regclass")
	before := one[string](t, c, chunks)
	if rows, err := s.Swap(t.Context(), end); err != nil || rows[0] == nil {
		t.Fatal(rows, err)
	}
	if after := one[string](t, c, chunks); after != before || after == "" {
		t.Errorf("the content is kept as %q, and was kept as %q", after, before)
	}
	if got, err := s.Get(t.Context(), r.ID); err != nil || !bytes.Equal(got.Payload, long) {
		t.Errorf("the payload has %d bytes, %v", len(got.Payload), err)
	}
}
