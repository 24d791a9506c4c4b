//go:build !race

package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

const orders = "create table orders (id uuid primary key)"

// order is the transaction of an application: it places an order, by exec, and
// adds a task for it.
func order(ctx context.Context, n *node, tx storage.Tx, exec func(sql string, args ...any) error) (task.ID, error) {
	receipts, err := n.SubmitTx(ctx, tx, engine.Request{Type: "ship"})
	if err != nil {
		return task.ID{}, err
	}
	return receipts[0].ID, exec("insert into orders values ($1)", receipts[0].ID.String())
}

// ways are the ways in which an application adds a task in a transaction of its own, which
// fails with err if that is not nil.
var ways = map[string]func(t *testing.T, n *node, url string, err error) (task.ID, error){
	"a transaction of pgx": func(t *testing.T, n *node, url string, fail error) (task.ID, error) {
		tx, err := pgtest.Connect(t, url).Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		x := n.store.Attach(tx)
		id, err := order(t.Context(), n, x, func(sql string, args ...any) error {
			_, err := tx.Exec(t.Context(), sql, args...)
			return err
		})
		if err = errors.Join(err, fail); err != nil {
			return id, errors.Join(err, tx.Rollback(t.Context()))
		}
		if err := tx.Commit(t.Context()); err != nil {
			return id, err
		}
		x.Committed()
		x.Committed() // once is enough
		return id, nil
	},
	"a savepoint of pgx": func(t *testing.T, n *node, url string, fail error) (id task.ID, err error) {
		var x *postgres.Tx
		err = pgx.BeginFunc(t.Context(), pgtest.Connect(t, url), func(tx pgx.Tx) error {
			return pgx.BeginFunc(t.Context(), tx, func(tx pgx.Tx) error {
				x = n.store.Attach(tx)
				id, err = order(t.Context(), n, x, func(sql string, args ...any) error {
					_, err := tx.Exec(t.Context(), sql, args...)
					return err
				})
				return errors.Join(err, fail)
			})
		})
		if err == nil {
			x.Committed()
		}
		return id, err
	},
	"within the store's pool": func(t *testing.T, n *node, _ string, fail error) (id task.ID, err error) {
		err = n.store.Within(t.Context(), n.store.Pool(), func(tx pgx.Tx, x *postgres.Tx) error {
			id, err = order(t.Context(), n, x, func(sql string, args ...any) error {
				_, err := tx.Exec(t.Context(), sql, args...)
				return err
			})
			return errors.Join(err, fail)
		})
		return id, err
	},
	"a transaction of database/sql": func(t *testing.T, n *node, url string, fail error) (task.ID, error) {
		c, err := openSQL(t, url).Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		tx, err := c.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		x := n.store.AttachSQL(c)
		id, err := order(t.Context(), n, x, func(sql string, args ...any) error {
			_, err := tx.ExecContext(t.Context(), sql, args...)
			return err
		})
		if err = errors.Join(err, fail); err != nil {
			return id, errors.Join(err, tx.Rollback())
		}
		if err := tx.Commit(); err != nil {
			return id, err
		}
		x.Committed()
		return id, nil
	},
	"within a pool of database/sql": func(t *testing.T, n *node, url string, fail error) (id task.ID, err error) {
		err = n.store.WithinSQL(t.Context(), openSQL(t, url), func(tx *sql.Tx, x *postgres.Tx) error {
			id, err = order(t.Context(), n, x, func(sql string, args ...any) error {
				_, err := tx.ExecContext(t.Context(), sql, args...)
				return err
			})
			return errors.Join(err, fail)
		})
		return id, err
	},
}

func openSQL(t *testing.T, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// The node is alone, so it does not poll: it finds a task only if the commit is reported.
func TestATaskAddedInTheCallersTransactionRunsIfAndOnlyIfThatCommits(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			url := server.Database(t)
			pgtest.Exec(t, pgtest.Connect(t, url), orders)
			n := alone(t, url, types("ship"), map[string]work{"ship": nothing})
			id, err := way(t, n, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			n.end(id, task.Done)
			never, err := way(t, n, url, errDeclined)
			if !errors.Is(err, errDeclined) {
				t.Errorf("got %v", err)
			}
			if _, err := n.Get(t.Context(), never); !errors.Is(err, task.ErrNotFound) {
				t.Errorf("the task of a transaction that was rolled back: %v", err)
			}
			if got := one[string](t, n.store.Pool(), "select string_agg(id::text, ' ') from orders"); got != id.String() {
				t.Errorf("orders %s, want %v", got, id)
			}
		})
	}
}

// The caller dies after its commit, or does not report it: the nodes find the task.
func TestATaskIsFoundThoughItsCommitIsNotReported(t *testing.T) {
	url := server.Database(t)
	n := join(t, url, types("ship"), map[string]work{"ship": nothing})
	var ids []task.ID
	for range 3 {
		err := pgx.BeginFunc(t.Context(), pgtest.Connect(t, url), func(tx pgx.Tx) error {
			receipts, err := n.SubmitTx(t.Context(), n.store.Attach(tx), engine.Request{Type: "ship"}, engine.Request{Type: "ship", At: time.Now().Add(time.Second)})
			for _, r := range receipts {
				ids = append(ids, r.ID)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range ids {
		n.end(id, task.Done)
	}
}

func TestTheCallersSettingsAreLeftAlone(t *testing.T) {
	url := server.Database(t)
	n := alone(t, url, types("ship"), nil)
	const settings = "select concat_ws(' ', current_setting('plan_cache_mode'), current_setting('jit'), current_setting('enable_seqscan'), current_setting('enable_hashjoin'), current_setting('enable_mergejoin'))"
	err := pgx.BeginFunc(t.Context(), pgtest.Connect(t, url), func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "set local plan_cache_mode = force_custom_plan; set local jit = on; set local enable_mergejoin = off"); err != nil {
			return err
		}
		for range 2 {
			if _, err := n.SubmitTx(t.Context(), n.store.Attach(tx), engine.Request{Type: "ship"}); err != nil {
				return err
			}
			if got := one[string](t, tx, settings); got != "force_custom_plan on on on off" {
				t.Errorf("the settings are %s", got)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// In a transaction that does not see later commits of others, an id could be used
// twice.
func TestInsertNeedsReadCommitted(t *testing.T) {
	url := server.Database(t)
	n := alone(t, url, types("ship"), nil)
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		err := pgx.BeginTxFunc(t.Context(), pgtest.Connect(t, url), pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
			_, err := n.SubmitTx(t.Context(), n.store.Attach(tx), engine.Request{Type: "ship"})
			return err
		})
		if err == nil || !strings.Contains(err.Error(), "cannot be added at the isolation level "+string(level)) {
			t.Errorf("at %s: %v", level, err)
		}
	}
}

func TestATransactionInWhichAVerbFailedCallsNoHooks(t *testing.T) {
	url := server.Database(t)
	n := alone(t, url, types("ship"), nil)
	heard := false
	tx, err := pgtest.Connect(t, url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x := n.store.Attach(tx)
	x.OnCommit(func() { heard = true })
	if _, err := tx.Exec(t.Context(), "select 1/0"); err == nil {
		t.Fatal("one can divide by zero")
	}
	if _, err := n.SubmitTx(t.Context(), x, engine.Request{Type: "ship"}); err == nil {
		t.Error("a task can be added after an error")
	}
	if _, err := x.Get(t.Context(), task.ID{1}); err == nil || errors.Is(err, task.ErrNotFound) {
		t.Errorf("a verb after another has failed: %v", err)
	}
	if err := tx.Commit(t.Context()); !errors.Is(err, pgx.ErrTxCommitRollback) {
		t.Errorf("the commit: %v", err)
	}
	if x.Committed(); heard {
		t.Error("a function of OnCommit was called")
	}
}

func TestWithinRollsBackWhatAVerbFailedIn(t *testing.T) {
	url := server.Database(t)
	pgtest.Exec(t, pgtest.Connect(t, url), orders)
	n := alone(t, url, types("ship"), nil)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	err := n.store.Within(t.Context(), n.store.Pool(), func(tx pgx.Tx, x *postgres.Tx) error {
		if _, err := tx.Exec(t.Context(), "insert into orders values (gen_random_uuid())"); err != nil {
			return err
		}
		_, _ = n.SubmitTx(ended, x, engine.Request{Type: "ship"})
		return nil // although nothing was added
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if got := one[int](t, n.store.Pool(), "select count(*) from orders"); got != 0 {
		t.Errorf("%d orders were placed without a task", got)
	}
}

func TestAttachSaysWhatItCannotWorkWith(t *testing.T) {
	url := server.Database(t)
	s := postgrestest.Open(t, url)
	says := func(what string, x *postgres.Tx, want string) {
		t.Helper()
		_, err := x.Get(t.Context(), task.ID{1})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: it says %v, want %q", what, err, want)
		}
	}
	c, err := openSQL(t, url).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	says("a connection of database/sql without a transaction", s.AttachSQL(c), "there is no transaction under way")
	tx, err := c.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	x := s.AttachSQL(c)
	if _, err := x.Get(t.Context(), task.ID{1}); !errors.Is(err, task.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	says("a transaction of database/sql that is over", x, "there is no transaction under way")
	for _, mode := range []string{"exec", "simple_protocol"} {
		tx, err := pgtest.Connect(t, url+"&default_query_exec_mode="+mode).Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		says("the mode "+mode, s.Attach(tx), "use default_query_exec_mode=cache_describe")
	}
	for _, mode := range []string{"cache_describe", "describe_exec", "cache_statement"} {
		tx, err := pgtest.Connect(t, url+"&default_query_exec_mode="+mode).Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		x := s.Attach(tx)
		if _, err := x.Get(t.Context(), task.ID{1}); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("the mode %s: %v", mode, err)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		says("a transaction that is over", x, "tx is closed")
		x.Committed()
		says("a transaction that was reported to have committed", x, "")
	}
}
