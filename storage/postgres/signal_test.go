//go:build !race

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

// gather collects the data of signals "part" until one is "end".
func gather(_ context.Context, _ *node, t *task.Task) ([]byte, error) {
	got := slices.Clone(t.Checkpoint())
	if w := t.Woken(); w.By == task.BySignal {
		if string(w.Signal.Data) == "end" {
			return got, nil
		}
		got = append(append(got, w.Signal.Data...), ' ')
	}
	return nil, task.WaitFor([]string{"part"}, time.Time{}, task.WithCheckpoint(got))
}

// awaits waits until a task waits for a signal and no signal is on its way.
func (n *node) awaits(id task.ID) *task.Task {
	n.t.Helper()
	for {
		var carriers int
		if err := n.store.Pool().QueryRow(n.t.Context(), "select count(*) from taskengine.task where type = 'taskengine.relay'").Scan(&carriers); err != nil {
			n.t.Fatal(err)
		}
		t, err := n.Get(n.t.Context(), id)
		if err != nil {
			n.t.Fatal(err)
		}
		if carriers == 0 && t.Awaits() != nil { // it has gathered the last signals
			return t
		}
		time.Sleep(time.Millisecond)
	}
}

func TestASignalFromSQLIsDeliveredIfAndOnlyIfItsTransactionCommits(t *testing.T) {
	url := server.Database(t)
	set := types("gather")
	nodes := []*node{join(t, url, set, map[string]work{"gather": gather}), join(t, url, set, map[string]work{"gather": gather})}
	plain := nodes[0].submit(engine.Request{Type: "gather"})
	keyed := nodes[0].submit(engine.Request{Type: "gather", Key: "k"})
	ordered := nodes[0].submit(engine.Request{Type: "gather", Key: "k", OrderingKey: "o"})
	c := pgtest.Connect(t, url)
	var want []string
	for i := range 40 {
		tx, err := c.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range []string{"id => '" + plain.String() + "'", "type => 'gather', key => 'k'", "type => 'gather', key => 'k', ordering_key => 'o'"} {
			if _, err := tx.Exec(t.Context(), fmt.Sprintf("select taskengine.signal('part', '%d', %s, keep => true, wake => %v)", i, to, i%5 > 0)); err != nil {
				t.Fatal(err)
			}
		}
		if i%4 == 0 {
			err = tx.Rollback(t.Context())
		} else {
			want = append(want, strconv.Itoa(i))
			err = tx.Commit(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []task.ID{plain, keyed, ordered} {
		nodes[0].awaits(id)
		if _, _, err := nodes[0].Signal(t.Context(), engine.Signal{To: id, Name: "part", Data: []byte("end"), Keep: true}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Fields(string(nodes[0].end(id, task.Done).Result)); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

// A handler may send a signal in the transaction in which it ends its attempt by a function.
func TestASignalFromSQLLeavesWithTheEndOfAnAttempt(t *testing.T) {
	url := server.Database(t)
	var to task.ID
	n := join(t, url, types("gather", "pay"), map[string]work{"gather": gather, "pay": func(ctx context.Context, n *node, t *task.Task) ([]byte, error) {
		tx, err := n.store.Pool().Begin(ctx)
		if err != nil {
			return nil, err
		}
		defer tx.Rollback(context.WithoutCancel(ctx))
		_, err = tx.Exec(ctx, fmt.Sprintf("select taskengine.signal_bytes('part', 'attempt %d'::bytea, id => '%s', keep => true), taskengine.finish('%s', %d)", t.Attempt, to, t.ID, t.Version))
		if err != nil {
			return nil, err
		}
		if t.Attempt == 1 {
			return nil, errDeclined
		}
		if err := tx.Commit(ctx); err != nil {
			return nil, err
		}
		return nil, task.Ended()
	}})
	to = n.submit(engine.Request{Type: "gather"})
	id := n.submit(engine.Request{Type: "pay"})
	n.end(id, task.Done)
	n.awaits(to)
	if _, _, err := n.Signal(t.Context(), engine.Signal{To: to, Name: "part", Data: []byte("end"), Keep: true}); err != nil {
		t.Fatal(err)
	}
	if got := string(n.end(to, task.Done).Result); got != "attempt 2 " {
		t.Errorf("got %q", got)
	}
}

// A signal with an id that is given is taken once, and data of all bytes arrives as it is.
func TestASignalFromSQLHasItsIDAndItsBytes(t *testing.T) {
	url := server.Database(t)
	n := join(t, url, types("gather"), map[string]work{"gather": gather})
	to := n.submit(engine.Request{Type: "gather"})
	n.awaits(to)
	data := make([]byte, 256)
	for i := range data {
		data[i] = byte(i)
	}
	c := pgtest.Connect(t, url)
	for _, name := range []string{"other", "other", "part"} {
		for range 2 {
			const sql = "select taskengine.signal_bytes($1, $2, id => $3::text::uuid, keep => true, signal_id => $4::text::uuid)::text"
			sid := task.ID{1, 15: byte(len(name))}.String()
			var got string
			if err := c.QueryRow(t.Context(), sql, name, data, to.String(), sid).Scan(&got); err != nil || got != sid {
				t.Fatal(got, err)
			}
		}
	}
	got := n.awaits(to)
	if len(got.Signals.Kept) != 1 || string(got.Signals.Kept[0].Data) != string(data) || string(got.Checkpoint()) != string(data)+" " {
		t.Errorf("it has %+v and %q", got.Signals, got.Checkpoint())
	}
}

func TestASignalFromSQLThatCannotBeIsRefused(t *testing.T) {
	url := server.Database(t)
	join(t, url, types("gather"), map[string]work{"gather": gather})
	c := pgtest.Connect(t, url)
	const id = "id => '01900000-0000-7000-8000-00000000002c'"
	for args, want := range map[string]string{
		"null, " + id:                                    "not the name of a signal",
		"'', " + id:                                      "not the name of a signal",
		"repeat('x', 101), " + id:                        "not the name of a signal",
		"e'a\\nb', " + id:                                "not the name of a signal",
		"'paid'":                                         "id of a task, or to its type and its key",
		"'paid', type => 'gather'":                       "id of a task, or to its type and its key",
		"'paid', key => 'k'":                             "id of a task, or to its type and its key",
		"'paid', key => 'k', " + id:                      "id of a task, or to its type and its key",
		"'paid', ordering_key => 'k', " + id:             "id of a task, or to its type and its key",
		"'paid', type => 'gather', key => ''":            "is empty",
		"'paid', type => 'taskengine.relay', key => 'k'": "belong to the engine",

		"'paid', id => '00000000-0000-0000-0000-000000000000'":                 "zero",
		"'paid', to_jsonb(repeat('x', 2 << 20)), type => 'gather', key => 'k'": "max_payload of type gather",
	} {
		_, err := c.Exec(t.Context(), "select taskengine.signal("+args+")")
		if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "22023" || !strings.Contains(e.Message, want) {
			t.Errorf("signal(%s): %v, want %q", args, err, want)
		}
	}
	if got := one[int](t, c, "select count(*) from taskengine.task"); got != 0 {
		t.Errorf("%d tasks were added", got)
	}
}

func TestARoleMaySendSignalsOnlyIfItIsLetTo(t *testing.T) {
	url := server.Database(t)
	s := postgrestest.Open(t, url)
	owner := pgtest.Connect(t, url)
	const send = "select taskengine.signal('paid', id => gen_random_uuid())"
	name := strings.ReplaceAll(task.NewIDs([32]byte{1}).Next(time.Now()).String(), "-", "")
	for role, may := range map[string]string{"adds_" + name: "taskengine.add", "signals_" + name: "taskengine.signal"} {
		pgtest.Exec(t, owner, "create role "+role, "grant usage on schema taskengine to "+role, "grant execute on function "+may+" to "+role)
		defer pgtest.Exec(t, owner, "drop owned by "+role, "drop role "+role)
		c := pgtest.Connect(t, url)
		pgtest.Exec(t, c, "set role "+role)
		for _, sql := range []string{send, "select taskengine.add('mail')", "select taskengine.signal_bytes('paid', id => gen_random_uuid())"} {
			_, err := c.Exec(t.Context(), sql)
			if want := strings.Contains(sql, may+"("); want != (err == nil) || !want && codeOf(err) != "42501" {
				t.Errorf("a role that may %s: %s: %v", may, sql, err)
			}
		}
	}
	if got := one[int](t, owner, "select count(*) from taskengine.task where type = 'taskengine.relay'"); got != 1 {
		t.Errorf("%d signals were sent, in %v", got, s)
	}
}

// A database that holds some of the shards takes signals to all tasks; one that holds none takes none.
func TestASignalFromSQLLeavesADatabaseOfSome(t *testing.T) {
	s := postgrestest.Open(t, postgrestest.Tables(t, server))
	c := pgtest.Connect(t, s.Pool().Config().ConnString())
	pgtest.Exec(t, c, "insert into taskengine.home (here, coming, leaving, to_name) values (decode(repeat('00', 31) || '01', 'hex'), decode(repeat('00', 32), 'hex'), decode(repeat('00', 32), 'hex'), '')")
	for range 20 {
		pgtest.Exec(t, c, "select taskengine.signal('paid', id => gen_random_uuid())")
	}
	if got := one[int](t, c, "select count(*) from taskengine.task where type = 'taskengine.relay' and shard = 248 and taskengine.shard_of(id) = 248"); got != 20 {
		t.Errorf("%d carriers are in the shard that is here", got)
	}
	pgtest.Exec(t, c, "delete from taskengine.task", "update taskengine.home set here = decode(repeat('00', 32), 'hex')")
	if _, err := c.Exec(t.Context(), "select taskengine.signal('paid', id => gen_random_uuid())"); codeOf(err) != "0A000" {
		t.Errorf("of a database that holds nothing: %v", err)
	}
}
