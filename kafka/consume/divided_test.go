package consume_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/kafka/consume"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/placement"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/storage/sharded"
	"github.com/taskengine/taskengine/task"
)

// divided is a store of two databases, some of whose transactions fail: before they begin, and after their commit.
type divided struct {
	*sharded.Store
	databases [2]placement.Database

	mu   sync.Mutex
	left int // guarded by mu: transactions until none fails any more
}

func newDivided(t *testing.T) *divided {
	t.Helper()
	server, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	d := new(divided)
	for i, name := range []string{"a", "b"} {
		url := postgrestest.Tables(t, server)
		s, err := postgres.Open(t.Context(), url, postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		d.databases[i] = placement.Database{Name: name, Store: s}
	}
	a, b := d.databases[0], d.databases[1]
	if _, err := placement.Divide(t.Context(), a, b); err != nil {
		t.Fatal(err)
	}
	if d.Store, err = sharded.Open(t.Context(), []sharded.Database{{Name: "a", Store: a.Store}, {Name: "b", Store: b.Store}}, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// UpdateIn implements [storage.Divided].
func (d *divided) UpdateIn(ctx context.Context, database int, fn func(storage.Tx) error) error {
	errFault := errors.New("a fault")
	d.mu.Lock()
	n := d.left
	d.left = max(0, n-1)
	d.mu.Unlock()
	if n%4 == 1 {
		return errFault
	}
	err := d.Store.UpdateIn(ctx, database, fn)
	if err == nil && n%4 == 3 {
		return errFault
	}
	return err
}

// Records that could not be read are resumed after the source was corrected, and most of their tasks belong to the other
// database than the records. Transactions fail, so that some attempts end when a task has left and before it has arrived.
func TestARecordThatCouldNotBeReadBecomesItsTaskInAnotherDatabase(t *testing.T) {
	t.Parallel()
	const records = 40
	c, _ := newFake(t, "a")
	store := newDivided(t)
	d := definition("orders", "a")
	d.OrderingKey, d.Key = "", "value.id"
	n := &node{t: t, cluster: c, store: store}
	for i := range records {
		produce(t, c, &kgo.Record{Topic: "a", Key: fmt.Append(nil, "key ", i), Value: fmt.Append(nil, i)})
	}
	n.open(d)
	t.Cleanup(func() { n.close() })
	unread := func() []*task.Task {
		rows, _, err := n.List(t.Context(), storage.Filter{Types: []string{consume.UnreadTypeOf("orders")}, States: []task.State{task.Error}}, task.ID{}, 2*records)
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	n.await("the records", func() bool { return len(unread()) == records })
	n.close()
	d.Key, d.OrderingKey = "", "key"
	n.open(d)
	store.mu.Lock()
	store.left = 100
	store.mu.Unlock()
	n.await("their tasks", func() bool {
		for _, u := range unread() { // once more, if their attempts have failed
			if _, err := n.Resume(t.Context(), u.Ref()); err != nil {
				t.Fatal(err)
			}
		}
		tasks, _ := n.ran()
		return tasks == records && len(unread()) == 0
	})
	if _, most := n.ran(); most != 1 || n.inserted() != records {
		t.Errorf("%d tasks have run for %d records, one record %d times", n.inserted(), records, most)
	}
	for _, of := range store.databases {
		page, err := of.Store.List(t.Context(), storage.ListQuery{Filter: storage.Filter{Types: []string{"order"}}, Limit: 2 * records, Scan: 1000})
		rows := page.Tasks
		if err != nil || len(rows) == 0 || len(rows) == records {
			t.Errorf("database %s has %d tasks: %v", of.Name, len(rows), err)
		}
	}
}
