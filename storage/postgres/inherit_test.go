//go:build !race

package postgres_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

// heir returns a new row of an ordering key and of a type that inherits.
func heir(n byte, key string, priority uint8) *task.Task {
	t := ordered(n, key)
	t.Priority, t.Inherits, t.ReadyAt = priority, true, t.ReadyAt.Add(-time.Hour)
	return t
}

func TestTasksFromSQLInheritIfTheirTypeDoes(t *testing.T) {
	url := server.Database(t)
	s, c := postgrestest.Open(t, url), pgtest.Connect(t, url)
	if err := s.SetRules(t.Context(), storage.TypeRules{Type: "mail", Priority: 5, Inherits: true}, storage.TypeRules{Type: "sms", Priority: 5}); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]task.Task{
		"'mail', ordering_key => 'k'":                                            {Priority: 5, Inherits: true},
		"'mail', ordering_key => 'k', priority => 9, headers => '{\"a\":\"b\"}'": {Priority: 9, Inherits: true, Headers: map[string]string{"a": "b"}},
		"'mail', headers => '{\"a\":\"b\"}'":                                     {Priority: 5, Headers: map[string]string{"a": "b"}},
		"'sms', ordering_key => 'k', headers => '{\"\":\"\"}'":                   {Priority: 5, Headers: map[string]string{"": ""}},
	} {
		got, err := s.Get(t.Context(), mustAdd(t, c, args).id)
		if err != nil {
			t.Fatal(err)
		}
		if got := (task.Task{Priority: got.Priority, Inherits: got.Inherits, Headers: got.Headers}); !cmp.Equal(got, want) {
			t.Errorf("add(%s) makes %+v, want %+v", args, got, want)
		}
	}
}

// The columns priority and boost together give its own priority.
func TestAHeadThatEndsOrYieldsGetsItsOwnPriorityBack(t *testing.T) {
	s := postgrestest.Open(t, postgrestest.Tables(t, server))
	ids := make(map[string]task.ID)
	for _, key := range []string{"done", "ended by SQL", "again by SQL", "yields"} {
		head := heir(1, key, 7)
		ids[key] = head.ID
		commit(t, s, &storage.Batch{Insert: []*task.Task{head, heir(2, key, 2)}})
		if got, err := s.Get(t.Context(), head.ID); err != nil || got.Turn != task.Head || got.Priority != 7 || got.Boost != 5 || !got.Inherits {
			t.Fatalf("the head of %s is %+v, %v", key, got, err)
		}
		if key == "yields" {
			commit(t, s, &storage.Batch{Insert: []*task.Task{heir(0, key, 9)}})
			continue
		}
		now := time.Now()
		out := commit(t, s, &storage.Batch{Swap: []task.Change{{Ref: head.Ref(), To: task.Processing, At: now, NextEventAt: now.Add(time.Hour), Owner: task.ID{1}, OrderingKey: key}}})
		if out.Swapped[0] == nil || out.Swapped[0].Boost != 5 || out.Swapped[0].Priority != 7 {
			t.Fatalf("the head of %s is grabbed as %+v", key, out.Swapped[0])
		}
		var err error
		switch key {
		case "done":
			end := task.Change{Ref: out.Swapped[0].Ref(), To: task.Done, At: now, Outcome: task.Completed, OrderingKey: key, NextEventAt: now.Add(time.Hour)}
			if out = commit(t, s, &storage.Batch{Swap: []task.Change{end}}); out.Swapped[0] == nil || out.Swapped[0].Priority != 7 || out.Swapped[0].Boost != 0 {
				t.Errorf("it ends as %+v", out.Swapped[0])
			}
		case "ended by SQL":
			_, err = s.Pool().Exec(t.Context(), "select taskengine.finish($1, 2)", head.ID)
		case "again by SQL":
			_, err = s.Pool().Exec(t.Context(), "select taskengine.again($1, 2, now() + interval '1 hour')", head.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for key, id := range ids {
		got, err := s.Get(t.Context(), id)
		if err != nil || got.Priority != 7 || got.Boost != 0 || !got.Inherits {
			t.Errorf("%s: the row is %+v, %v", key, got, err)
		}
		if n := one[int](t, s.Pool(), "select priority from (select id, priority from taskengine.task union all select id, priority from taskengine.ended) t where id = $1", id); n != 7 {
			t.Errorf("%s: its column has %d", key, n)
		}
	}
}
