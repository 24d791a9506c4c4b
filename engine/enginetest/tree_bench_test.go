//go:build !race

package enginetest_test

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

// BenchmarkCancelTree measures how long it takes to cancel a task with 100,000 children of 100 bytes by one call.
func BenchmarkCancelTree(b *testing.B) {
	for name, open := range map[string]func() storage.Store{
		"pebble":   func() storage.Store { return openPebble(b, b.TempDir()) },
		"postgres": func() storage.Store { return openPostgres(b, postgrestest.Tables(b, server)) },
	} {
		b.Run(name, func(b *testing.B) { benchmarkCancelTree(b, open()) })
	}
}

func benchmarkCancelTree(b *testing.B, store storage.Store) {
	const children = 100_000
	p := policy.DefaultType()
	e, err := engine.Open(b.Context(), engine.Config{Store: store, Policies: policy.Set{Slots: 8, Types: map[string]policy.Type{"tree": p}}})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close(b.Context())
	for b.Loop() {
		b.StopTimer()
		family := &task.NewChildren{Sets: []task.ChildRequests{{Name: "c"}}}
		for range children {
			family.Sets[0].Requests = append(family.Sets[0].Requests, task.Request{Type: "tree", Payload: make([]byte, 100), At: time.Now().Add(time.Hour)})
		}
		receipts, err := e.Submit(b.Context(), engine.Request{Type: "tree", Children: family})
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		tree, err := e.CancelTree(b.Context(), receipts[0].ID, engine.TreeCancel{})
		if err != nil || tree.Cancelled != children+1 {
			b.Fatalf("%d were cancelled: %v", tree.Cancelled, err)
		}
	}
}
