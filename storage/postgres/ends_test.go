package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

// execer is a connection, a pool or a transaction.
type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// finishBySQL ends the attempt of t as a handler in any language does.
func finishBySQL(ctx context.Context, c execer, t *task.Task, result string) error {
	_, err := c.Exec(ctx, "select taskengine.finish($1, $2, to_jsonb($3::text))", t.ID.String(), int64(t.Version), result)
	return err
}

// codeOf returns the SQLSTATE of an error, "" if it is none of the server.
func codeOf(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// payBySQL makes a payment and ends the attempt in one transaction of the application, which fails with fail.
func payBySQL(ctx context.Context, n *node, t *task.Task, end func(tx pgx.Tx) error, fail error) error {
	return pgx.BeginFunc(ctx, n.store.Pool(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "insert into payments values ($1, $2)", t.ID.String(), t.Attempt); err != nil {
			return err
		}
		return errors.Join(end(tx), fail)
	})
}

// clumsyBySQL pays by SQL, and makes each mistake that a handler can make with its transaction. A task runs again
// until its payload is 3, and pays each time.
func clumsyBySQL(ctx context.Context, n *node, t *task.Task) ([]byte, error) {
	end := func(tx pgx.Tx) error {
		if string(t.Payload) == "3" {
			return finishBySQL(ctx, tx, t, fmt.Sprint("paid by attempt ", t.Attempt))
		}
		_, err := tx.Exec(ctx, "select taskengine.again($1, $2, now(), payload => to_jsonb($3::int))", t.ID.String(), int64(t.Version), 1+int(t.Payload[0]-'0'))
		return err
	}
	chance := rand.IntN(8)
	switch chance {
	case 0:
		return nil, errDeclined
	case 1: // rolled back, and the handler says that it has failed
		return nil, payBySQL(ctx, n, t, end, errDeclined)
	}
	err := payBySQL(ctx, n, t, end, nil)
	switch {
	case err != nil:
		return nil, err
	case chance == 2:
		panic("after the commit")
	case chance == 3:
		return nil, errDeclined
	case chance == 4:
		return nil, task.Permanent(errDeclined)
	case chance == 5:
		return nil, task.Again(time.Now(), task.WithPayload([]byte("7")))
	}
	return nil, nil
}

func TestWhatHandlersDoInTransactionsThatEndAttemptsBySQLHappensExactlyOnce(t *testing.T) {
	url := server.Database(t)
	pgtest.Exec(t, pgtest.Connect(t, url), payments)
	set := types("pay")
	p := set.Types["pay"]
	p.Retry.Max = 1000
	set.Types["pay"] = p
	nodes := []*node{join(t, url, set, map[string]work{"pay": clumsyBySQL}), join(t, url, set, map[string]work{"pay": clumsyBySQL})}
	ids := make([]task.ID, 100)
	for i := range ids {
		r := engine.Request{Type: "pay", Payload: []byte("1")}
		if i%3 == 0 {
			r.OrderingKey = fmt.Sprint(i % 4)
		}
		ids[i] = nodes[i%2].submit(r)
		if i%10 == 9 { // of a cancel and the transaction, one counts
			_, _ = nodes[0].Cancel(t.Context(), task.Ref{ID: ids[i]}, "")
		}
	}
	c := pgtest.Connect(t, url)
	for _, id := range ids {
		if err := nodes[0].WaitTasks(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		got, err := nodes[0].Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		most, least := 3, 3
		if got.State == task.Cancelled {
			most, least = 2, 0
		} else if got.State != task.Done || !strings.HasPrefix(string(got.Result), `"paid by attempt `) {
			t.Errorf("task %v is %v with %q: %s", id, got.State, got.Result, got.LastError)
		}
		if paid := one[int](t, c, "select count(*) from payments where id = $1", id.String()); paid < least || paid > most {
			t.Errorf("a task that is %v, with the payload %q, has %d payments", got.State, got.Payload, paid)
		}
	}
	if wrong := one[int](t, c, "select taskengine.recount()"); wrong != 0 {
		t.Errorf("%d counts are wrong", wrong)
	}
}

// Whatever follows the transaction, the row is as before if it is rolled back.
func TestAnEndFromSQLThatIsRolledBackLeavesNothing(t *testing.T) {
	url := server.Database(t)
	pgtest.Exec(t, pgtest.Connect(t, url), payments)
	state := func(n *node) string { // the node makes the tables of its types in that time
		return one[string](t, n.store.Pool(), `select concat((select string_agg(t::text, ' ') from taskengine.task t), (select string_agg(e::text, ' ') from taskengine.ended e),
			(select string_agg(k::text, ' ') from taskengine.key k), (select string_agg(relname, ' ' order by relname) from pg_class where relname !~ '^(ended_604800|pg_toast)'),
			(select sum(n) from taskengine.tally where state = 4))`)
	}
	n := alone(t, url, types("pay"), map[string]work{"pay": func(ctx context.Context, n *node, tk *task.Task) ([]byte, error) {
		before := state(n)
		for _, end := range []string{
			"finish($1, $2)", "again($1, $2, now())", "wait($1, $2, array['paid'])", `wait_with_children($1, $2, '{"part": [{"type": "pay"}, {"type": "pay"}]}')`,
			`again_with_children($1, $2, now(), '{"part": [{"type": "pay", "ordering_key": "o"}]}')`,
		} {
			err := payBySQL(ctx, n, tk, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "select taskengine."+end, tk.ID.String(), int64(tk.Version))
				return err
			}, errDeclined)
			if !errors.Is(err, errDeclined) || codeOf(err) != "" {
				t.Errorf("%s: %v", end, err)
			}
			if after := state(n); after != before {
				t.Errorf("%s leaves %s, before it was %s", end, after, before)
			}
		}
		return []byte("returned"), nil
	}})
	got := n.end(n.submit(engine.Request{Type: "pay", Key: "k", OrderingKey: "o"}), task.Done)
	if string(got.Result) != "returned" || one[int](t, n.store.Pool(), "select count(*) from payments") != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestAnAttemptThatIsOverIsNotEndedFromSQL(t *testing.T) {
	url := server.Database(t)
	s := postgrestest.Open(t, url)
	if err := s.SetRules(t.Context(), storage.TypeRules{Type: "mail", MaxPayload: 10, MaxResult: 10, KeepDone: time.Hour}, storage.TypeRules{Type: "short"}); err != nil {
		t.Fatal(err)
	}
	running := func(typ string) *task.Task {
		row := &task.Task{ID: task.NewIDs([32]byte(slices.Repeat([]byte{byte(rand.IntN(256))}, 32))).Next(time.Now()), Type: typ}
		row.Create(task.Submitted, time.Now(), time.Time{})
		if _, err := s.Insert(t.Context(), row); err != nil {
			t.Fatal(err)
		}
		got, err := s.Swap(t.Context(), task.Change{Ref: row.Ref(), To: task.Processing, At: time.Now(), Owner: task.ID{1}})
		if err != nil || got[0] == nil {
			t.Fatal(err)
		}
		return got[0]
	}
	changed := func(tk *task.Task, to task.State) *task.Task {
		c := task.Change{Ref: tk.Ref(), To: to, At: time.Now(), Outcome: task.Overruled}
		if to == task.Done {
			c.Outcome = task.Completed
		}
		if got, err := s.Swap(t.Context(), c); err != nil || got[0] == nil {
			t.Fatal(err)
		}
		return tk
	}
	taken := changed(running("mail"), task.Submitted)
	if got, err := s.Swap(t.Context(), task.Change{Ref: task.Ref{ID: taken.ID, Version: 3}, To: task.Processing, At: time.Now(), Owner: task.ID{2}}); err != nil || got[0] == nil {
		t.Fatal(err)
	}
	gone := changed(running("short"), task.Done)
	if _, err := s.Delete(t.Context(), task.Ref{ID: gone.ID, Version: 3}); err != nil {
		t.Fatal(err)
	}
	waits := running("mail")
	waits.Version--
	for _, c := range []struct {
		name, code, says string
		of               *task.Task
	}{
		{"that another node runs", "TE001", "of version 2 of the task " + taken.ID.String() + " is over: the task is processing, at version 4", taken},
		{"that is to run", "TE001", "the task is submitted, at version 3", changed(running("mail"), task.Submitted)},
		{"that is done", "TE001", "the task is done, at version 3", changed(running("mail"), task.Done)},
		{"that is cancelled", "TE001", "the task is cancelled, at version 3", changed(running("mail"), task.Cancelled)},
		{"that is not kept", "TE001", "there is no such task any more", gone},
		{"of an earlier version", "TE001", "the task is processing, at version 2", waits},
	} {
		for _, call := range []string{"finish($1, $2)", "again($1, $2, now())", "wait($1, $2, array['paid'])", `wait_with_children($1, $2, '{"part": [{"type": "mail"}]}')`} {
			_, err := s.Pool().Exec(t.Context(), "select taskengine."+call, c.of.ID.String(), int64(c.of.Version))
			if codeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s of a task %s: %v", call, c.name, err)
			}
		}
	}
	last := running("mail")
	for call, says := range map[string]string{
		"finish(null, 1)":                                                       "id and version must be those of the task",
		"finish($1, null)":                                                      "id and version must be those of the task",
		"again($1, $2, null)":                                                   "at is missing",
		"again($1, $2, 'infinity')":                                             "at must lie between the years 1970 and 9999",
		"again($1, $2, '-infinity')":                                            "at must lie between",
		"finish_bytes($1, $2, 'eleven bytes')":                                  "the result has 12 bytes, and max_result of the type mail allows 10",
		"again_bytes($1, $2, now(), result => 'eleven bytes')":                  "the result has 12 bytes",
		"again_bytes($1, $2, now(), payload => 'eleven bytes')":                 "payload has 12 bytes, of 10 allowed by max_payload of type mail",
		"again_bytes($1, $2, now(), checkpoint => repeat('x', 1048577)::bytea)": "checkpoint has 1048577 bytes, of 1048576 allowed",
	} {
		call = strings.NewReplacer("$1", "'"+last.ID.String()+"'", "$2", fmt.Sprint(last.Version)).Replace(call)
		if _, err := s.Pool().Exec(t.Context(), "select taskengine."+call); codeOf(err) != "22023" || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", call, err)
		}
	}
	if got, err := s.Get(t.Context(), last.ID); err != nil || got.State != task.Processing || got.Version != last.Version {
		t.Errorf("after refusals the task is %+v, %v", got, err)
	}
	if err := finishBySQL(t.Context(), s.Pool(), last, "done"); err != nil {
		t.Error(err)
	}
	if err := finishBySQL(t.Context(), s.Pool(), last, "done"); codeOf(err) != "TE001" {
		t.Errorf("it is ended twice: %v", err)
	}
}

// Another change of a task waits for the transaction that ends its attempt, and the other way round.
func TestOfATransactionFromSQLAndAnotherChangeOneCounts(t *testing.T) {
	for name, change := range map[string]func(ctx context.Context, n *node, ref task.Ref) (changed bool, err error){
		"of a person": func(ctx context.Context, n *node, ref task.Ref) (bool, error) {
			_, err := n.Cancel(ctx, ref, "no longer wanted")
			if errors.Is(err, engine.ErrStale) || errors.Is(err, engine.ErrNotAllowed) {
				return false, nil
			}
			return err == nil, err
		},
		"of the healer": func(ctx context.Context, n *node, ref task.Ref) (bool, error) {
			rows, err := n.store.Swap(ctx, task.Change{Ref: ref, To: task.Error, At: time.Now(), Outcome: task.Crashed, Error: "its node is gone"})
			return err == nil && rows[0] != nil, err
		},
	} {
		for _, commits := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, which commits: %v", name, commits), func(t *testing.T) {
				url := server.Database(t)
				pgtest.Exec(t, pgtest.Connect(t, url), payments)
				ended, commit, answer := make(chan task.Ref, 1), make(chan error, 1), make(chan struct{})
				n := alone(t, url, types("pay"), map[string]work{"pay": func(ctx context.Context, n *node, tk *task.Task) ([]byte, error) {
					err := pgx.BeginFunc(ctx, n.store.Pool(), func(tx pgx.Tx) error {
						if err := finishBySQL(ctx, tx, tk, "paid"); err != nil {
							return err
						}
						ended <- tk.Ref()
						return <-commit
					})
					<-answer
					return nil, err
				}})
				other := alone(t, url, types("pay"), nil)
				id := n.submit(engine.Request{Type: "pay"})
				ref := <-ended
				changed := make(chan bool)
				go func() {
					ok, err := change(t.Context(), other, ref)
					if err != nil {
						t.Error(err)
					}
					changed <- ok
				}()
				c := pgtest.Connect(t, url)
				for one[int](t, c, "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'") == 0 {
					time.Sleep(time.Millisecond)
				}
				if commits {
					commit <- nil
				} else {
					commit <- errDeclined
				}
				if ok := <-changed; ok == commits {
					t.Errorf("the other change was made: %v", ok)
				}
				close(answer)
				if commits {
					if got := n.end(id, task.Done); string(got.Result) != `"paid"` {
						t.Errorf("got %+v", got)
					}
				}
			})
		}
	}
}

// freeze has the database refuse to make or change tables, until the function that it returns is called.
func freeze(t *testing.T, url string) (thaw func()) {
	t.Helper()
	c := pgtest.Connect(t, url)
	pgtest.Exec(t, c, "create function no_ddl() returns event_trigger language plpgsql as $$ begin raise exception 'no changes of tables now'; end $$",
		"create event trigger frozen on ddl_command_start when tag in ('ALTER TABLE') execute function no_ddl()")
	return func() { pgtest.Exec(t, c, "drop event trigger frozen") }
}

// A transaction of the caller makes no table for the tasks that it ends: no session waits for it.
func TestATransactionFromSQLMakesNoTable(t *testing.T) {
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		for _, commits := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, which commits: %v", level, commits), func(t *testing.T) {
				url := server.Database(t)
				postgrestest.Open(t, url)
				thaw := freeze(t, url)
				n := alone(t, url, types("pay", "wait"), map[string]work{"wait": nothing, "pay": func(ctx context.Context, n *node, tk *task.Task) ([]byte, error) {
					tx, err := n.store.Pool().BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
					if err != nil {
						return nil, err
					}
					defer func() { _ = tx.Rollback(context.Background()) }()
					if one[int](t, tx, "select count(*) from taskengine.ended") != 0 {
						t.Error("something has ended already")
					}
					if err := finishBySQL(ctx, tx, tk, "paid"); err != nil {
						return nil, task.Permanent(err)
					}
					n.end(n.submit(engine.Request{Type: "wait"}), task.Done)
					if !commits {
						return []byte("returned"), tx.Rollback(ctx)
					}
					return []byte("returned"), tx.Commit(ctx)
				}})
				want := `returned`
				if commits {
					want = `"paid"`
				}
				id := n.submit(engine.Request{Type: "pay", Key: "k"})
				if got := n.end(id, task.Done); string(got.Result) != want {
					t.Errorf("got %q", got.Result)
				}
				thaw()
				isMoved(t, n, id)
			})
		}
	}
}

// isMoved cleans up, and fails the test unless the tasks that have ended are in their own tables then, and are found there,
// with their keys and counts. Rows that another session has locked move when it is cleaned up again.
func isMoved(t *testing.T, n *node, ids ...task.ID) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, _, err := n.store.Expire(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		got := one[int](t, n.store.Pool(), "select count(*) from taskengine.ended_2147483646_0")
		if got == 0 {
			break
		}
		if time.Since(begin) > 3*time.Minute {
			t.Fatalf("%d rows are still in the spare table", got)
		}
	}
	for _, id := range ids {
		got, err := n.Get(t.Context(), id)
		if err != nil || got.State != task.Done {
			t.Errorf("task %v is %+v, %v", id, got, err)
			continue
		}
		if again, err := n.Submit(t.Context(), engine.Request{Type: got.Type, Key: got.Key}); err != nil || again[0].ID != id {
			t.Errorf("its key is taken by %+v, %v", again, err)
		}
	}
	if wrong := one[int](t, n.store.Pool(), "select taskengine.recount()"); wrong != 0 {
		t.Errorf("%d counts are wrong", wrong)
	}
}

// Tasks end while the database refuses to make tables, and while another transaction has a lock that this needs.
func TestTasksEndWhileNoTableCanBeMade(t *testing.T) {
	for what, freeze := range map[string]func(url string) (thaw func()){
		"an event trigger": func(url string) func() { return freeze(t, url) },
		"a lock": func(url string) func() {
			c := pgtest.Connect(t, url)
			pgtest.Exec(t, c, "begin", "lock table taskengine.ended in share update exclusive mode")
			return func() { pgtest.Exec(t, c, "rollback") }
		},
	} {
		t.Run(what, func(t *testing.T) {
			url := server.Database(t)
			postgrestest.Open(t, url)
			thaw := freeze(url)
			set := types("pay", "wait")
			short := set.Types["wait"]
			short.Retention.Done = 3 * time.Hour
			set.Types["wait"] = short
			n := alone(t, url, set, map[string]work{"wait": nothing, "pay": func(ctx context.Context, n *node, tk *task.Task) ([]byte, error) {
				return nil, n.store.Within(ctx, n.store.Pool(), func(_ pgx.Tx, x *postgres.Tx) error { return engine.FinishTx(ctx, x, nil) })
			}})
			var ids []task.ID
			for i := range 10 {
				ids = append(ids, n.submit(engine.Request{Type: []string{"pay", "wait"}[i%2], Key: fmt.Sprint(i)}))
				n.end(ids[i], task.Done)
			}
			if one[int](t, n.store.Pool(), "select count(*) from taskengine.ended_2147483646_0") == 0 {
				t.Error("the tables could be made")
			}
			thaw()
			isMoved(t, n, ids...)
		})
	}
}

// A transaction that began before a table was made by a node uses it.
func TestAnOldTransactionFromSQLUsesATableThatIsNew(t *testing.T) {
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			url := server.Database(t)
			n := alone(t, url, types("pay", "wait"), map[string]work{"wait": nothing, "pay": func(ctx context.Context, n *node, tk *task.Task) ([]byte, error) {
				return nil, pgx.BeginTxFunc(ctx, n.store.Pool(), pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
					if one[int](t, tx, "select count(*) from taskengine.ended") != 0 {
						t.Error("something has ended already")
					}
					n.end(n.submit(engine.Request{Type: "wait"}), task.Done)
					return task.Permanent(finishBySQL(ctx, tx, tk, "paid"))
				})
			}})
			if got := n.end(n.submit(engine.Request{Type: "pay"}), task.Done); string(got.Result) != `"paid"` {
				t.Errorf("got %q", got.Result)
			}
		})
	}
}

func TestTheNodesLearnTheOrderingKeyAtTheCommitOfAnEnd(t *testing.T) {
	url := server.Database(t)
	listener := pgtest.Connect(t, url)
	n := alone(t, url, types("mail"), map[string]work{"mail": func(ctx context.Context, n *node, tk *task.Task) ([]byte, error) {
		end := "finish($1, $2, wake => $3)"
		if string(tk.Payload) == "again" {
			end = "again($1, $2, now() + interval '1 hour', wake => $3)"
		}
		_, err := n.store.Pool().Exec(ctx, "select taskengine."+end, tk.ID.String(), int64(tk.Version), tk.Key == "")
		return nil, err
	}})
	pgtest.Exec(t, listener, "listen taskengine")
	for _, r := range []engine.Request{
		{OrderingKey: "k"}, {OrderingKey: "l", Payload: []byte("again")}, {OrderingKey: "m", Key: "silent"}, {OrderingKey: "n", Key: "silent too", Payload: []byte("again")}, {},
	} {
		r.Type = "mail"
		id := n.submit(r)
		for one[bool](t, n.store.Pool(), "select exists (select from taskengine.task where id = $1 and state <> 1)", id.String()) {
			time.Sleep(time.Millisecond)
		}
	}
	pgtest.Exec(t, pgtest.Connect(t, url), "notify taskengine, 'done'")
	var heard []string
	for len(heard) == 0 || heard[len(heard)-1] != "done" {
		got, err := listener.WaitForNotification(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		heard = append(heard, got.Payload)
	}
	want := []string{fmt.Sprintf("k:%d:bWFpbA==:aw==", task.ShardOf("k")), fmt.Sprintf("k:%d:bWFpbA==:bA==", task.ShardOf("l")), "done"}
	if !slices.Equal(heard, want) {
		t.Errorf("the nodes hear %q, want %q", heard, want)
	}
}

func TestARoleMayEndAttemptsOnlyIfItIsLetTo(t *testing.T) {
	url := server.Database(t)
	s := postgrestest.Open(t, url)
	row := &task.Task{ID: task.NewIDs([32]byte{}).Next(time.Now()), Version: 1, State: task.Processing, Type: "mail", CreatedAt: time.Now(), UpdatedAt: time.Now(), ReadyAt: time.Now()}
	if _, err := s.Insert(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	owner := pgtest.Connect(t, url)
	name := strings.ReplaceAll(row.ID.String(), "-", "")
	adds, ends := "adds_"+name, "ends_"+name
	for role, may := range map[string]string{adds: "taskengine.add, taskengine.add_bytes", ends: "taskengine.finish, taskengine.again, taskengine.wait"} {
		pgtest.Exec(t, owner, "create role "+role, "grant usage on schema taskengine to "+role, "grant execute on function "+may+" to "+role)
		defer pgtest.Exec(t, owner, "drop owned by "+role, "drop role "+role)
	}
	as := func(role, sql string) error {
		c := pgtest.Connect(t, url)
		// Objects of the role's own must not be taken for objects of the schema.
		pgtest.Exec(t, c, "set role "+role, "create temp table task (id int)", "create temp table key (id int)", "set search_path = pg_temp, taskengine, public")
		_, err := c.Exec(t.Context(), sql)
		return err
	}
	call := func(f string) string { return fmt.Sprintf("select taskengine.%s('%v', 1)", f, row.ID) }
	for _, f := range []string{call("finish"), call("finish_bytes"), call("attempt_of"), call("wait"), call("wait_bytes"), "select taskengine.again(gen_random_uuid(), 1, now())", "select taskengine.again_bytes(gen_random_uuid(), 1, now())"} {
		if err := as(adds, f); codeOf(err) != "42501" {
			t.Errorf("%s, by a role that may add: %v", f, err)
		}
	}
	for _, f := range []string{
		call("finish_bytes"), "select taskengine.wait_with_children(gen_random_uuid(), 1, '{}')", "select taskengine.again_with_children(gen_random_uuid(), 1, now(), '{}')",
		"select taskengine.goes_on(gen_random_uuid(), 1, null, null, now(), null, null, null, null, true)", "select taskengine.add('mail')", "select * from taskengine.task", "delete from taskengine.task",
	} {
		if err := as(ends, f); codeOf(err) != "42501" {
			t.Errorf("%s, by a role that may end attempts: %v", f, err)
		}
	}
	if err := as(ends, call("finish")); err != nil {
		t.Error(err)
	}
	if got, err := s.Get(t.Context(), row.ID); err != nil || got.State != task.Done {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A handler gets an error if its transaction is in a database that does not hold its task.
func TestATaskOfAnotherDatabaseIsNotEndedFromSQL(t *testing.T) {
	s := postgrestest.Open(t, postgrestest.Tables(t, server))
	pgtest.Exec(t, pgtest.Connect(t, s.Pool().Config().ConnString()),
		"insert into taskengine.home (here, coming, leaving, to_name) values (decode(repeat('00', 32), 'hex'), decode(repeat('00', 32), 'hex'), decode(repeat('00', 32), 'hex'), '')")
	for _, end := range []string{"finish('0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69', 2)", "again('0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69', 2, now())"} {
		_, err := s.Pool().Exec(t.Context(), "select taskengine."+end)
		if codeOf(err) != "0A000" || !strings.Contains(err.Error(), "the task 0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69 is in another database") {
			t.Errorf("%s: %v", end, err)
		}
	}
}
