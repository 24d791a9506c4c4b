//go:build !race

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/task"
)

const twoPages = `'[{"type": "page", "payload": {"n": 1}}, {"type": "page", "headers": {"a": "b"}, "priority": 2}]'`

// addWithChildren adds a task by SQL.
func addWithChildren(ctx context.Context, q interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, args string,
) (id task.ID, outcome string, err error) {
	var text string
	if err = q.QueryRow(ctx, "select id::text, outcome from taskengine.add_with_children("+args+")", pgx.QueryExecModeSimpleProtocol).Scan(&text, &outcome); err != nil {
		return id, "", err
	}
	id, err = task.ParseID(text)
	return id, outcome, err
}

func TestATaskIsAddedWithItsChildrenBySQLIfItsTransactionCommits(t *testing.T) {
	const parents = 12
	url := server.Database(t)
	work := map[string]work{"page": nothing, "report": func(_ context.Context, _ *node, t *task.Task) ([]byte, error) {
		s := t.Children.Set("page")
		return fmt.Appendf(nil, "%v: %d of %d, %s", t.Woken().By, s.Done, s.Added, t.Payload), nil
	}}
	nodes := []*node{join(t, url, types("report", "page"), work), join(t, url, types("report", "page"), work)}
	c := pgtest.Connect(t, url)
	var ids []task.ID
	for i := range parents {
		for _, commits := range []bool{false, true} {
			tx, err := c.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			id, outcome, err := addWithChildren(t.Context(), tx, fmt.Sprintf(`'report', %s, '"%d"', key => 'k%d', name => 'page'`, twoPages, i, i))
			if err != nil || outcome != "created" {
				t.Fatalf("%s, %v", outcome, err)
			}
			if !commits {
				if err := tx.Rollback(t.Context()); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
	}
	for i, id := range ids {
		if got, outcome, err := addWithChildren(t.Context(), c, fmt.Sprintf(`'report', %s, key => 'k%d', name => 'page'`, twoPages, i)); err != nil || got != id || outcome == "created" {
			t.Errorf("the same key again: %v, %s, %v", got, outcome, err)
		}
		if got, want := string(nodes[0].end(id, task.Done).Result), fmt.Sprintf(`children: 2 of 2, "%d"`, i); got != want {
			t.Errorf("the parent has seen %q, want %q", got, want)
		}
	}
	if got := one[int64](t, nodes[0].store.Pool(), "select sum(tasks)::bigint from taskengine.counts where type in ('page', 'report')"); got != 3*parents {
		t.Errorf("there are %d tasks, want %d", got, 3*parents)
	}
	if got := one[int64](t, c, "select count(*) from taskengine.tasks c join taskengine.tasks p on p.id = c.parent and p.parent is null and p.type = 'report'"); got != 2*parents {
		t.Errorf("the view has %d children with their parents, want %d", got, 2*parents)
	}
}

// The rows of a request in SQL are those of the same request in Go.
func TestSQLAddsChildrenAsTheEngineDoes(t *testing.T) {
	reqs := func() map[string]engine.Request {
		page := func(r engine.Request) engine.Request {
			r.Type = "page"
			return r
		}
		one, ordered := page(engine.Request{Payload: []byte(`{"n": 1}`)}), page(engine.Request{OrderingKey: "o"})
		until := time.Now().Add(time.Hour).Truncate(time.Microsecond)
		return map[string]engine.Request{
			"'report', " + twoPages + ", id => $id, priority => 1, headers => '{\"h\": \"i\"}'": {
				Priority: new(uint8(1)), Headers: map[string]string{"h": "i"},
				Children: &task.NewChildren{Sets: []task.ChildRequests{{Name: "child", Requests: []engine.Request{one, page(engine.Request{Headers: map[string]string{"a": "b"}, Priority: new(uint8(2))})}}}},
			},
			`'report', '[{"type": "page", "ordering_key": "o"}, {"type": "page", "ordering_key": "o"}]', id => $id, ordering_key => 'o', name => 'näme', or_failed => true`: {
				OrderingKey: "o",
				Children:    &task.NewChildren{Sets: []task.ChildRequests{{Name: "näme", Requests: []engine.Request{ordered, ordered}}}, Waits: []task.ChildrenWait{{Name: "näme", OrFailed: true}}},
			},
			fmt.Sprintf(`'report', '[{"type": "page", "payload": {"n": 1}}, {"type": "page"}]', id => $id, count => 1, until => '%s', expires_at => '%[1]s'`, until.Format(time.RFC3339Nano)): {
				ExpiresAt: until,
				Children:  &task.NewChildren{Sets: []task.ChildRequests{{Name: "child", Requests: []engine.Request{one, page(engine.Request{})}}}, Waits: []task.ChildrenWait{{Name: "child", Count: 1}}, Until: until},
			},
			`'report', '[{"type": "page", "payload": {"n": 1}, "ordering_key": null, "at": null, "headers": null, "priority": null}]', id => $id`: {
				Children: &task.NewChildren{Sets: []task.ChildRequests{{Name: "child", Requests: []engine.Request{one}}}},
			},
			`'report', '[]', id => $id`: {Children: &task.NewChildren{Sets: []task.ChildRequests{{Name: "child"}}}},
			`'report', '[{"type": "page", "payload": {"n": 1}}]', id => $id, until => '2020-01-01 00:00:00 UTC'`: {
				Children: &task.NewChildren{Sets: []task.ChildRequests{{Name: "child", Requests: []engine.Request{one}}}, Until: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)},
			},
		}
	}
	set := types("report", "page")
	for name, p := range set.Types {
		p.Timeout.Queue = time.Minute
		set.Types[name] = p
	}
	bySQL, byGo := alone(t, server.Database(t), set, nil), alone(t, server.Database(t), set, nil)
	n := byte(0)
	for args, r := range reqs() {
		n++
		r.Type, r.ID = "report", task.ID{1, 2, 3, 4, n}
		if _, err := byGo.Submit(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		id, outcome, err := addWithChildren(t.Context(), bySQL.store.Pool(), strings.ReplaceAll(args, "$id", "'"+r.ID.String()+"'"))
		if err != nil || id != r.ID || outcome != "created" {
			t.Fatalf("%s: %v, %s, %v", args, id, outcome, err)
		}
		if diff := cmp.Diff(family(t, byGo.store, r.ID), family(t, bySQL.store, r.ID)); diff != "" {
			t.Errorf("%s: Go and SQL differ:\n%s", args, diff)
		}
	}
}

// family returns the rows of a task and its children without what differs from call to call.
func family(t *testing.T, s *postgres.Store, id task.ID) (rows []*task.Task) {
	t.Helper()
	parent, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	rows = append(rows, parent)
	for i := range parent.Children.Sets {
		for index := range parent.Children.Sets[i].Added {
			child, err := s.Get(t.Context(), parent.Children.Sets[i].Child(id, index, -1))
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, child)
		}
	}
	for _, r := range rows {
		made := r.CreatedAt
		for _, at := range []*time.Time{&r.CreatedAt, &r.UpdatedAt, &r.ReadyAt, &r.NextEventAt} {
			if gap := at.Sub(made); !at.IsZero() && gap > -time.Minute && gap < 2*time.Minute {
				*at = time.Unix(0, 0).Add(gap)
			}
		}
		r.Seq, r.Turn = 0, min(r.Turn, task.Behind) // a node makes one the head when it has looked
	}
	return rows
}

func TestChildrenThatCannotBeAreRefusedInSQL(t *testing.T) {
	n := alone(t, server.Database(t), types("report", "page"), nil)
	for args, why := range map[string]string{
		`'report', null`:                                 "must be a JSON array",
		`'report', '{}'`:                                 "must be a JSON array",
		`'report', '[1]'`:                                "must be a JSON array",
		`'report', '[{"type": "page"}, {}]'`:             "child 1: type is missing",
		`'report', '[{"type": "page", "key": "k"}]'`:     `child 0: it has the member "key"`,
		`'report', '[{"type": "page", "priority": 10}]'`: "child 0: priority is 10",
		`'report', '[{"type": "taskengine.relay"}]'`:     "is reserved",

		`'report', '[{"type": "page", "ordering_key": "o"}, {"type": "page"}]'`: "some of the children",
		`'report', '[{"type": "page"}, {"type": "page", "ordering_key": "o"}]'`: "some of the children",

		`'report', '[]', name => ''`:                 "is not a name",
		`'report', '[{"type": "page"}]', count => 2`: "waits for 2 children",
		`'report', '[{"type": "page"}]', count => 0`: "waits for 0 children",

		`'', '[]'`:                            "type is missing",
		`'report', '[]', until => 'infinity'`: "times must lie",
	} {
		_, _, err := addWithChildren(t.Context(), n.store.Pool(), args)
		if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "22023" || !strings.Contains(e.Message, why) {
			t.Errorf("%s: %v, want %q", args, err, why)
		}
	}
	if got := one[int64](t, n.store.Pool(), "select count(*) from taskengine.tasks"); got != 0 {
		t.Errorf("there are %d tasks", got)
	}
	id := "'01020304-0000-0000-0000-000000000000'"
	if _, _, err := addWithChildren(t.Context(), n.store.Pool(), "'report', "+twoPages+", id => "+id); err != nil {
		t.Fatal(err)
	}
	if _, outcome, err := addWithChildren(t.Context(), n.store.Pool(), "'report', "+twoPages+", id => "+id); err != nil || outcome != "existing" {
		t.Errorf("the same id again: %s, %v", outcome, err)
	}
	pgtest.Exec(t, pgtest.Connect(t, n.store.Pool().Config().ConnString()), "delete from taskengine.task where type = 'report'")
	if _, _, err := addWithChildren(t.Context(), n.store.Pool(), "'report', "+twoPages+", id => "+id); err == nil || !strings.Contains(err.Error(), "had this id before") {
		t.Errorf("an id that is used again: %v", err)
	}
}

func TestSQLReplacesNoTaskThatHasChildren(t *testing.T) {
	for _, mode := range []policy.OnConflict{policy.ReplaceExisting, policy.DebounceExisting} {
		set := types("report", "page")
		p := set.Types["report"]
		p.Unique.OnConflict = mode
		set.Types["report"] = p
		n := alone(t, server.Database(t), set, nil)
		first, _, err := addWithChildren(t.Context(), n.store.Pool(), "'report', "+twoPages+", key => 'k'")
		if err != nil {
			t.Fatal(err)
		}
		if got, outcome, err := addWithChildren(t.Context(), n.store.Pool(), "'report', "+twoPages+", '1', key => 'k'"); err != nil || got != first || outcome != "existing" {
			t.Errorf("%v by a task with children: %s, %v", mode, outcome, err)
		}
		if outcome := one[string](t, n.store.Pool(), "select outcome from taskengine.add('report', '1', key => 'k')"); outcome != "existing" {
			t.Errorf("%v by a task without children: %s", mode, outcome)
		}
		if outcome := one[string](t, n.store.Pool(), "select outcome from taskengine.add('report', '1', key => 'alone')"); outcome != "created" {
			t.Errorf("%v: %s", mode, outcome)
		}
		if _, outcome, err := addWithChildren(t.Context(), n.store.Pool(), "'report', "+twoPages+", '1', key => 'alone'"); err != nil || outcome != "existing" {
			t.Errorf("%v of a task without children: %s, %v", mode, outcome, err)
		}
	}
}
