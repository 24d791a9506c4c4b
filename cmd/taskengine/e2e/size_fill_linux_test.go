//go:build !race

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/taskengine/taskengine/filter"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

const (
	sizeKinds = 40   // of errors
	sizeRare  = 5000 // tasks with an error of the first kind, but a quarter of the others at most
	sizeBatch = 1000 // rows of an insert
)

// sizeFiller makes the rows of [BenchmarkSize]: of ten, six are done, three wait for a time, and one is in error. A tenth of the rows has a type with search
// attributes: all that are in error. One in a thousand is a workflow.
type sizeFiller struct {
	rows       int
	ids        *task.IDs
	now        time.Time
	attributes []filter.Attribute
	rare       int // every so many of the rows in error has an error of the first kind
}

func newSizeFiller(t testing.TB, rows int) *sizeFiller {
	f := &sizeFiller{rows: rows, ids: task.NewIDs([32]byte{7}), now: time.Now(), rare: max(5, rows/10/sizeRare)}
	for _, text := range []string{"payload.customer", "payload.order", "headers.tenant"} {
		a, err := filter.ParseAttribute(text)
		if err != nil {
			t.Fatal(err)
		}
		f.attributes = append(f.attributes, a)
	}
	return f
}

// sizeError is the error of the nth row in error with an error of a kind.
func sizeError(kind, n int) string {
	return fmt.Sprintf("service %c%c at 10.0.%d.%d: no answer for order %d", 'a'+kind%26, 'a'+kind/26, n/250%250, n%250, n)
}

// kindOf returns the kind of the error of the nth row in error.
func (f *sizeFiller) kindOf(n int) int {
	if n%f.rare == 0 {
		return 0
	}
	return 1 + n%(sizeKinds-1)
}

// row returns row i of all.
func (f *sizeFiller) row(i int) *task.Task {
	at := task.Stamp(f.now.Add(time.Duration(i) * time.Microsecond))
	t := &task.Task{
		ID: f.ids.Next(at), Version: 1, Type: "mail", Priority: 5, CreatedAt: at, ReadyAt: at, UpdatedAt: at,
		Payload: fmt.Appendf(nil, `{"customer": %d, "order": %d, "text": "an order of %d things for customer %d, from the shop in %x"}`, i%1000, i, i%17, i%1000, i*7919),
	}
	t.Shard = t.ID.Shard()
	if i%100 == 7 {
		t.Key = fmt.Sprint("key ", i)
	}
	switch i % 10 {
	case 0:
		t.Type, t.State, t.Version, t.Attempt, t.Node, t.StartedAt = "order", task.Error, 3, 1, "n1", at
		t.LastError = sizeError(f.kindOf(i/10), i)
		t.Headers = map[string]string{"tenant": fmt.Sprint("t", i/10%10)}
		t.Search = filter.SearchValues(t.Type, f.attributes, t.Headers, t.Payload)
	case 1, 2, 3:
		t.State, t.ReadyAt = task.Waiting, at.Add(30*24*time.Hour)
		t.NextEventAt = t.ReadyAt
	default:
		t.State, t.Version, t.Attempt, t.Node, t.StartedAt, t.NextEventAt = task.Done, 3, 1, "n1", at, at.Add(7*24*time.Hour)
		if i%1000 == 999 {
			t.Type = task.WorkflowType
		}
	}
	return t
}

// fill inserts all rows.
func (f *sizeFiller) fill(t testing.TB, s storage.Store) {
	t.Helper()
	batch := make([]*task.Task, 0, sizeBatch)
	for i := range f.rows {
		if batch = append(batch, f.row(i)); len(batch) < sizeBatch && i+1 < f.rows {
			continue
		}
		if _, err := s.Insert(t.Context(), batch...); err != nil {
			t.Fatal(err)
		}
		batch = batch[:0]
	}
}
