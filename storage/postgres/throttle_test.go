//go:build !race

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/task"
)

// throttledTypes returns types of which one task of a key is added in a window: of an hour, and so short that it is over.
func throttledTypes() policy.Set {
	set := types("in", "over", "in time")
	for name, window := range map[string]time.Duration{"in": time.Hour, "over": time.Microsecond, "in time": time.Microsecond} {
		p := set.Types[name]
		p.Unique.OnConflict, p.Unique.Window = policy.ThrottleNew, window
		if name == "in time" {
			p.MaxLateness = time.Minute
		}
		set.Types[name] = p
	}
	return set
}

// The function add treats a type that throttles as an engine does.
func TestAddThrottlesAsTheEngineDoes(t *testing.T) {
	n := alone(t, server.Database(t), throttledTypes(), nil)
	run := task.Change{To: task.Processing, Owner: task.ID{1}}
	in := time.Now().Add(time.Hour)
	created := 0
	for name, changes := range map[string][]task.Change{
		"waits":               nil,
		"runs":                {run},
		"is done":             {run, {To: task.Done, NextEventAt: in, Outcome: task.Completed, Result: []byte("r")}},
		"is done for ever":    {run, {To: task.Done, Outcome: task.Completed}},
		"is a tombstone":      {run, {To: task.Done, Outcome: task.Completed, Remember: time.Hour}},
		"is cancelled":        {{To: task.Cancelled, NextEventAt: in}},
		"is in error":         {run, {To: task.Error, Outcome: task.Errored, Error: "no"}},
		"has failed":          {run, {To: task.Failed, Outcome: task.Errored, NextEventAt: in}},
		"has no key any more": {{To: task.Cancelled, NextEventAt: in}, {To: task.Cancelled, FreesKey: true}},
	} {
		for _, typ := range []string{"in", "over", "in time"} {
			for _, order := range []string{"", "o"} {
				for _, at := range []time.Time{{}, time.Now().Add(-time.Hour)} {
					req := engine.Request{Type: typ, Key: "k", OrderingKey: order, At: at, Payload: []byte("new")}
					want, got := n.throttle(changes, req, false), n.throttle(changes, req, true)
					if want != got {
						t.Errorf("type %s, ordering key %q, at %v: the task %s: SQL says %s, and the engine %s", typ, order, at, name, got, want)
					}
					if strings.HasPrefix(want, "created") {
						created++
					}
				}
			}
		}
	}
	if created != 40 {
		t.Errorf("%d requests added a task", created)
	}
}

// throttle adds a task, changes it, and makes a request for its key, in a transaction that is rolled back. It returns what
// the request has done.
func (n *node) throttle(changes []task.Change, req engine.Request, bySQL bool) (what string) {
	n.t.Helper()
	ctx := n.t.Context()
	err := pgx.BeginFunc(ctx, n.store.Pool(), func(tx pgx.Tx) error {
		x := n.store.Attach(tx)
		first := req
		first.At, first.Payload = time.Time{}, []byte("old")
		receipts, err := n.SubmitTx(ctx, x, first)
		if err != nil {
			return err
		}
		id := receipts[0].ID
		if _, err := x.Promote(ctx, req.OrderingKey); err != nil {
			return err
		}
		for i, c := range changes {
			c.Ref, c.At = task.Ref{ID: id, Version: uint64(i + 1)}, time.Now()
			if rows, err := x.Swap(ctx, c); err != nil || rows[0] == nil {
				return fmt.Errorf("change %d is not made: %w", i, err)
			}
		}
		time.Sleep(time.Millisecond) // longer than the short window
		outcome, other, err := n.again(ctx, tx, req, bySQL)
		if err != nil {
			return err
		}
		old, err := x.Get(ctx, id)
		if err != nil {
			return err
		}
		var keys string
		err = tx.QueryRow(ctx, "select coalesce(string_agg(case id::text when $1 then 'old' when $2 then 'new' else 'other' end, ' '), 'none') from taskengine.key", id.String(), other).Scan(&keys)
		what = fmt.Sprintf("%s, %v, the earlier task: key %q, version %d, result %q; the key is of: %s", outcome, other == id.String(), old.Key, old.Version, old.Result, keys)
		return errors.Join(err, errDeclined)
	})
	if !errors.Is(err, errDeclined) || strings.Contains(err.Error(), "\n") {
		n.t.Fatalf("%+v: %v", req, err)
	}
	return what
}

// again makes a request in a transaction. It returns its outcome, and the id of the task that it is answered with.
func (n *node) again(ctx context.Context, tx pgx.Tx, req engine.Request, bySQL bool) (outcome, id string, err error) {
	err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		if bySQL {
			return tx.QueryRow(ctx, "select id::text, outcome from taskengine.add_bytes("+asSQL(req)+")", pgx.QueryExecModeSimpleProtocol).Scan(&id, &outcome)
		}
		receipts, err := n.SubmitTx(ctx, n.store.Attach(tx), req)
		if err == nil {
			id, outcome = receipts[0].ID.String(), receipts[0].Outcome.String()
		}
		return err
	})
	if errors.Is(err, engine.ErrLate) || isRefusal(err) {
		return "late", "", nil
	}
	return outcome, id, err
}

// Programs and engines that ask for a key at the same time after its window add one task, whatever waits for what.
func TestOfProgramsAndEnginesOneAddsATaskAfterTheWindow(t *testing.T) {
	url := server.Database(t)
	set := throttledTypes()
	p := set.Types["in"]
	const window = 200 * time.Millisecond
	p.Unique.Window = window
	set.Types["in"] = p
	n := join(t, url, set, map[string]work{"in": func(context.Context, *node, *task.Task) ([]byte, error) { return nil, nil }})
	began := time.Now()
	var mu sync.Mutex
	created := make(map[string]bool)
	var all sync.WaitGroup
	for i := range 4 {
		c := pgtest.Connect(t, url)
		all.Go(func() {
			for range 150 {
				var id, outcome string
				if i%2 == 0 {
					receipts, err := n.Submit(t.Context(), engine.Request{Type: "in", Key: "k"})
					if err != nil {
						t.Error(err)
						return
					}
					id, outcome = receipts[0].ID.String(), receipts[0].Outcome.String()
				} else if err := c.QueryRow(t.Context(), "select id::text, outcome from taskengine.add('in', key => 'k')").Scan(&id, &outcome); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if outcome == "created" {
					created[id] = true
				} else if !created[id] && outcome != "existing" && outcome != "already_done" {
					t.Errorf("the outcome is %s", outcome)
				}
				mu.Unlock()
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	all.Wait()
	if err := n.WaitType(t.Context(), "in"); err != nil {
		t.Fatal(err)
	}
	c := pgtest.Connect(t, url)
	if got := one[int](t, c, "select count(*) from (select id from taskengine.task union all select id from taskengine.ended) s"); got != len(created) || got < 2 {
		t.Errorf("%d tasks were added, and %d requests were answered with created", got, len(created))
	}
	if got := one[int](t, c, "select count(*) from taskengine.key"); got != 1 {
		t.Errorf("%d keys are taken", got)
	}
	// The clock of the engine is that of the database, but not exactly.
	if most := 2 + 2*int(time.Since(began)/window); len(created) > most {
		t.Errorf("%d tasks were added, and %d windows have passed", len(created), most/2)
	}
}

// The function add refuses nothing because of a backlog. Its tasks count, so engines refuse.
func TestAddThrottlesWhateverTheBacklogIs(t *testing.T) {
	url := server.Database(t)
	set := throttledTypes()
	p := set.Types["over"]
	p.MaxBacklog = policy.Backlog{Max: 1}
	set.Types["over"] = p
	n := join(t, url, set, nil)
	c := pgtest.Connect(t, url)
	add := func() string {
		return one[string](t, c, "select id::text from taskengine.add('over', key => 'k', at => now() + interval '1 hour')")
	}
	first, err := task.ParseID(add())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Cancel(t.Context(), task.Ref{ID: first}, ""); err != nil {
		t.Fatal(err)
	}
	n.submit(engine.Request{Type: "over", At: time.Now().Add(time.Hour)})
	if next := add(); next == first.String() {
		t.Error("the request has added nothing")
	}
	if got, err := n.Get(t.Context(), first); err != nil || got.Key != "" {
		t.Errorf("the first task has the key %q, %v", got.Key, err)
	}
	for n.Backlogs()[0].Tasks < 2 { // counted about once a second
		select {
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("the task is not counted")
		}
	}
	err = n.store.Within(t.Context(), n.store.Pool(), func(_ pgx.Tx, x *postgres.Tx) error {
		_, err := n.SubmitTx(t.Context(), x, engine.Request{Type: "over", Key: "other"})
		return err
	})
	if !errors.Is(err, engine.ErrBacklog) {
		t.Errorf("got %v", err)
	}
}
