//go:build !race

package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

func TestATaskAddedFromSQLRunsIfAndOnlyIfItsTransactionCommits(t *testing.T) {
	url := server.Database(t)
	set := types("ship")
	nodes := []*node{join(t, url, set, map[string]work{"ship": nothing}), join(t, url, set, map[string]work{"ship": nothing})}
	c := pgtest.Connect(t, url)
	var ids, never []task.ID
	for i := range 60 {
		tx, err := c.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		one := mustAdd(t, tx, fmt.Sprintf("'ship', jsonb_build_object('n', %d)", i))
		two := mustAdd(t, tx, fmt.Sprintf("'ship', at => now() + %d * interval '1 millisecond'", i))
		if i%3 == 0 {
			never = append(never, one.id, two.id)
			err = tx.Rollback(t.Context())
		} else {
			ids = append(ids, one.id, two.id)
			err = tx.Commit(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	on := [2]int{}
	for _, id := range ids {
		nodes[0].end(id, task.Done)
		for i, n := range nodes {
			on[i] += n.runs(id)
		}
	}
	if on[0] == 0 || on[1] == 0 || on[0]+on[1] != len(ids) {
		t.Errorf("of %d tasks %v ran on the nodes", len(ids), on)
	}
	for _, id := range never {
		if _, err := nodes[0].Get(t.Context(), id); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("a task of a transaction that was rolled back: %v", err)
		}
	}
}

// The notifications that wake the nodes are sent at the commit, one for each shard.
func TestAddWakesNodesAtTheCommit(t *testing.T) {
	url := server.Database(t)
	postgrestest.Open(t, url)
	listener, c := pgtest.Connect(t, url), pgtest.Connect(t, url)
	for _, sql := range []string{"listen taskengine", "listen done"} {
		if _, err := listener.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	transaction := func(ends string, args ...string) {
		t.Helper()
		tx, err := c.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range args {
			mustAdd(t, tx, a)
		}
		if _, err := tx.Exec(t.Context(), ends); err != nil {
			t.Fatal(err)
		}
	}
	transaction("rollback", "'ship'")
	transaction("commit", "'ship', at => now() + interval '1 hour'")
	transaction("commit", "'ship', wake => false")
	transaction("commit", "'ship', ordering_key => 'a', key => 'k'", "'ship', ordering_key => 'a'", "'ship', ordering_key => 'b'", "'ship', ordering_key => 'b', key => 'k'",
		"'ship', id => '01900000-0000-7000-8000-00000000002c'", "'ship', id => '01900000-0000-7000-8001-00000000002c'")
	if _, err := c.Exec(t.Context(), "notify done"); err != nil {
		t.Fatal(err)
	}
	var heard []string
	for {
		n, err := listener.WaitForNotification(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n.Channel == "done" {
			break
		}
		heard = append(heard, n.Payload)
	}
	want := []string{"k:44:c2hpcA==:YQ==", "k:229:c2hpcA==:Yg==", "w:44"} // FNV-1a of "a" and "b", and the shard in the ids
	if !slices.Equal(heard, want) {
		t.Errorf("heard %q, want %q", heard, want)
	}
}

func TestAddAnswersWithTheTaskThatHasTheKeyOrTheID(t *testing.T) {
	url := server.Database(t)
	gate := make(chan struct{})
	n := join(t, url, types("ship", "late"), map[string]work{"ship": nothing, "late": func(ctx context.Context, _ *node, _ *task.Task) ([]byte, error) {
		<-gate
		return nil, nil
	}})
	defer close(gate)
	c := pgtest.Connect(t, url)
	const id = "0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69"
	first := mustAdd(t, c, "'ship', key => 'k'")
	if !first.created {
		t.Fatalf("got %+v", first)
	}
	chosen := mustAdd(t, c, "'ship', id => '"+id+"'")
	if !chosen.created || chosen.id.String() != id {
		t.Fatalf("got %+v", chosen)
	}
	live := mustAdd(t, c, "'late', key => 'k', ordering_key => 'o'") // of another type: another key
	for _, when := range []string{"while they are live", "when they have ended"} {
		for args, want := range map[string]added{
			"'ship', key => 'k'": {first.id, false},
			"'ship', key => 'k', id => '" + live.id.String() + "'": {live.id, false}, // the id decides
			"'ship', id => '" + id + "'":                           {chosen.id, false},
			"'late', id => '" + id + "', key => 'other'":           {chosen.id, false},
			"'late', key => 'k', ordering_key => 'o'":              {live.id, false},
			"'late', key => 'k', id => '" + live.id.String() + "'": {live.id, false},
		} {
			if got := mustAdd(t, c, args); got != want {
				t.Errorf("%s: add(%s) is %v, want %v", when, args, got, want)
			}
		}
		n.end(first.id, task.Done)
		n.end(chosen.id, task.Done)
	}
	for _, args := range []string{"'late', key => 'k'", "'late', key => 'k', ordering_key => 'another'"} { // not the key of that order
		if got := mustAdd(t, c, args+", at => now() + interval '1 hour'"); !got.created {
			t.Errorf("add(%s) is %v", args, got)
		}
	}
	if got := mustAdd(t, c, "'late', key => 'other', at => now() + interval '1 hour'"); !got.created {
		t.Error("a key that was asked for in vain is kept")
	}
}

func TestOfManyConcurrentAddsOfAKeyOneSucceeds(t *testing.T) {
	url := server.Database(t)
	postgrestest.Open(t, url)
	for range 5 {
		var mu sync.Mutex
		var wg sync.WaitGroup
		got := make(map[added]int)
		key := task.NewIDs([32]byte{}).Next(time.Now()).String()
		for range 8 {
			c := pgtest.Connect(t, url)
			wg.Go(func() {
				a, err := add(t.Context(), c, "'ship', key => '"+key+"'")
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				got[a]++
				mu.Unlock()
			})
		}
		wg.Wait()
		created := 0
		for a, times := range got {
			if a.created {
				created += times
			}
		}
		if len(got) != 2 || created != 1 {
			t.Errorf("got %v", got)
		}
	}
}

// A transaction that does not see ids which others have used since its begin may add a task with an id that is
// generated now.
func TestAddAtHigherIsolation(t *testing.T) {
	url := server.Database(t)
	postgrestest.Open(t, url)
	err := pgx.BeginTxFunc(t.Context(), pgtest.Connect(t, url), pgx.TxOptions{IsoLevel: pgx.Serializable}, func(tx pgx.Tx) error {
		mustAdd(t, tx, "'ship', key => 'k'")
		_, err := add(t.Context(), tx, "'ship', id => '0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69'")
		return err
	})
	var e *pgconn.PgError
	if !errors.As(err, &e) || e.Code != "25001" || !strings.Contains(e.Hint, "READ COMMITTED") {
		t.Errorf("got %v", err)
	}
}

// asSQL writes a request as arguments of add_bytes.
func asSQL(r engine.Request) string {
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	args := []string{"type => " + quote(r.Type)}
	if r.Payload != nil {
		args = append(args, fmt.Sprintf(`payload => '\x%x'`, r.Payload))
	}
	if r.Key != "" {
		args = append(args, "key => "+quote(r.Key))
	}
	if r.OrderingKey != "" {
		args = append(args, "ordering_key => "+quote(r.OrderingKey))
	}
	if r.Priority != nil {
		args = append(args, fmt.Sprint("priority => ", *r.Priority))
	}
	for name, at := range map[string]time.Time{"at": r.At, "expires_at": r.ExpiresAt} {
		if !at.IsZero() {
			args = append(args, name+" => "+quote(at.UTC().Format("2006-01-02 15:04:05.999999Z")))
		}
	}
	if r.Headers != nil {
		text, _ := json.Marshal(r.Headers)
		args = append(args, "headers => "+quote(string(text)))
	}
	if !r.ID.IsZero() {
		args = append(args, "id => "+quote(r.ID.String()))
	}
	return strings.Join(args, ", ")
}

// addRequest adds a request of an engine from SQL.
func addRequest(ctx context.Context, q querier, r engine.Request) (a added, err error) {
	var id string
	err = q.QueryRow(ctx, "select id::text, created from taskengine.add_bytes("+asSQL(r)+")").Scan(&id, &a.created)
	if err == nil {
		a.id, err = task.ParseID(id)
	}
	return a, err
}

func number(n uint8) *uint8 { return &n }

func TestARequestThatIsNoGoodIsRefusedInTheWordsOfTheEngine(t *testing.T) {
	url := server.Database(t)
	set := types("small", "limited")
	small := set.Types["small"]
	small.MaxPayload = 3
	set.Types["small"] = small
	set.Limits["partner"] = policy.Limit{Name: "partner", Max: 1, Per: "payload.order.partner"}
	limited := set.Types["limited"]
	limited.Limits = []string{"partner"}
	set.Types["limited"] = limited
	n := alone(t, url, set, nil)
	long := func(n int) string { return strings.Repeat("é", n/2) + strings.Repeat("x", n%2) }
	for _, r := range []engine.Request{
		{},
		{Type: long(201)},
		{Type: "a\tb"},
		{Type: "a\x7fb"},
		{Type: "ship", Key: long(501)},
		{Type: "ship", OrderingKey: long(501)},
		{Type: "small", Payload: []byte("four")},
		{Type: "ship", Payload: make([]byte, 1<<20+1)},
		{Type: "ship", Headers: map[string]string{"a": long(1 << 14), "b": ""}},
		{Type: "ship", Priority: number(10)},
		{Type: "ship", At: time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC)},
		{Type: "ship", ExpiresAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
		{Type: "limited", Payload: []byte(`{"order": [1]}`)},
		{Type: "limited", Payload: []byte(`{"order": {"partner": {}}}`)},
		{Type: "limited", Payload: []byte(`{"order": {"partner": "` + long(1001) + `"}}`)},
		{Type: "limited"},
		{Type: "limited", Payload: []byte("{")},
	} {
		_, want := n.Submit(t.Context(), r)
		_, err := addRequest(t.Context(), n.store.Pool(), r)
		var e *pgconn.PgError
		if !errors.As(err, &e) || e.Code != "22023" {
			t.Errorf("%.100s: got %v, want %v", asSQL(r), err, want)
			continue
		}
		said := strings.TrimPrefix(want.Error(), engine.ErrInvalid.Error()+": ")
		if strings.Contains(said, "not a JSON object: ") { // the texts of the two parsers differ
			if !strings.HasPrefix(e.Message, "limit partner needs order.partner of the payload: ") {
				t.Errorf("%.100s: it says %q", asSQL(r), e.Message)
			}
		} else if e.Message != said {
			t.Errorf("%.100s: it says %q, and the engine %q", asSQL(r), e.Message, said)
		}
	}
	for args, want := range map[string]string{
		"null":                       "type is missing",
		"'ship', key => ''":          "key is empty",
		"'ship', ordering_key => ''": "ordering key is empty",
		"'ship', id => '00000000-0000-0000-0000-000000000000'": "id is zero",
		"'ship', headers => '[]'":                              "headers must be a JSON object",
		"'ship', headers => '{\"a\": 1}'":                      "headers must be a JSON object",
		"'ship', priority => -1":                               "priority is -1, of 0 (sooner) to 9 (later)",
		"'ship', at => 'infinity'":                             "times must lie between",
		"'ship', expires_at => '-infinity'":                    "times must lie between",
	} {
		if _, err := add(t.Context(), n.store.Pool(), args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("add(%s): %v, want %q", args, err, want)
		}
	}
	if got := one[int](t, n.store.Pool(), "select count(*) from taskengine.tasks"); got != 0 {
		t.Errorf("%d tasks were added", got)
	}
}

// A row that is added from SQL equals the row that the engine would have made.
func TestAddMakesTheRowsOfTheEngine(t *testing.T) {
	url := server.Database(t)
	set := types("plain", "timed")
	timed := set.Types["timed"]
	timed.Priority, timed.Timeout.Queue, timed.Timeout.Total = 2, time.Hour, 3*time.Hour
	timed.Limits = []string{"tenant", "by"}
	set.Limits["all"] = policy.Limit{Name: "all", Max: 3, Per: "key"}
	set.Limits["tenant"] = policy.Limit{Name: "tenant", Of: "all", Max: 2, Per: "headers.tenant.id"}
	set.Limits["by"] = policy.Limit{Name: "by", Max: 2, Per: "ordering_key"}
	set.Types["timed"] = timed
	n := alone(t, url, set, nil)
	now := time.Now().Truncate(time.Microsecond)
	ids := task.NewIDs([32]byte{1})
	for i, r := range []engine.Request{
		{Type: "plain"},
		{Type: "unheard of", Payload: []byte{}, Headers: map[string]string{}},
		{Type: "Ünïcödé 日本", Key: "schlüssel", OrderingKey: "日本", Payload: []byte{0, 1, 0xff}},
		{Type: "plain", Priority: number(0), Headers: map[string]string{"traceparent": "00-0", "é": "1", "z": "", "ab": "2", "a": "3"}},
		{Type: "plain", At: now.Add(time.Hour)},
		{Type: "plain", At: now.Add(-time.Hour)},
		{Type: "plain", At: now.Add(2 * time.Hour), ExpiresAt: now.Add(time.Hour)},
		{Type: "plain", ExpiresAt: now.Add(-time.Hour)},
		{Type: "timed"},
		{Type: "timed", Priority: number(9), Key: "k", OrderingKey: "o\x1f\x1e", Headers: map[string]string{"tenant.id": "7"}},
		{Type: "timed", ExpiresAt: now.Add(30 * time.Minute)},
		{Type: "timed", At: now.Add(5 * time.Hour)},
		{Type: "timed", At: now.Add(2 * time.Hour), ExpiresAt: now.Add(time.Hour)},
		{Type: strings.Repeat("x", engine.MaxType), Key: strings.Repeat("y", engine.MaxKey), OrderingKey: strings.Repeat("z", engine.MaxKey)},
	} {
		r.ID = ids.Next(now)
		var want, got *task.Task
		err := n.store.Update(t.Context(), func(tx storage.Tx) error {
			if _, err := n.SubmitTx(t.Context(), tx, r); err != nil {
				return err
			}
			var err error
			want, err = tx.Get(t.Context(), r.ID)
			return errors.Join(err, errDeclined)
		})
		if !errors.Is(err, errDeclined) {
			t.Fatalf("%d: %v", i, err)
		}
		err = pgx.BeginFunc(t.Context(), n.store.Pool(), func(tx pgx.Tx) error {
			if a, err := addRequest(t.Context(), tx, r); err != nil || a != (added{r.ID, true}) {
				return fmt.Errorf("add answers %v, %w", a, err)
			}
			var err error
			got, err = n.store.Attach(tx).Get(t.Context(), r.ID)
			return err
		})
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		if d := got.CreatedAt.Sub(want.CreatedAt); d < -time.Minute || d > time.Minute {
			t.Errorf("%d: it was created at %v, and the engine's at %v", i, got.CreatedAt, want.CreatedAt)
		}
		if diff := cmp.Diff(sinceItsSubmit(want), sinceItsSubmit(got)); diff != "" {
			t.Errorf("%s: the rows differ (-engine +SQL):\n%s", asSQL(r), diff)
		}
	}
}

// sinceItsSubmit returns a row without its number, and with the times that count from its submit as if
// it had been submitted in 1970.
func sinceItsSubmit(t *task.Task) *task.Task {
	c := t.Clone()
	c.Seq = 0
	for _, at := range []*time.Time{&c.ReadyAt, &c.NextEventAt, &c.ExpiresAt, &c.UpdatedAt} {
		if d := at.Sub(t.CreatedAt); d%time.Minute == 0 && !at.IsZero() {
			*at = time.Unix(0, 0).UTC().Add(d)
		}
	}
	c.CreatedAt = time.Time{}
	return c
}

func TestAnIDFromSQLIsOfVersion7AndOfNow(t *testing.T) {
	url := server.Database(t)
	postgrestest.Open(t, url)
	c := pgtest.Connect(t, url)
	seen := make(map[task.ID]bool)
	for range 100 {
		before := one[time.Time](t, c, "select clock_timestamp()").Truncate(time.Millisecond)
		id, err := task.ParseID(one[string](t, c, "select (taskengine.add('ship')).id::text"))
		if err != nil {
			t.Fatal(err)
		}
		after := one[time.Time](t, c, "select clock_timestamp()")
		ms := int64(0)
		for _, b := range id[:6] {
			ms = ms<<8 | int64(b)
		}
		if at := time.UnixMilli(ms); id[6]>>4 != 7 || id[8]>>6 != 2 || at.Before(before) || at.After(after) || seen[id] {
			t.Errorf("id %v, made between %v and %v", id, before, after)
		}
		seen[id] = true
	}
	made := "select taskengine.made_at('0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69')"
	if got := one[int64](t, c, made); got != 0x0190a6f07c3e*1000 {
		t.Errorf("made_at is %d", got)
	}
}

// A role that may only execute the function can add tasks, and can do nothing else.
func TestARoleThatMayOnlyAddCanOnlyAdd(t *testing.T) {
	url := server.Database(t)
	n := join(t, url, types("ship"), map[string]work{"ship": nothing})
	role := "app_" + strings.ReplaceAll(n.Incarnation().String(), "-", "")
	pgtest.Exec(t, pgtest.Connect(t, url), "create role "+role+" login; grant usage on schema taskengine to "+role+"; grant execute on function taskengine.add to "+role)
	t.Cleanup(func() {
		c, err := pgx.Connect(context.Background(), url)
		if err == nil {
			_, err = c.Exec(context.Background(), "drop owned by "+role+"; drop role "+role)
			_ = c.Close(context.Background())
		}
		if err != nil {
			t.Error(err)
		}
	})
	c := pgtest.Connect(t, url)
	if _, err := c.Exec(t.Context(), "set role "+role+"; create temp table task (id int); set search_path = pg_temp, taskengine, public"); err != nil {
		t.Fatal(err)
	}
	n.end(mustAdd(t, c, "'ship', key => 'k'").id, task.Done)
	if got := mustAdd(t, c, "'ship', key => 'k'"); got.created {
		t.Error("a key is accepted twice")
	}
	for _, sql := range []string{
		"select * from taskengine.task", "select * from taskengine.ended", "select * from taskengine.key", "select * from taskengine.tasks",
		"select * from taskengine.type_policy", "select nextval('taskengine.task_seq')", "delete from taskengine.task",
		"select taskengine.add_bytes('ship')", "select taskengine.is_taken(gen_random_uuid())", "select taskengine.take_key(null, gen_random_uuid())",
		"select taskengine.put(null::taskengine.task, true)", "create table taskengine.mine ()",
	} {
		_, err := c.Exec(t.Context(), sql)
		var e *pgconn.PgError
		if !errors.As(err, &e) || e.Code != "42501" {
			t.Errorf("%s: %v", sql, err)
		}
	}
	other := pgtest.Connect(t, url)
	if _, err := other.Exec(t.Context(), "create role "+role+"_2; grant usage on schema taskengine to "+role+"_2; set role "+role+"_2"); err != nil {
		t.Fatal(err)
	}
	if _, err := add(t.Context(), other, "'ship'"); err == nil {
		t.Error("a role without the right to execute it may add")
	}
	pgtest.Exec(t, pgtest.Connect(t, url), "drop owned by "+role+"_2; drop role "+role+"_2")
}

func TestPeopleCanReadTheView(t *testing.T) {
	url := server.Database(t)
	n := alone(t, url, types("ship", "odd"), map[string]work{"ship": func(context.Context, *node, *task.Task) ([]byte, error) {
		return []byte("shipped"), nil
	}})
	at := time.Date(2100, 1, 2, 3, 4, 5, 678901000, time.UTC)
	done := n.submit(engine.Request{Type: "ship", Key: "k", Payload: []byte(`{"n": 1}`)})
	n.end(done, task.Done)
	n.submit(engine.Request{Type: "odd", Key: "a\x00b", Payload: []byte{0xff, 'x'}, At: at, Priority: number(1)})
	rows, err := n.store.Pool().Query(t.Context(), "select type, state, key, payload, result, next_event_at, priority, finished from (select *, state = 'done' as finished from taskengine.tasks) t order by type")
	if err != nil {
		t.Fatal(err)
	}
	type seen struct {
		Type, State, Key, Payload string
		Result                    *string
		NextEventAt               *time.Time
		Priority                  int
		Finished                  bool
	}
	got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[seen])
	if err != nil || len(got) != 2 {
		t.Fatalf("got %v, %v", got, err)
	}
	if s := got[0]; s.Type != "odd" || s.State != "waiting" || s.Key != `a\000b` || s.Payload != `\377x` || s.Result != nil || !s.NextEventAt.Equal(at) || s.Priority != 1 {
		t.Errorf("got %+v", s)
	}
	if s := got[1]; s.Type != "ship" || s.State != "done" || s.Key != "k" || s.Payload != `{"n": 1}` || *s.Result != "shipped" || s.NextEventAt == nil {
		t.Errorf("got %+v", s)
	}
	for _, state := range task.States() {
		if got := one[string](t, n.store.Pool(), "select (array['waiting', 'submitted', 'processing', 'done', 'error', 'failed', 'cancelled'])[$1::int]", int(state)); got != state.String() {
			t.Errorf("state %d is called %s, and is %v", state, got, state)
		}
	}
}

func TestNodesTellTheDatabaseOfTheirTypes(t *testing.T) {
	url := server.Database(t)
	s := postgrestest.Open(t, url)
	d := policy.DefaultType()
	want := storage.TypeRules{Priority: d.Priority, MaxPayload: d.MaxPayload, MaxResult: d.ResultLimit(), KeepDone: d.Retention.Done}
	if got, err := s.Rules(t.Context(), "ship"); err != nil || !cmp.Equal(got, want) {
		t.Errorf("before any node: %+v, %v; want %+v", got, err, want)
	}
	set := types("ship")
	p := set.Types["ship"]
	p.Priority, p.MaxPayload, p.Timeout.Queue, p.Timeout.Total, p.Limits = 3, 1000, time.Hour, 2*time.Hour, []string{"partner"}
	p.MaxResult, p.Retention.Done = 2000, 3*time.Hour
	set.Types["ship"] = p
	set.Limits["partner"] = policy.Limit{Name: "partner", Max: 1, Per: "payload.order.partner"}
	alone(t, url, set, nil)
	want = storage.TypeRules{
		Type: "ship", Priority: 3, MaxPayload: 1000, QueueTimeout: time.Hour, TotalTimeout: 2 * time.Hour,
		MaxResult: 2000, KeepDone: 3 * time.Hour,
		Keyed: []storage.Keyed{{Limit: "partner", Path: []string{"payload", "order", "partner"}}},
	}
	if got, err := s.Rules(t.Context(), "ship"); err != nil || !cmp.Equal(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	if got, err := s.Rules(t.Context(), "other"); err != nil || got.Type != "" || got.Priority != d.Priority {
		t.Errorf("of another type: %+v, %v", got, err)
	}
}
