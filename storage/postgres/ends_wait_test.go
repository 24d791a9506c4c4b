//go:build !race

package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

// endBySQL ends the attempt of t by a function of the database, whose arguments behind id and version are args.
func endBySQL(ctx context.Context, c execer, t *task.Task, function, args string) error {
	_, err := c.Exec(ctx, fmt.Sprintf("select taskengine.%s('%s', %d%s)", function, t.ID, t.Version, args), pgx.QueryExecModeSimpleProtocol)
	return err
}

// branch is the payload of a task of a tree: the task has one child for each of Branches, and waits for a signal first if Waits is true.
type branch struct {
	Waits    bool     `json:"waits,omitempty"`
	Branches []branch `json:"branches,omitempty"`
}

func aTree(r *rand.Rand, depth int) branch {
	b := branch{Waits: r.IntN(3) == 0}
	if depth > 0 {
		for range r.IntN(4) {
			b.Branches = append(b.Branches, aTree(r, depth-1))
		}
	}
	return b
}

func (b branch) size() int {
	n := 1
	for _, of := range b.Branches {
		n += of.size()
	}
	return n
}

// grow is a handler of branches. It ends each attempt by SQL or by Go, writes what it did in the transaction of the end, and makes each
// mistake that a handler can make with its transaction.
func grow(ctx context.Context, n *node, t *task.Task) ([]byte, error) {
	var b branch
	if err := json.Unmarshal(t.Payload, &b); err != nil {
		return nil, task.Permanent(err)
	}
	phase := string(t.Checkpoint())
	if b.Waits && phase == "" {
		return n.step(ctx, t, "signal", func(tx pgx.Tx, x *postgres.Tx, bySQL bool) error {
			if bySQL {
				return endBySQL(ctx, tx, t, "wait_bytes", ", array['other', 'go'], checkpoint => 'signal'")
			}
			return engine.WaitTx(ctx, x, nil, []string{"other", "go"}, time.Time{}, task.WithCheckpoint([]byte("signal")))
		})
	}
	if len(b.Branches) > 0 && phase != "children" {
		return n.step(ctx, t, "children", func(tx pgx.Tx, x *postgres.Tx, bySQL bool) error { return n.fanOut(ctx, t, &b, tx, x, bySQL) })
	}
	if s := t.Children.Set("branch"); len(b.Branches) > 0 && (t.Woken().By != task.ByChildren || int(s.Done) != len(b.Branches)) {
		return nil, task.Permanent(fmt.Errorf("it was woken by %v, with the children %+v", t.Woken().By, s))
	}
	return n.step(ctx, t, "end", func(tx pgx.Tx, x *postgres.Tx, bySQL bool) error {
		if bySQL {
			return endBySQL(ctx, tx, t, "finish_bytes", "")
		}
		return engine.FinishTx(ctx, x, nil)
	})
}

// fanOut ends the attempt of t with the branches of b as children, and sends each that waits the signal that it waits for.
func (n *node) fanOut(ctx context.Context, t *task.Task, b *branch, tx pgx.Tx, x *postgres.Tx, bySQL bool) error {
	set := task.ChildRequests{Name: "branch"}
	for _, of := range b.Branches {
		payload, err := json.Marshal(of)
		if err != nil {
			return err
		}
		set.Requests = append(set.Requests, engine.Request{Type: "branch", Payload: payload})
	}
	var err error
	if bySQL {
		_, err = tx.Exec(ctx, "select taskengine.wait_with_children_bytes($1, $2, $3, checkpoint => 'children')", t.ID.String(), int64(t.Version), asJSON([]task.ChildRequests{set}))
	} else {
		err = engine.WaitForChildrenTx(ctx, x, nil, []task.ChildrenWait{{Name: "branch"}}, time.Time{}, task.WithCheckpoint([]byte("children")), task.WithChildren("branch", set.Requests...))
	}
	for i, of := range b.Branches {
		if err == nil && of.Waits {
			_, err = tx.Exec(ctx, "select taskengine.signal('go', id => $1, keep => true)", task.Parent{ID: t.ID, Name: "branch", Index: uint32(i)}.Child().String())
		}
	}
	return err
}

// step records the attempt of t in the transaction in which end ends it.
func (n *node) step(ctx context.Context, t *task.Task, what string, end func(tx pgx.Tx, x *postgres.Tx, bySQL bool) error) ([]byte, error) {
	mistake := rand.IntN(8)
	err := n.store.Within(ctx, n.store.Pool(), func(tx pgx.Tx, x *postgres.Tx) error {
		if _, err := tx.Exec(ctx, "insert into steps values ($1, $2)", t.ID.String(), what); err != nil {
			return err
		}
		if err := end(tx, x, rand.IntN(2) == 0); err != nil || mistake > 0 {
			return err
		}
		return errDeclined
	})
	switch {
	case err != nil:
		return nil, err
	case mistake == 1:
		panic("after the commit")
	case mistake == 2:
		return nil, task.Permanent(errDeclined)
	}
	return nil, task.Ended()
}

// Trees grow by SQL and by Go on two nodes. Each attempt that counts writes what it did once, and no other writes anything.
func TestRandomTreesOfSQLAndGoAreJoinedOnce(t *testing.T) {
	url := server.Database(t)
	pgtest.Exec(t, pgtest.Connect(t, url), "create table steps (id uuid, what text, primary key (id, what))")
	set := types("branch")
	p := set.Types["branch"]
	p.Retry.Max = 1000
	set.Types["branch"] = p
	nodes := []*node{join(t, url, set, map[string]work{"branch": grow}), join(t, url, set, map[string]work{"branch": grow})}
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	tasks, ids := 0, make([]task.ID, 20)
	for i := range ids {
		b := aTree(r, 3)
		b.Waits = false
		payload, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		tasks += b.size()
		ids[i] = nodes[i%2].submit(engine.Request{Type: "branch", Payload: payload})
	}
	for _, id := range ids {
		nodes[0].end(id, task.Done)
	}
	c := pgtest.Connect(t, url)
	if done := one[int](t, c, "select count(*) from taskengine.tasks where type = 'branch' and state = 'done'"); done != tasks {
		t.Errorf("%d tasks are done, want %d", done, tasks)
	}
	if wrote := one[int](t, c, "select count(*) from steps where what = 'end'"); wrote != tasks {
		t.Errorf("%d tasks have written their end, want %d", wrote, tasks)
	}
	if wrong := one[int](t, c, `select count(*) from steps s where not exists (select from taskengine.tasks k where k.id = s.id)
		or what = 'signal' and not exists (select from taskengine.tasks k where k.id = s.id and k.payload::json ->> 'waits' = 'true')`); wrong != 0 {
		t.Errorf("%d steps are of no task that does them", wrong)
	}
	if wrong := one[int](t, c, "select taskengine.recount()"); wrong != 0 {
		t.Errorf("%d counts are wrong", wrong)
	}
}

// once returns a handler that ends the first attempt of its task by SQL, with the arguments of its payload, and then says what woke it.
func once(function string) work {
	return func(ctx context.Context, n *node, t *task.Task) ([]byte, error) {
		if w := t.Woken(); w.By != task.NotWoken {
			return fmt.Appendf(nil, "%v %s", w.By, w.Signal.Data), nil
		}
		if err := endBySQL(ctx, n.store.Pool(), t, function, string(t.Payload)); err != nil {
			return nil, task.Permanent(err)
		}
		return nil, task.Ended()
	}
}

func TestAWaitFromSQLEndsOnce(t *testing.T) {
	url := server.Database(t)
	set := types("wait", "fan", "page", "never")
	set.Slots = 4
	n := join(t, url, set, map[string]work{"wait": once("wait"), "fan": once("wait_with_children"), "page": nothing})
	pages := func(count int) string {
		return fmt.Sprintf(`, '{"page": [%s]}'`, strings.TrimSuffix(strings.Repeat(`{"type": "page"},`, count), ","))
	}
	for name, c := range map[string]struct{ typ, args, want string }{
		"a time":                          {"wait", ", array['paid'], until => now() + interval '20 milliseconds'", "timeout "},
		"a time that has passed":          {"wait", ", array['paid'], until => '2020-01-01 00:00 UTC'", "timeout "},
		"no children":                     {"wait", `, waits => '[{"name": "page"}]'`, "children "},
		"no child":                        {"fan", `, '{"page": []}'`, "children "},
		"children":                        {"fan", pages(3), "children "},
		"many children":                   {"fan", pages(300), "children "},
		"one of the children":             {"fan", `, '{"page": [{"type": "never"}, {"type": "page"}]}', waits => '[{"name": "page", "count": 1}]'`, "children "},
		"children or a signal":            {"fan", pages(2) + `, array['paid'], '[{"name": "page"}]'`, "children "},
		"a time, and the children go on":  {"fan", `, '{"page": [{"type": "never"}]}', until => now() + interval '20 milliseconds'`, "timeout "},
		"a time, for children and signal": {"fan", `, '{"page": [{"type": "never"}]}', array['paid'], '[{"name": "page"}]', now() + interval '20 milliseconds'`, "timeout "},
	} {
		for _, ordered := range []string{"", "o"} {
			id := n.submit(engine.Request{Type: c.typ, Payload: []byte(c.args), OrderingKey: ordered})
			if got := string(n.end(id, task.Done).Result); got != c.want {
				t.Errorf("%s: it was woken by %q", name, got)
			}
		}
	}
	for _, early := range []bool{true, false} {
		id := n.submit(engine.Request{Type: "wait", Payload: []byte(", array['other', 'paid']"), At: time.Now().Add(map[bool]time.Duration{true: 200 * time.Millisecond}[early])})
		if !early {
			n.awaits(id)
		}
		if _, _, err := n.Signal(t.Context(), engine.Signal{To: id, Name: "paid", Data: []byte("cash"), Keep: true}); err != nil {
			t.Fatal(err)
		}
		if got := string(n.end(id, task.Done).Result); got != "signal cash" {
			t.Errorf("by a signal, early %v: it was woken by %q", early, got)
		}
	}
}

// A child whose id is taken is not added, a task whose key is taken neither, and a backlog that is full refuses nothing that SQL adds.
func TestAnEndFromSQLIsNotRefusedForWhatIsTakenOrFull(t *testing.T) {
	url := server.Database(t)
	set := types("fan", "page", "full")
	full := set.Types["full"]
	full.MaxBacklog.Max = 1
	set.Types["full"] = full
	n := join(t, url, set, map[string]work{"page": nothing, "fan": func(ctx context.Context, n *node, t *task.Task) ([]byte, error) {
		if t.Woken().By != task.NotWoken {
			return nil, nil
		}
		taken := task.Parent{ID: t.ID, Name: "page", Index: 1}.Child()
		if _, err := n.Submit(ctx, engine.Request{ID: taken, Type: "page", Payload: []byte("first"), At: time.Now().Add(time.Hour)}, engine.Request{Type: "page", Key: "k", At: time.Now().Add(time.Hour)}); err != nil {
			return nil, err
		}
		return nil, errors.Join(pgx.BeginFunc(ctx, n.store.Pool(), func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "select taskengine.add('page', key => 'k')"); err != nil {
				return err
			}
			return endBySQL(ctx, tx, t, "wait_with_children", `, '{"page": [{"type": "page"}, {"type": "page"}], "full": [{"type": "full"}, {"type": "full"}]}', waits => '[{"name": "page", "count": 1}]'`)
		}), task.Ended())
	}})
	n.submit(engine.Request{Type: "full"})
	if _, err := n.Submit(t.Context(), engine.Request{Type: "full"}); !errors.Is(err, engine.ErrBacklog) {
		t.Fatalf("the backlog takes another one: %v", err)
	}
	id := n.submit(engine.Request{Type: "fan"})
	got := n.end(id, task.Done)
	if page, full := got.Children.Set("page"), got.Children.Set("full"); page.Added != 2 || full.Added != 2 {
		t.Errorf("it has the children %+v", got.Children)
	}
	taken, err := n.Get(t.Context(), task.Parent{ID: id, Name: "page", Index: 1}.Child())
	if err != nil || string(taken.Payload) != "first" || taken.Parent != nil {
		t.Errorf("the task with the id of a child is %+v, %v", taken, err)
	}
	if pages := one[int](t, n.store.Pool(), "select count(*) from taskengine.tasks where type = 'page'"); pages != 3 {
		t.Errorf("there are %d pages", pages)
	}
}

func TestAWaitThatCannotBeIsRefusedInSQL(t *testing.T) {
	s := postgrestest.Open(t, server.Database(t))
	row := &task.Task{ID: task.NewIDs([32]byte{}).Next(time.Now()), Version: 1, State: task.Processing, Type: "mail", CreatedAt: time.Now(), UpdatedAt: time.Now(), ReadyAt: time.Now()}
	row.Children = &task.Children{Sets: []task.ChildSet{{Name: "page", Added: 1 << 20}, {Name: "bound", Added: 1, Shards: []byte{1}}}}
	for i := range task.MaxChildSets - 2 {
		row.Children.Sets = append(row.Children.Sets, task.ChildSet{Name: fmt.Sprint(i), Added: 1})
	}
	if _, err := s.Insert(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	wait, fan := "wait", "wait_with_children"
	for _, c := range []struct{ function, args, says string }{
		{wait, "", "no name of a signal or of children is given"},
		{wait, ", '{}'", "no name of a signal is given"},
		{wait, ", array['']", `"" is not the name of a signal`},
		{wait, ", array[null]", "null is not the name of a signal"},
		{wait, ", array['taskengine.children']", "names that begin with taskengine. belong to the engine"},
		{wait, ", array[['a'], ['b']]", "an array of one dimension"},
		{wait, ", array_fill('a'::text, array[21])", "21 names of signals are given, of 20 allowed"},
		{wait, `, array_fill('a'::text, array[20]), '[{"name": "page"}]'`, "20 names of signals are given, of 19 allowed"},
		{wait, ", array['a'], until => 'infinity'", "until must lie between the years 1970 and 9999"},
		{wait, ", array['a'], checkpoint => to_jsonb(repeat('x', 1048577))", "checkpoint has"},
		{wait, ", waits => '[]'", "no name of children is given"},
		{wait, ", waits => '{}'", "waits must be a JSON array of objects"},
		{wait, ", waits => '[1]'", "waits must be a JSON array of objects"},
		{wait, `, waits => '[{"count": 1}]'`, "null is not a name of children"},
		{wait, `, waits => '[{"name": "page"}, {"name": "page"}]'`, `the children "page" are given twice`},
		{wait, `, waits => '[{"name": "page", "count": 1.5}]'`, `waits for 1.5 children "page"`},
		{wait, `, waits => '[{"name": "page", "count": -1}]'`, `waits for -1 children "page"`},
		{wait, `, waits => '[{"name": "page", "count": "1"}]'`, `waits for "1" children "page"`},
		{wait, `, waits => '[{"name": "page", "or_failed": 1}]'`, `or_failed of the children "page" is 1`},
		{wait, `, waits => '[{"name": "page", "all": true}]'`, `a wait has the member "all"`},
		{fan, ", null", "no name of a signal or of children is given"},
		{fan, ", null, array['a']", "children must be a JSON object"},
		{fan, ", '[]', array['a']", "children must be a JSON object"},
		{fan, ", '{}'", "no name of a signal or of children is given"},
		{fan, `, '{"page": [], "image": []}'`, "it is not said for which it waits"},
		{fan, `, '{"new": {}}'`, `children "new" must be a JSON array`},
		{fan, `, '{"new": [1]}'`, `children "new" must be a JSON array`},
		{fan, `, '{"": [{"type": "mail"}]}'`, `"" is not a name of children`},
		{fan, `, '{"page": [{"type": "mail"}]}'`, `there would be 1048577 children "page", of 1048576 allowed`},
		{fan, `, '{"new": [{"type": "mail"}]}'`, "the children would have 1001 names, of 1000 allowed"},
		{fan, `, '{"bound": [{"type": "mail"}]}'`, `some of the children "bound" have an ordering key`},
		{fan, `, '{"0": [{"type": "mail", "ordering_key": "o"}]}'`, `some of the children "0" have an ordering key`},
		{fan, `, '{"bound": [{"type": "mail", "ordering_key": "o"}, {"type": "mail"}]}'`, `some of the children "bound" have an ordering key`},
		{fan, `, '{"0": [{"type": "mail"}, {}]}'`, "child 2: type is missing"},
		{fan, `, '{"0": [{"type": "mail", "key": "k"}]}'`, `child 1: it has the member "key"`},
		{"again_with_children", ", null, '{}'", "at is missing"},
		{"again_with_children", ", now(), null", "children must be a JSON object"},
	} {
		if err := endBySQL(t.Context(), s.Pool(), row, c.function, c.args); codeOf(err) != "22023" || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s%s: %v", c.function, c.args, err)
		}
	}
	if got, err := s.Get(t.Context(), row.ID); err != nil || got.State != task.Processing || got.Version != 1 {
		t.Errorf("after refusals the task is %+v, %v", got, err)
	}
	if tasks := one[int](t, s.Pool(), "select count(*) from taskengine.task"); tasks != 1 {
		t.Errorf("there are %d tasks", tasks)
	}
}
