package storagetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// BenchmarkSearch measures how operators find rows: among rows in error of forty kinds, and among as many that wait for their times.
func BenchmarkSearch(b *testing.B, open func(testing.TB) storage.Store) {
	for _, n := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprintf("rows=%d", n), func(b *testing.B) {
			s := open(b)
			inspector := s.(storage.Inspector)
			ids := task.NewIDs([32]byte{7})
			fillForSearch(b, s, ids, n)
			list := func(b *testing.B, q storage.ListQuery) (rows int) {
				q.Scan = max(q.Scan, 200_000)
				page, err := inspector.List(b.Context(), q)
				if err != nil {
					b.Fatal(err)
				}
				return len(page.Tasks)
			}
			b.Run("kinds", func(b *testing.B) {
				for b.Loop() {
					if kinds, complete, err := s.(storage.KindCounter).CountKinds(b.Context(), nil, 10_000); err != nil || !complete || len(kinds) != 40 {
						b.Fatalf("%d kinds, %v, %v", len(kinds), complete, err)
					}
				}
			})
			kind := task.KindOfError(searchedError(3, 0))
			b.Run("page of a kind", func(b *testing.B) {
				q := storage.ListQuery{Filter: storage.Filter{States: []task.State{task.Error}}, Kinds: []task.KindRange{{From: kind, To: kind}}, Limit: 50}
				for b.Loop() {
					if rows := list(b, q); rows != 50 {
						b.Fatalf("%d rows", rows)
					}
				}
			})
			for name, v := range map[string]task.SearchValue{"page of a value of one in a million": 2, "page of a value of one in a thousand": 3, "page of a value of one in ten": 4} {
				b.Run(name, func(b *testing.B) {
					q := storage.ListQuery{Filter: storage.Filter{Types: []string{"mail"}}, Search: []task.SearchSet{{Name: "payload.a", Values: []task.SearchValue{task.Unread, v}}}, Limit: 50}
					for b.Loop() {
						if rows := list(b, q); rows != 50 && v != 2 {
							b.Fatalf("%d rows", rows)
						}
					}
				})
			}
			b.Run("page of a key", func(b *testing.B) {
				for b.Loop() {
					if rows := list(b, storage.ListQuery{Filter: storage.Filter{Key: "key 77"}, Limit: 50}); rows != 1 {
						b.Fatalf("%d rows", rows)
					}
				}
			})
			for name, f := range map[string]storage.Filter{"all": {}, "all waiting": {States: []task.State{task.Waiting}}, "all in error": {States: []task.State{task.Error}}} {
				b.Run(name, func(b *testing.B) {
					for b.Loop() {
						rows := 0
						q := storage.ListQuery{Filter: f, Limit: 1000, Scan: 200_000}
						for more := true; more; more = !q.Before.IsZero() {
							page, err := inspector.List(b.Context(), q)
							if err != nil {
								b.Fatal(err)
							}
							rows, q.Before = rows+len(page.Tasks), page.Next
						}
						if rows < n {
							b.Fatalf("%d rows", rows)
						}
					}
				})
			}
		})
	}
}

func searchedError(kind, n int) string {
	return fmt.Sprintf("service %c%c: no answer for order %d", 'a'+kind%26, 'a'+kind/26, n)
}

// fillForSearch inserts n rows in error, and n that wait.
func fillForSearch(b *testing.B, s storage.Store, ids *task.IDs, n int) {
	const part = 5000
	for from := 0; from < n; from += part {
		var ts []*task.Task
		for i := from; i < from+part; i++ {
			at := epoch.Add(time.Duration(i) * time.Millisecond)
			t := &task.Task{
				ID: ids.Next(at), Version: 4, State: task.Error, Type: "mail", Priority: 5, CreatedAt: at, ReadyAt: at, UpdatedAt: at, Attempt: 3,
				Node: "node", LastError: searchedError(i%40, i), Payload: pattern(200),
			}
			for of, v := range map[int]task.SearchValue{1_000_000: 2, 1000: 3, 10: 4} {
				if i%of == 5 {
					t.Search = append(t.Search, v)
				}
			}
			slices.Sort(t.Search)
			t.Shard = t.ID.Shard()
			later := &task.Task{
				ID: ids.Next(at), Version: 1, State: task.Waiting, Type: "mail", Priority: 5, CreatedAt: at, UpdatedAt: at,
				ReadyAt: at.Add(time.Hour), NextEventAt: at.Add(time.Hour - time.Duration(i*7919%n)*time.Microsecond), Payload: pattern(200),
			}
			later.Shard = later.ID.Shard()
			if i%10 == 7 {
				later.Key = fmt.Sprint("key ", i)
			}
			ts = append(ts, t, later)
		}
		if _, err := s.Insert(b.Context(), ts...); err != nil {
			b.Fatal(err)
		}
	}
}
