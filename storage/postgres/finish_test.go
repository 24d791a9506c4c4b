package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/task"
)

const payments = "create table payments (id uuid, attempt int)"

// pay makes a payment and finishes the task of ctx in tx.
func pay(ctx context.Context, tx pgx.Tx, x *postgres.Tx, t *task.Task) error {
	if _, err := tx.Exec(ctx, "insert into payments values ($1, $2)", t.ID.String(), t.Attempt); err != nil {
		return err
	}
	return engine.FinishTx(ctx, x, fmt.Append(nil, "paid by attempt ", t.Attempt))
}

// clumsy pays, and makes each mistake that a handler can make with its transaction.
func clumsy(ctx context.Context, n *node, t *task.Task) ([]byte, error) {
	chance := rand.IntN(8)
	switch chance {
	case 0:
		return nil, errDeclined
	case 1: // rolled back, and the handler ignores that
		_ = n.store.Within(ctx, n.store.Pool(), func(tx pgx.Tx, x *postgres.Tx) error {
			return errors.Join(pay(ctx, tx, x, t), errDeclined)
		})
		return nil, errDeclined
	case 2: // committed, and not reported
		return nil, pgx.BeginFunc(ctx, n.store.Pool(), func(tx pgx.Tx) error { return pay(ctx, tx, n.store.Attach(tx), t) })
	}
	err := n.store.Within(ctx, n.store.Pool(), func(tx pgx.Tx, x *postgres.Tx) error { return pay(ctx, tx, x, t) })
	switch {
	case err != nil:
		return nil, err
	case chance == 3:
		panic("after the commit")
	case chance == 4:
		return nil, errDeclined
	case chance == 5:
		return nil, task.Again(time.Now())
	}
	return nil, nil
}

func TestWhatHandlersDoInTheirTransactionsHappensExactlyOnce(t *testing.T) {
	url := server.Database(t)
	pgtest.Exec(t, pgtest.Connect(t, url), payments)
	set := types("pay")
	p := set.Types["pay"]
	p.Retry.Max = 1000
	set.Types["pay"] = p
	nodes := []*node{join(t, url, set, map[string]work{"pay": clumsy}), join(t, url, set, map[string]work{"pay": clumsy})}
	ids := make([]task.ID, 300)
	for i := range ids {
		ids[i] = nodes[i%2].submit(engine.Request{Type: "pay"})
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
		want := 0
		if got.State == task.Done {
			want = 1
		} else if got.State != task.Cancelled {
			t.Errorf("task %v is %v: %s", id, got.State, got.LastError)
		}
		paid := one[int](t, c, "select count(*) from payments where id = $1", id.String())
		if paid != want {
			t.Errorf("a task that is %v, with %q, has %d payments", got.State, got.Result, paid)
		}
	}
}

// stand stops a handler between FinishTx and the end of its transaction, and between that and its
// return.
type stand struct {
	finished chan task.Ref
	commit   chan bool
	answer   chan struct{}
}

func newStand() stand {
	return stand{make(chan task.Ref, 1), make(chan bool, 1), make(chan struct{})}
}

func (s stand) work(ctx context.Context, n *node, t *task.Task) ([]byte, error) {
	err := n.store.Within(ctx, n.store.Pool(), func(tx pgx.Tx, x *postgres.Tx) error {
		if err := pay(ctx, tx, x, t); err != nil {
			return err
		}
		s.finished <- t.Ref()
		if !<-s.commit {
			return task.Permanent(errDeclined)
		}
		return nil
	})
	<-s.answer
	return nil, err
}

// Another change of a task waits for the transaction that finishes it, and is made if that does not
// commit.
func TestOfATransactionAndAnotherChangeOneCounts(t *testing.T) {
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
				s := newStand()
				n := alone(t, url, types("pay"), map[string]work{"pay": s.work})
				other := alone(t, url, types("pay"), nil)
				id := n.submit(engine.Request{Type: "pay"})
				ref := <-s.finished
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
				s.commit <- commits
				if ok := <-changed; ok == commits {
					t.Errorf("the other change was made: %v", ok)
				}
				close(s.answer) // no sooner, or it would be a change like the other
				want := 0
				if commits {
					want = 1
					n.end(id, task.Done)
				} else if got, err := n.Get(t.Context(), id); err != nil || got.State == task.Done {
					t.Errorf("got %v, %v", got, err)
				}
				if got := one[int](t, c, "select count(*) from payments"); got != want {
					t.Errorf("there are %d payments, want %d", got, want)
				}
			})
		}
	}
}

// A handler that loses its connection does not know whether it has committed: the payment
// exists if and only if the task is done with it.
func TestACommitWithALostAnswerCountsOnce(t *testing.T) {
	url := server.Database(t)
	pgtest.Exec(t, pgtest.Connect(t, url), payments)
	n := join(t, url, types("pay"), map[string]work{"pay": func(ctx context.Context, n *node, t *task.Task) ([]byte, error) {
		if t.Attempt > 1 {
			return nil, n.store.Within(ctx, n.store.Pool(), func(tx pgx.Tx, x *postgres.Tx) error { return pay(ctx, tx, x, t) })
		}
		tx, err := n.store.Pool().Begin(ctx)
		if err != nil {
			return nil, err
		}
		if err := pay(ctx, tx, n.store.Attach(tx), t); err != nil {
			return nil, err
		}
		if rand.IntN(2) == 0 {
			if err := tx.Commit(ctx); err != nil {
				return nil, err
			}
		} else {
			_ = tx.Conn().PgConn().Conn().Close() // the server rolls back
			_ = tx.Rollback(ctx)
		}
		return nil, errors.New("connection reset by peer")
	}})
	for range 20 {
		id := n.submit(engine.Request{Type: "pay"})
		got := n.end(id, task.Done)
		if paid := one[int](t, n.store.Pool(), "select max(attempt) from payments where id = $1 having count(*) = 1", id.String()); string(got.Result) != fmt.Sprint("paid by attempt ", paid) {
			t.Errorf("attempt %d paid, and the result is %q", paid, got.Result)
		}
	}
	if s := n.Stats(); s.Stale != 0 {
		t.Errorf("%+v", s)
	}
}

// The table for tasks that end now may be made while the transaction is under way, and the
// transaction may have read the tables above it before.
func TestFinishTxWorksAtEveryIsolationLevelAndUsesTablesThatAreNew(t *testing.T) {
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			url := server.Database(t)
			pgtest.Exec(t, pgtest.Connect(t, url), payments)
			began, cancelled := make(chan task.ID, 1), make(chan struct{})
			n := alone(t, url, types("pay"), map[string]work{"pay": func(ctx context.Context, n *node, t *task.Task) ([]byte, error) {
				tx, err := n.store.Pool().BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
				if err != nil {
					return nil, err
				}
				defer func() { _ = tx.Rollback(context.Background()) }()
				x := n.store.Attach(tx)
				if _, err := x.Get(ctx, task.ID{1}); !errors.Is(err, task.ErrNotFound) {
					return nil, fmt.Errorf("get: %w", err)
				}
				if t.Payload != nil {
					began <- t.ID
					<-cancelled
				}
				if err := pay(context.WithoutCancel(ctx), tx, x, t); err != nil {
					return nil, task.Permanent(err)
				}
				if err := tx.Commit(ctx); err != nil {
					return nil, err
				}
				x.Committed()
				return nil, nil
			}})
			n.end(n.submit(engine.Request{Type: "pay"}), task.Done)
			late := n.submit(engine.Request{Type: "pay", Payload: []byte("late")})
			if _, err := n.Cancel(t.Context(), task.Ref{ID: <-began}, ""); err != nil {
				t.Fatal(err)
			}
			close(cancelled)
			n.end(late, task.Cancelled)
			if err := n.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := one[int](t, n.store.Pool(), "select count(*) from payments"); got != 1 {
				t.Errorf("%d payments were made", got)
			}
		})
	}
}

var errDeclined = errors.New("declined")
