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
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// blocked is a node and a transaction in its database that keeps locks, while clients make requests that need them.
type blocked struct {
	*node
	holder *pgx.Conn
}

// hold begins a transaction that does something, and returns a node, which has prepared its statements.
func hold(t *testing.T, prepare func(n *node), statements func(n *node) []string) *blocked {
	t.Helper()
	url := server.Database(t)
	p := types("work")
	few := policy.DefaultType()
	few.Limits = []string{"one"}
	p.Types["few"], p.Limits["one"] = few, policy.Limit{Name: "one", Max: 1}
	capped := policy.DefaultType()
	capped.MaxBacklog = policy.Backlog{Max: 1000, WhenFull: policy.Reject}
	p.Types["capped"] = capped
	for typ, u := range map[string]policy.Unique{
		"latest": {OnConflict: policy.ReplaceExisting}, "calm": {OnConflict: policy.DebounceExisting}, "rare": {OnConflict: policy.ThrottleNew, Window: time.Nanosecond},
	} {
		unique := policy.DefaultType()
		unique.Unique = u
		p.Types[typ] = unique
	}
	n := alone(t, url, p, map[string]work{"work": nothing, "few": nothing, "capped": nothing, "latest": nothing, "calm": nothing, "rare": nothing})
	n.end(n.submit(engine.Request{Type: "work", Key: "before"}), task.Done)
	if prepare != nil {
		prepare(n)
	}
	c := pgtest.Connect(t, url+"&application_name=shop")
	pgtest.Exec(t, c, append([]string{"begin"}, statements(n)...)...)
	return &blocked{n, c}
}

// ask lets clients repeat requests that need the locks until the test ends, and fails if they get another answer than that
// a lock is in the way.
func (b *blocked) ask(clients int, do func(client int) error) (stop func()) {
	ctx, cancel := context.WithCancel(b.t.Context())
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := do(client); err != nil && !errors.Is(err, storage.ErrBusy) {
					b.t.Errorf("client %d: %v", client, err)
					return
				}
			}
		})
	}
	return func() { cancel(); all.Wait() }
}

// Tasks that need no lock go on while clients ask again and again for locked rows. Before, each such request kept a
// writer waiting for two seconds, and so all other tasks of the node.
func TestWhatWaitsForALockKeepsNothingElseWaiting(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, c := range []struct {
		what       string
		prepare    func(n *node)
		statements func(n *node) []string
		clients    int
		do         func(n *node, client int) error
	}{
		{"a unique key that an application adds", nil, func(*node) []string {
			return []string{"select taskengine.add('work', key => 'x')"}
		}, 6, func(n *node, _ int) error {
			_, err := n.Submit(ctx, engine.Request{Type: "work", Key: "x"})
			return err
		}},
		{"a key of a type with a backlog", nil, func(*node) []string {
			return []string{"select taskengine.add('capped', key => 'x')"}
		}, 12, func(n *node, _ int) error {
			_, err := n.Submit(ctx, engine.Request{Type: "capped", Key: "x"})
			return err
		}},
		{"tasks that are replaced, debounced and throttled", func(n *node) {
			for i, typ := range []string{"latest", "calm", "rare"} {
				n.submit(engine.Request{Type: typ, ID: task.ID{8, byte(i)}, Key: "x", At: time.Now().Add(time.Hour)})
			}
		}, func(*node) []string {
			return []string{"select from taskengine.task where key = 'x' for update"}
		}, 9, func(n *node, client int) error {
			_, err := n.Submit(ctx, engine.Request{Type: []string{"latest", "calm", "rare"}[client%3], Key: "x"})
			return err
		}},
		{"31 unique keys", nil, func(*node) []string {
			return []string{"select taskengine.add('work', key => 'x' || n) from generate_series(0, 30) n"}
		}, 31, func(n *node, client int) error {
			_, err := n.Submit(ctx, engine.Request{Type: "work", Key: fmt.Sprint("x", client)}, engine.Request{Type: "work"})
			return err
		}},
		{"a key of a type with one slot", nil, func(*node) []string {
			return []string{"select taskengine.add('few', key => 'x')"}
		}, 6, func(n *node, _ int) error {
			_, err := n.Submit(ctx, engine.Request{Type: "few", Key: "x"})
			return err
		}},
		{"a row that verbs change", func(n *node) {
			n.submit(engine.Request{Type: "work", ID: task.ID{7}, At: time.Now().Add(time.Hour)})
		}, func(*node) []string {
			return []string{"select from taskengine.task where id = '07000000-0000-0000-0000-000000000000' for update"}
		}, 4, func(n *node, _ int) error {
			_, err := n.Cancel(ctx, task.Ref{ID: task.ID{7}, Version: 1}, "not needed")
			return err
		}},
		{"hundreds of rows that a person has locked and that become due", func(n *node) {
			reqs := make([]engine.Request, 300)
			for i := range reqs {
				reqs[i] = engine.Request{Type: "work", At: time.Now().Add(time.Second)}
			}
			if _, err := n.Submit(n.t.Context(), reqs...); err != nil {
				n.t.Fatal(err)
			}
		}, func(*node) []string {
			return []string{"select from taskengine.task for update"}
		}, 1, func(n *node, _ int) error {
			_, err := n.Submit(ctx, engine.Request{Type: "work"})
			return err
		}},
		{"an ordering key that gets its head", func(n *node) {
			n.submit(engine.Request{Type: "work", OrderingKey: "o", At: time.Now().Add(time.Hour)})
		}, func(n *node) []string {
			return []string{"select from taskengine.task where ordering_key = 'o' for update"}
		}, 4, func(n *node, _ int) error {
			_, err := n.Submit(ctx, engine.Request{Type: "work", OrderingKey: "o"})
			return err
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			b := hold(t, c.prepare, c.statements)
			defer b.ask(c.clients, func(client int) error { return c.do(b.node, client) })()
			begin := time.Now()
			enough, cancel := context.WithTimeout(ctx, 5*time.Minute) // if each waited behind a request: much longer
			defer cancel()
			rounds := 0
			for ; rounds < 70 || time.Since(begin) < 3*time.Second; rounds++ { // in that time rows become due that are locked
				for _, r := range []engine.Request{{Type: "work"}, {Type: "few"}, {Type: "capped", Key: fmt.Sprint(rounds)}} {
					receipts, err := b.Submit(enough, r)
					if err == nil {
						err = b.WaitTasks(enough, receipts[0].ID)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			t.Logf("%d rounds took %v", rounds, time.Since(begin))
		})
	}
}

// A lock of a whole table is an outage: requests are answered soon, running tasks are kept, and all of it goes on afterwards.
func TestALockOfAWholeTableIsAnOutage(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"task", "key", "ended", "part"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			url := server.Database(t)
			n := alone(t, url, types("work", "slow"), map[string]work{"work": nothing, "slow": func(context.Context, *node, *task.Task) ([]byte, error) {
				<-release
				return nil, nil
			}})
			n.end(n.submit(engine.Request{Type: "work", Key: "before"}), task.Done)
			slow := n.submit(engine.Request{Type: "slow"})
			for n.runs(slow) == 0 {
				time.Sleep(time.Millisecond)
			}
			c, name := pgtest.Connect(t, url), "taskengine."+table
			if table == "part" {
				name = one[string](t, c, "select tableoid::regclass::text from taskengine.ended limit 1")
			}
			pgtest.Exec(t, c, "begin", "lock table "+name+" in access exclusive mode")
			close(release)
			if _, err := n.Submit(t.Context(), engine.Request{Type: "work", Key: "x"}); !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), "a table is locked; it may be held by session") {
				t.Errorf("a submit is answered by %v", err)
			}
			pgtest.Exec(t, c, "rollback")
			n.end(slow, task.Done)
			for {
				if receipts, err := n.Submit(t.Context(), engine.Request{Type: "work", Key: "x"}); err == nil {
					n.end(receipts[0].ID, task.Done)
					return
				} else if !errors.Is(err, storage.ErrUnavailable) {
					t.Fatal(err)
				}
			}
		})
	}
}

// The session that keeps a task from starting is named by why, and by the node.
func TestWhyNamesTheSessionThatKeepsATaskWaiting(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	url := server.Database(t)
	p := types("slow")
	one := policy.DefaultType()
	one.Limits = []string{"one"}
	p.Types["slow"], p.Limits["one"] = one, policy.Limit{Name: "one", Max: 1}
	n := alone(t, url, p, map[string]work{"slow": func(context.Context, *node, *task.Task) ([]byte, error) {
		<-release
		return nil, nil
	}})
	first, second := n.submit(engine.Request{Type: "slow"}), n.submit(engine.Request{Type: "slow"})
	c := pgtest.Connect(t, url+"&application_name=shop")
	pgtest.Exec(t, c, "begin", fmt.Sprintf("select from taskengine.task where id = '%v' for update", second))
	close(release)
	n.end(first, task.Done)
	for begin, named := time.Now(), fmt.Sprintf("session %d (shop", c.PgConn().PID()); ; time.Sleep(10 * time.Millisecond) {
		_, why, err := n.Why(t.Context(), second)
		if err != nil {
			t.Fatal(err)
		}
		blockers, err := n.Blockers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(fmt.Sprint(why), named) && len(blockers) == 1 && blockers[0].Application == "shop" && blockers[0].State == "idle in transaction" {
			break
		}
		if time.Since(begin) > 3*time.Minute {
			t.Fatalf("why says %+v, and sessions that hold locks are %v", why, blockers)
		}
	}
	pgtest.Exec(t, c, "rollback")
	n.end(second, task.Done)
}

// A full backlog drops its oldest tasks. One that another session keeps locked is left alone, and the next is dropped.
func TestATaskThatIsLockedIsNotDroppedFromAFullBacklog(t *testing.T) {
	t.Parallel()
	url := server.Database(t)
	p := types("mail")
	full := policy.DefaultType()
	full.MaxBacklog = policy.Backlog{Max: 2, WhenFull: policy.DropOldest}
	p.Types["mail"] = full
	n := alone(t, url, p, nil)
	later := func(hours int) engine.Request {
		return engine.Request{Type: "mail", At: time.Now().Add(time.Duration(hours) * time.Hour)}
	}
	first, second := n.submit(later(1)), n.submit(later(2))
	c := pgtest.Connect(t, url)
	pgtest.Exec(t, c, "begin", fmt.Sprintf("select from taskengine.task where id = '%v' for update", first))
	third := n.submit(later(3))
	pgtest.Exec(t, c, "rollback")
	for id, want := range map[task.ID]task.State{first: task.Waiting, second: task.Cancelled, third: task.Waiting} {
		if got, err := n.Get(t.Context(), id); err != nil || got.State != want {
			t.Errorf("%v is %v, %v; want %v", id, got, err, want)
		}
	}
}

// The session that keeps a node from renewing its lease is named, too. All goes on when it ends.
func TestWhyNamesTheSessionThatKeepsALeaseFromBeingRenewed(t *testing.T) {
	t.Parallel()
	url := server.Database(t)
	n := joinWith(t, url, types("work"), map[string]work{"work": nothing}, 2*time.Second)
	n.end(n.submit(engine.Request{Type: "work"}), task.Done)
	c := pgtest.Connect(t, url+"&application_name=shop")
	pgtest.Exec(t, c, "begin", "lock table taskengine.session in access exclusive mode")
	named := fmt.Sprintf("session %d (shop", c.PgConn().PID())
	for begin := time.Now(); n.IsMember(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > 3*time.Minute {
			t.Fatal("the node keeps its lease")
		}
	}
	id := n.submit(engine.Request{Type: "work"})
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		_, why, err := n.Why(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		blockers, err := n.Blockers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(fmt.Sprint(why), named) && len(blockers) == 1 && blockers[0].Application == "shop" {
			break
		}
		if time.Since(begin) > 3*time.Minute {
			t.Fatalf("why says %+v, and sessions that hold locks are %v", why, blockers)
		}
	}
	pgtest.Exec(t, c, "rollback")
	n.end(id, task.Done)
}

// The progress of a task with a locked row does not delay the progress of others.
func TestProgressIsWrittenBesideALockedRow(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	url := server.Database(t)
	began := make(chan task.ID, 2)
	n := alone(t, url, types("work"), map[string]work{"work": func(ctx context.Context, _ *node, tk *task.Task) ([]byte, error) {
		began <- tk.ID
		for {
			select {
			case <-release:
				return nil, nil
			case <-time.After(10 * time.Millisecond):
				task.ReporterOf(ctx).Progress(task.Progress{Done: 1, Message: "goes on"})
			}
		}
	}})
	c := pgtest.Connect(t, url)
	n.submit(engine.Request{Type: "work"})
	pgtest.Exec(t, c, "begin", fmt.Sprintf("select from taskengine.task where id = '%v' for update", <-began))
	n.submit(engine.Request{Type: "work"})
	free := <-began
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		got, err := n.Get(t.Context(), free)
		if err != nil {
			t.Fatal(err)
		}
		if got.Progress().Message == "goes on" {
			break
		}
		if time.Since(begin) > 3*time.Minute {
			t.Fatalf("its progress is %+v", got.Progress())
		}
	}
	pgtest.Exec(t, c, "rollback")
	close(release)
}
