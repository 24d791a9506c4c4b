package sharded_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/storage/sharded"
	"github.com/taskengine/taskengine/task"
)

// reads is a store, and its expected answers: the rows as a single store with the same numbers
// has them.
type reads struct {
	*rapid.T
	ctx  context.Context
	s    *sharded.Store
	want *memory.Store
	rows []*task.Task
}

// newReads fills a store with random rows that are often alike.
func newReads(t *rapid.T, ctx context.Context) *reads {
	r := &reads{T: t, ctx: ctx, want: memory.New()}
	var named []sharded.Database
	for _, p := range backends(rapid.IntRange(1, 4).Draw(t, "backends")) {
		named = append(named, sharded.Database{Name: p.name, Store: p})
	}
	var err error
	if r.s, err = sharded.Open(ctx, named, nil); err != nil {
		t.Fatal(err)
	}
	for range rapid.IntRange(0, 40).Draw(t, "rows") {
		row := row(uint16(rapid.IntRange(0, task.ShardCount-1).Draw(t, "shard of id")))
		row.Type, row.Group = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "type"), rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "group")
		row.State = rapid.SampledFrom([]task.State{task.Submitted, task.Submitted, task.Submitted, task.Waiting, task.Processing, task.Done}).Draw(t, "state")
		row.Shard = uint16(rapid.IntRange(0, 3).Draw(t, "shard"))
		row.Priority = uint8(rapid.IntRange(0, 1).Draw(t, "priority"))
		row.ReadyAt = epoch.Add(time.Duration(rapid.IntRange(0, 1).Draw(t, "ready")) * time.Second)
		row.NextEventAt = epoch.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "next event")) * time.Second)
		row.Owner = task.ID{byte(rapid.IntRange(1, 3).Draw(t, "owner"))}
		row.Payload = nil
		if _, err := r.s.Insert(ctx, row); err != nil {
			t.Fatal(err)
		}
		r.rows = append(r.rows, row)
	}
	slices.SortFunc(r.rows, compareSeq)
	for _, row := range r.rows { // the same order, if not the same numbers
		if _, err := r.want.Insert(ctx, row.Clone()); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func compareSeq(a, b *task.Task) int { return task.Rank{Seq: a.Seq}.Compare(task.Rank{Seq: b.Seq}) }

// same fails the test unless the answers are alike, but for the numbers.
func same[T any](r *reads, what string, got, want T) {
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(task.Rank{}, "Seq"), cmpopts.IgnoreFields(task.Task{}, "Seq")); d != "" {
		r.Fatalf("%s: %s", what, d)
	}
}

// must returns the result of a call that does not fail.
func must[T any](r *reads) func(T, error) T {
	return func(got T, err error) T {
		if err != nil {
			r.Fatal(err)
		}
		return got
	}
}

func (r *reads) shards() *task.Shards {
	if rapid.Bool().Draw(r.T, "all shards") {
		return nil
	}
	of := shards(rapid.IntRange(0, 3).Draw(r.T, "from shard"), 3)
	return &of
}

func (r *reads) limit() int { return rapid.IntRange(1, 5).Draw(r.T, "limit") }

func TestQueriesOverPlacesAnswerAsOneStoreThatHasAllRows(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newReads(rt, t.Context())
		r.ready()
		r.due()
		r.queues()
		r.unclaimed()
		r.submitted()
		r.orphans()
		r.outdated()
		r.list()
		r.together()
		same(r, "count", must[map[storage.StateType]int64](r)(r.s.Count(r.ctx, storage.Filter{})), must[map[storage.StateType]int64](r)(r.want.Count(r.ctx, storage.Filter{})))
	})
}

// together reads rows by their IDs, and IDs without a row.
func (r *reads) together() {
	var of []task.ID
	for _, row := range r.rows {
		if rapid.Bool().Draw(r.T, "row") {
			of = append(of, row.ID)
		}
	}
	want := make(map[task.ID]*task.Task)
	for _, id := range of {
		want[id] = must[*task.Task](r)(r.want.Get(r.ctx, id))
	}
	got := make(map[task.ID]*task.Task)
	for _, row := range must[[]*task.Task](r)(r.s.GetAll(r.ctx, append(of, task.ID{1}, task.ID{2, 7})...)) {
		got[row.ID] = row
	}
	same(r, "together", got, want)
}

// ready pages through a queue, from a row of it or from the beginning.
func (r *reads) ready() {
	q := storage.ReadyQuery{Queue: task.Queue{Type: "a", Group: "x"}, Shards: r.shards(), Limit: r.limit()}
	all := q
	all.Limit = 1000
	want := must[[]task.Trigger](r)(r.want.Ready(r.ctx, all))
	var got []task.Trigger
	for {
		page := must[[]task.Trigger](r)(r.s.Ready(r.ctx, q))
		if got = append(got, page...); len(page) < q.Limit {
			break
		}
		q.After = &page[len(page)-1].Rank
	}
	same(r, "ready", got, want)
}

func (r *reads) due() {
	q := storage.DueQuery{State: task.Waiting, Shards: r.shards(), Before: epoch.Add(2 * time.Second), Limit: r.limit()}
	all := q
	all.Limit = 1000
	want := must[[]storage.Due](r)(r.want.Due(r.ctx, all))
	var got []storage.Due
	for {
		page := must[[]storage.Due](r)(r.s.Due(r.ctx, q))
		if got = append(got, page...); len(page) < q.Limit {
			break
		}
		q.After = page[len(page)-1]
	}
	same(r, "due", got, want)
}

func (r *reads) queues() {
	want := must[[]task.Queue](r)(r.want.Queues(r.ctx, task.Queue{}, 1000))
	var got []task.Queue
	for limit, after := r.limit(), (task.Queue{}); ; after = got[len(got)-1] {
		page := must[[]task.Queue](r)(r.s.Queues(r.ctx, after, limit))
		if got = append(got, page...); len(page) < limit {
			break
		}
	}
	same(r, "queues", got, want)
}

func (r *reads) unclaimed() {
	q := storage.UnclaimedQuery{Shards: r.shards(), Limit: r.limit()}
	all := q
	all.Limit = 1000
	want := must[storage.UnclaimedPage](r)(r.want.Unclaimed(r.ctx, all))
	var got []task.Hint
	for {
		page := must[storage.UnclaimedPage](r)(r.s.Unclaimed(r.ctx, q))
		if len(page.Heads) > q.Limit {
			r.Fatalf("%d queues, at most %d were asked for", len(page.Heads), q.Limit)
		}
		got = append(got, page.Heads...)
		if q.After = page.Next; page.Next == (task.Queue{}) {
			break
		}
	}
	same(r, "unclaimed", got, want.Heads)
}

// submitted pages through all queues, or from one of them on.
func (r *reads) submitted() {
	q := storage.SubmittedQuery{Shards: r.shards(), Scan: 1000}
	if rapid.Bool().Draw(r.T, "from a queue on") {
		q.After.Queue = task.Queue{Type: "a", Group: "x"}
	}
	want, _, err := r.want.Submitted(r.ctx, q)
	if err != nil {
		r.Fatal(err)
	}
	var got []task.Hint
	for q.Scan = r.limit(); ; {
		page, next, err := r.s.Submitted(r.ctx, q)
		if err != nil {
			r.Fatal(err)
		}
		if got = append(got, page...); next == (storage.Cursor{}) {
			break
		}
		q.After = next
	}
	same(r, "submitted", got, want)
}

func (r *reads) orphans() {
	alive := []task.ID{{1}}
	want, _, err := r.want.Orphans(r.ctx, alive, task.ID{}, 1000)
	if err != nil {
		r.Fatal(err)
	}
	var got []*task.Task
	for scan, after := r.limit(), (task.ID{}); ; {
		page, next, err := r.s.Orphans(r.ctx, alive, after, scan)
		if err != nil {
			r.Fatal(err)
		}
		got = append(got, page...)
		if next.IsZero() {
			break
		}
		if next.Compare(after) <= 0 {
			r.Fatalf("%v follows %v", next, after)
		}
		after = next
	}
	same(r, "orphans", got, want)
}

func (r *reads) outdated() {
	var refs []task.Ref
	for _, t := range r.rows {
		refs = append(refs, t.Ref(), task.Ref{ID: t.ID, Version: t.Version + 1})
	}
	same(r, "outdated", must[[]bool](r)(r.s.Outdated(r.ctx, task.ID{1}, refs...)), must[[]bool](r)(r.want.Outdated(r.ctx, task.ID{1}, refs...)))
}

func (r *reads) list() {
	f := storage.Filter{States: []task.State{task.Waiting, task.Done}}
	page, err := r.want.List(r.ctx, storage.ListQuery{Filter: f, Limit: 1000, Scan: 1000})
	want := page.Tasks
	if err != nil {
		r.Fatal(err)
	}
	var got []*task.Task
	limit, scan := r.limit(), r.limit()*3
	for before := (task.ID{}); ; {
		part, err := r.s.List(r.ctx, storage.ListQuery{Filter: f, Before: before, Limit: limit, Scan: scan})
		page, next := part.Tasks, part.Next
		if err != nil {
			r.Fatal(err)
		}
		if len(page) > limit {
			r.Fatalf("%d rows, at most %d were asked for", len(page), limit)
		}
		got = append(got, page...)
		if next.IsZero() {
			break
		}
		before = next
	}
	same(r, "list", got, want)
}

func TestARankOfAnyPlaceIsPassedInAll(t *testing.T) {
	ps := backends(3)
	s := open(t, ps...)
	rows := put(t, s, 200, 1, 100, 201, 2, 101) // alike but for their numbers
	q := storage.ReadyQuery{Queue: rows[0].Queue(), Limit: 10}
	all, err := s.Ready(t.Context(), q)
	if err != nil || len(all) != len(rows) {
		t.Fatalf("got %v, %v", all, err)
	}
	for i := range all {
		q.After = &all[i].Rank
		got, err := s.Ready(t.Context(), q)
		if d := cmp.Diff(all[i+1:], got, cmpopts.EquateEmpty()); d != "" || err != nil {
			t.Errorf("after row %d: %v, %s", i, err, d)
		}
	}
}

func TestARowThatMovesBetweenTwoAnswersIsShownOnce(t *testing.T) {
	ps := backends(2)
	a := &between{backend: ps[0], answered: make(chan struct{})}
	s, err := sharded.Open(t.Context(), []sharded.Database{{Name: "a", Store: a}, {Name: "b", Store: &after{ps[1], a.answered}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	waiting := row(7)
	waiting.Type, waiting.NextEventAt = "other", epoch
	if _, err := s.Insert(t.Context(), waiting, row(8), row(200)); err != nil {
		t.Fatal(err)
	}
	a.move = func() { move(t, ps[0], ps[1], shards(7, 8), nil) }
	page, err := s.Ready(t.Context(), storage.ReadyQuery{Queue: task.Queue{Type: "mail"}, Limit: 10})
	got := make(map[task.ID]int)
	for _, tr := range page {
		got[tr.ID]++
	}
	if want := slices.Repeat([]int{1}, 2); err != nil || !slices.Equal(slices.Collect(maps.Values(got)), want) {
		t.Errorf("got %v, %v", fmt.Sprint(page), err)
	}
}

// between is a backend that moves its shards when it has answered a query, or done a batch.
type between struct {
	*backend
	move     func()
	answered chan struct{} // closed then, by the query
}

func (b *between) Commit(ctx context.Context, batch *storage.Batch) storage.Commit {
	return storage.Later(func() (storage.Outcome, error) {
		out, err := b.backend.Commit(ctx, batch).Wait()
		b.move()
		return out, err
	})
}

func (b *between) Ready(ctx context.Context, q storage.ReadyQuery) ([]task.Trigger, error) {
	defer close(b.answered)
	page, err := b.backend.Ready(ctx, q)
	b.move()
	return page, err
}

// after is a backend that answers the query when the other has.
type after struct {
	*backend
	answered chan struct{}
}

func (a *after) Ready(ctx context.Context, q storage.ReadyQuery) ([]task.Trigger, error) {
	<-a.answered
	return a.backend.Ready(ctx, q)
}
