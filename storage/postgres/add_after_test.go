//go:build !race

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// addAfter adds the task of a request by SQL. The answer is false if it was there.
func addAfter(ctx context.Context, q interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, r *engine.Request,
) (created bool, err error) {
	ids := make([]string, len(r.After))
	for i, id := range r.After {
		ids[i] = id.String()
	}
	var key, order *string
	if r.Key != "" {
		key = &r.Key
	}
	if r.OrderingKey != "" {
		order = &r.OrderingKey
	}
	var at, until *time.Time
	if !r.At.IsZero() {
		at = &r.At
	}
	if !r.ExpiresAt.IsZero() {
		until = &r.ExpiresAt
	}
	err = q.QueryRow(ctx, "select created from taskengine.add($1, id => $2, key => $3, ordering_key => $4, at => $5, expires_at => $6, after => $7, after_any => $8)",
		r.Type, r.ID.String(), key, order, at, until, ids, r.AfterAny).Scan(&created)
	return created, err
}

// beforeOthers returns rows of tasks after which others run, in each state that a task may have without a node.
func beforeOthers(now time.Time) (rows []*task.Task) {
	ids := task.NewIDs([32]byte{5})
	for _, state := range []task.State{task.Waiting, task.Submitted, task.Error, task.Done, task.Failed, task.Cancelled} {
		for _, children := range []*task.Children{nil, {Sets: []task.ChildSet{
			{Name: "page", Added: 9, Done: 1, Reported: []byte{4, 0}, Await: 9, OrFailed: true}, {Name: task.FollowersSet, Added: 1, Shards: append([]byte(nil), make([]byte, 16)...)}, {Name: "bündig", Added: 1, Shards: []byte{77}},
		}}} {
			t := &task.Task{ID: ids.Next(now), Type: "first", ReadyAt: now.Add(time.Hour)}
			t.Create(state, now, time.Time{})
			if t.Children = children.Clone(); t.Children != nil {
				t.Children.Sets[1].Shards[0] = 7
			}
			rows = append(rows, t)
		}
	}
	return rows
}

// settle waits until no end is on its way, and returns the row of a task, nil if there is none, with times close to its creation as that.
func settle(t *testing.T, n *node, id task.ID) *task.Task {
	t.Helper()
	for one[int](t, n.store.Pool(), "select count(*) from taskengine.tasks where type = 'taskengine.relay' and state <> 'done'") > 0 {
		if t.Context().Err() != nil {
			t.Fatal("ends are on their way")
		}
	}
	got, err := n.store.Get(t.Context(), id)
	if errors.Is(err, task.ErrNotFound) {
		return nil
	} else if err != nil {
		t.Fatal(err)
	}
	made := got.CreatedAt
	for _, at := range []*time.Time{&got.CreatedAt, &got.UpdatedAt, &got.ReadyAt, &got.NextEventAt} {
		if gap := at.Sub(made); !at.IsZero() && gap > -30*time.Second && gap < 30*time.Second {
			*at = time.Unix(0, 0)
		} else if gap < 2*time.Minute && gap > 0 { // the patience of its type
			*at = time.Unix(60, 0)
		}
	}
	got.Seq, got.Turn = 0, min(got.Turn, task.Behind)      // a node makes one the head when it has looked
	if got.State == task.Cancelled && got.Type == "late" { // it may have learned of one end before the others
		got.Children, got.NextEventAt = nil, time.Time{}
		if _, text, ok := strings.Cut(got.LastError, ", after which it was to run, is not done"); ok {
			got.LastError, _, _ = strings.Cut(text, ":")
		}
	}
	return got
}

// A request with after in SQL leaves the rows that the same request in Go leaves, or is refused as that is.
func TestSQLAddsTasksAfterOthersAsTheEngineDoes(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	set := types("first", "late")
	p := set.Types["late"]
	p.Timeout.Queue = time.Minute
	set.Types["late"] = p
	now := time.Now().Truncate(time.Microsecond)
	nodes := make([]*node, 2)
	before := beforeOthers(now)
	ids := task.NewIDs([32]byte{6})
	for i := range nodes {
		nodes[i] = join(t, server.Database(t), set, nil)
		if _, err := nodes[i].store.Insert(t.Context(), beforeOthers(now)...); err != nil {
			t.Fatal(err)
		}
	}
	byGo, bySQL := nodes[0], nodes[1]
	accepted, refused := 0, 0
	for range 60 {
		req := engine.Request{ID: ids.Next(now), Type: "late", AfterAny: r.IntN(3) == 0}
		for _, i := range r.Perm(len(before))[:r.IntN(4)] {
			req.After = append(req.After, before[i].ID)
		}
		switch r.IntN(24) {
		case 0:
			req.After = append(req.After, [...]task.ID{{}, req.ID, task.ReservedID("some"), ids.Next(now)}[r.IntN(4)])
		case 1:
			req.At = now
		case 2:
			req.After = append(req.After, before[0].ID, before[0].ID)
		case 3:
			req.ExpiresAt = now.Add(time.Hour)
		case 4, 5:
			req.OrderingKey = "o"
		case 6:
			req.Key = "k"
		}
		_, goErr := byGo.Submit(t.Context(), req)
		_, sqlErr := addAfter(t.Context(), bySQL.store.Pool(), &req)
		if (goErr == nil) != (sqlErr == nil) || goErr != nil && (!errors.Is(goErr, engine.ErrInvalid) || codeOf(sqlErr) != "22023") {
			t.Fatalf("%+v: Go says %v, and SQL %v", req, goErr, sqlErr)
		}
		if refused++; goErr == nil {
			refused--
			accepted++
		}
		if diff := cmp.Diff(settle(t, byGo, req.ID), settle(t, bySQL, req.ID)); diff != "" {
			t.Errorf("%+v: (-Go +SQL)\n%s", req, diff)
		}
	}
	for _, b := range before {
		if diff := cmp.Diff(settle(t, byGo, b.ID), settle(t, bySQL, b.ID)); diff != "" {
			t.Errorf("the task before, in the state %v: (-Go +SQL)\n%s", b.State, diff)
		}
	}
	if accepted < 20 || refused < 2 {
		t.Errorf("%d requests were accepted, and %d refused", accepted, refused)
	}
}

// No end is lost that comes at the moment at which SQL adds a task after it, whether the transaction of that is rolled back or not.
func TestNoEndIsLostThoughTasksEndWhileSQLAddsOthersAfterThem(t *testing.T) {
	const rounds = 40
	url := server.Database(t)
	set := types("kept", "gone", "failing", "late")
	for name, fn := range map[string]func(*policy.Type){
		"gone": func(p *policy.Type) { p.Retention.Done = 0 }, "failing": func(p *policy.Type) { p.Retry.Fails = true },
	} {
		p := set.Types[name]
		fn(&p)
		set.Types[name] = p
	}
	bySQL := func(ctx context.Context, n *node, t *task.Task) ([]byte, error) {
		if rand.IntN(2) == 0 {
			return nil, nil
		}
		return nil, errors.Join(finishBySQL(ctx, n.store.Pool(), t, ""), task.Ended())
	}
	work := map[string]work{"kept": bySQL, "gone": bySQL, "late": nothing, "failing": func(context.Context, *node, *task.Task) ([]byte, error) { return nil, task.Permanent(errDeclined) }}
	nodes := []*node{join(t, url, set, work), join(t, url, set, work)}
	ids := task.NewIDs([32]byte{8})
	var mu sync.Mutex
	wants := make(map[task.ID]task.State) // of the tasks that were accepted
	var all sync.WaitGroup
	for i := range rounds {
		var firsts []task.ID
		fails := false
		for range 1 + rand.IntN(3) {
			r := engine.Request{ID: ids.Next(time.Now()), Type: []string{"kept", "kept", "gone", "failing"}[rand.IntN(4)]}
			if rand.IntN(3) == 0 {
				r.At = time.Now().Add(time.Duration(rand.IntN(5)) * time.Millisecond)
			}
			firsts, fails = append(firsts, r.ID), fails || r.Type == "failing"
			nodes[i%2].submit(r)
		}
		late, rollsBack := engine.Request{ID: ids.Next(time.Now()), Type: "late", After: firsts, AfterAny: rand.IntN(3) == 0}, rand.IntN(4) == 0
		all.Go(func() {
			err := pgx.BeginFunc(t.Context(), nodes[i%2].store.Pool(), func(tx pgx.Tx) error {
				if _, err := addAfter(t.Context(), tx, &late); err != nil || !rollsBack {
					return err
				}
				return errDeclined
			})
			switch {
			case errors.Is(err, errDeclined), codeOf(err) == "22023" && strings.Contains(err.Error(), "is not in the store"):
				return
			case err != nil:
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if wants[late.ID] = task.Done; fails && !late.AfterAny {
				wants[late.ID] = task.Cancelled
			}
		})
	}
	all.Wait()
	for id, want := range wants {
		nodes[0].end(id, want)
	}
	if got := one[int](t, nodes[0].store.Pool(), "select count(*) from taskengine.tasks where type = 'late'"); got != len(wants) || got < rounds/4 {
		t.Errorf("there are %d tasks, and %d of %d were accepted", got, len(wants), rounds)
	}
}

func TestSQLAddsNoTaskAfterWhatCannotBe(t *testing.T) {
	url := server.Database(t)
	n := alone(t, url, types("first", "late"), nil)
	c := pgtest.Connect(t, url)
	first := n.submit(engine.Request{Type: "first", At: time.Now().Add(time.Hour)})
	var full []*task.Task
	for range task.MaxFollowers {
		full = append(full, &task.Task{ID: task.NewIDs([32]byte{byte(len(full)), byte(len(full) >> 8)}).Next(time.Now())})
	}
	change := task.Change{Ref: task.Ref{ID: first}, More: &task.MoreChildren{}}
	for _, f := range full {
		change.More.Followers = append(change.More.Followers, f.ID)
	}
	if out, err := n.store.Swap(t.Context(), change); err != nil || out[0] == nil {
		t.Fatal(out, err)
	}
	one[string](t, c, "select taskengine.signal('s', id => '01020304-0000-7000-8000-000000000001')::text")
	for args, why := range map[string]string{
		"after_any => true":                                              "after names no task",
		"after => array[null]::uuid[]":                                   "an id that is null",
		"after => array_fill(gen_random_uuid(), array[101])":             "after has 101 tasks",
		fmt.Sprintf("after => array['%v']::uuid[]", first):               "has 1000 tasks that run after it",
		"after => array['01020304-0000-7000-8000-000000000009']::uuid[]": "is not in the store",
		"after => array['01020304-0000-7000-8000-000000000009']::uuid[], id => '01020304-0000-7000-8000-000000000009'": "the id of the task itself",
		"after => array['01020304-0000-7000-8000-000000000009', '01020304-0000-7000-8000-000000000009']::uuid[]":       "twice",
		"after => array['01020304-0000-7000-8000-000000000009']::uuid[], at => now()":                                  "it has a time, and after",
		"after => array(select id from taskengine.tasks where type = 'taskengine.relay')":                              "belongs to the engine",
	} {
		if _, err := c.Exec(t.Context(), "select taskengine.add('late', "+args+")"); codeOf(err) != "22023" || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", args, err, why)
		}
	}
	if got := one[int](t, c, "select count(*) from taskengine.tasks where type = 'late'"); got != 0 {
		t.Errorf("there are %d tasks", got)
	}
	_, err := c.Exec(t.Context(), "begin isolation level repeatable read; select taskengine.add('late', after => array['01020304-0000-7000-8000-000000000009']::uuid[])")
	if codeOf(err) != "25001" {
		t.Errorf("at repeatable read: %v", err)
	}
	pgtest.Exec(t, c, "rollback", "insert into taskengine.home (here, coming, leaving, to_name) values (set_byte(decode(repeat('ff', 32), 'hex'), 0, 254), decode(repeat('00', 32), 'hex'), decode(repeat('00', 32), 'hex'), '')")
	far := task.NewIDs([32]byte{1}).NextIn(time.Now(), 0)
	if _, err := c.Exec(t.Context(), "select taskengine.add('late', after => array[$1]::uuid[])", far.String()); codeOf(err) != "0A000" || !strings.Contains(err.Error(), "is in another database") {
		t.Errorf("after a task of another database: %v", err)
	}
}

// A task that others run after may be replaced from SQL as from Go, and one that runs after others may not.
func TestSQLReplacesTasksThatAreFollowed(t *testing.T) {
	set := types("first", "late")
	for name, p := range set.Types {
		p.Unique.OnConflict = policy.ReplaceExisting
		set.Types[name] = p
	}
	n := alone(t, server.Database(t), set, nil)
	first := n.submit(engine.Request{Type: "first", Key: "k", At: time.Now().Add(time.Hour)})
	late := engine.Request{ID: task.NewIDs([32]byte{9}).Next(time.Now()), Type: "late", Key: "k", After: []task.ID{first}}
	for _, want := range []bool{true, false} {
		if created, err := addAfter(t.Context(), n.store.Pool(), &late); err != nil || created != want {
			t.Errorf("it was created: %v, %v", created, err)
		}
	}
	late.ID = task.NewIDs([32]byte{10}).Next(time.Now())
	for call, want := range map[string]string{
		"add('first', '1', key => 'k')": "replaced", "add('late', '1', key => 'k')": "existing",
		fmt.Sprintf("add('first', '1', key => 'k', after => array['%v']::uuid[])", first): "existing",
	} {
		if outcome := one[string](t, n.store.Pool(), "select outcome from taskengine."+call); outcome != want {
			t.Errorf("%s: %s, want %s", call, outcome, want)
		}
	}
	if got, err := n.store.Get(t.Context(), first); err != nil || len(got.Children.Set(task.FollowersSet).Tasks()) != 1 || slices.Contains(got.Children.Set(task.FollowersSet).Tasks(), late.ID) {
		t.Errorf("the replaced task is %+v, %v", got, err)
	}
}
