package placement_test

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/placement"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

// parts returns databases with these names, among which no shards are divided yet.
func parts(t *testing.T, names ...string) []placement.Database {
	t.Helper()
	out := make([]placement.Database, len(names))
	for i, name := range names {
		out[i] = placement.Database{Name: name, Store: postgrestest.Open(t, postgrestest.Tables(t, server))}
	}
	return out
}

// divide divides databases and returns the shards of each, as text.
func divide(t *testing.T, ps ...placement.Database) []string {
	t.Helper()
	homes, err := placement.Divide(t.Context(), ps...)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]string, len(ps))
	for i, h := range homes {
		if said, err := ps[i].Holdings(t.Context()); err != nil || said.Owned != h.Owned {
			t.Fatalf("%s holds %s, %v; Divide said %s", ps[i].Name, &said.Owned, err, &h.Owned)
		}
		out[i] = h.Owned.String()
	}
	return out
}

func TestShardsAreDividedOnce(t *testing.T) {
	ps := parts(t, "a", "b", "c", "d")
	for range 2 {
		if got := divide(t, ps[:3]...); !slices.Equal(got, []string{"0-84", "85-169", "170-255"}) {
			t.Errorf("three hold %q", got)
		}
	}
	if got := divide(t, ps...); !slices.Equal(got, []string{"0-84", "85-169", "170-255", ""}) {
		t.Errorf("with a fourth they hold %q", got)
	}
	if _, err := placement.Divide(t.Context(), ps[0], ps[2], parts(t, "new")[0]); err == nil || !strings.Contains(err.Error(), "no database holds the shards 85-169") {
		t.Errorf("without one of them: %v", err)
	}
}

func TestTheDatabaseThatHasTheTasksHoldsAllShards(t *testing.T) {
	ps := parts(t, "new", "old", "other")
	rows := []*task.Task{rowOf(0), rowOf(200)}
	if _, err := ps[1].Insert(t.Context(), rows...); err != nil {
		t.Fatal(err)
	}
	if got := divide(t, ps[:2]...); !slices.Equal(got, []string{"", "0-255"}) {
		t.Errorf("they hold %q", got)
	}
	if _, err := ps[2].Insert(t.Context(), rowOf(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := placement.Divide(t.Context(), ps...); err == nil || !strings.Contains(err.Error(), "other has tasks") {
		t.Errorf("with another that has some: %v", err)
	}
}

func TestADivisionThatWasInterruptedGoesOn(t *testing.T) {
	ps := parts(t, "a", "b")
	divide(t, ps...)
	if _, err := ps[1].Pool().Exec(t.Context(), "delete from taskengine.home; alter table taskengine.task drop constraint task_home"); err != nil {
		t.Fatal(err)
	}
	if got := divide(t, ps...); !slices.Equal(got, []string{"0-127", "128-255"}) {
		t.Errorf("they hold %q", got)
	}
}

func TestADivisionThatWasInterruptedGoesOnThoughThereAreTasks(t *testing.T) {
	ps := parts(t, "a", "b")
	divide(t, ps...)
	if _, err := ps[1].Pool().Exec(t.Context(), "delete from taskengine.home; alter table taskengine.task drop constraint task_home"); err != nil {
		t.Fatal(err)
	}
	if _, err := ps[0].Insert(t.Context(), rowOf(1)); err != nil { // which does not keep b from getting its part
		t.Fatal(err)
	}
	if got := divide(t, ps...); !slices.Equal(got, []string{"0-127", "128-255"}) {
		t.Errorf("they hold %q", got)
	}
}

// The division waits in the first database while another one gives the second all shards.
func TestADivisionReturnsWhatAnotherHasWritten(t *testing.T) {
	ps := parts(t, "a", "b")
	c := connectionTo(t, ps[0])
	pgtest.Exec(t, c, "begin", "lock table taskengine.home in exclusive mode")
	type answer struct {
		homes []storage.Holdings
		err   error
	}
	divided := make(chan answer)
	go func() {
		homes, err := placement.Divide(t.Context(), ps...)
		divided <- answer{homes, err}
	}()
	waitUntilBlocked(t, c)
	divide(t, ps[1])
	pgtest.Exec(t, c, "rollback")
	got := <-divided
	if got.err != nil {
		t.Fatal(got.err)
	}
	for i, p := range ps {
		if said, err := p.Holdings(t.Context()); err != nil || said.Owned != got.homes[i].Owned {
			t.Errorf("%s holds %s, %v; Divide said %s", p.Name, &said.Owned, err, &got.homes[i].Owned)
		}
	}
}

// connectionTo returns a connection to the database of a part, beside its pool.
func connectionTo(t *testing.T, p placement.Database) *pgx.Conn {
	t.Helper()
	return pgtest.Connect(t, p.Pool().Config().ConnString())
}

// waitUntilBlocked waits until another connection waits for a lock that c has.
func waitUntilBlocked(t *testing.T, c *pgx.Conn) {
	t.Helper()
	for one[int](t, c, "select count(*) from pg_locks where not granted and $1 = any(pg_blocking_pids(pid))", c.PgConn().PID()) == 0 {
	}
}

func TestADivisionSeesTasksOfTransactionsThatWereUnderWay(t *testing.T) {
	ps := parts(t, "a", "b")
	var rows []task.ID
	divided := make(chan error)
	if err := ps[0].Within(t.Context(), ps[0].Pool(), func(tx pgx.Tx, x *postgres.Tx) error {
		row := rowOf(200)
		if _, err := x.Insert(t.Context(), row); err != nil {
			return err
		}
		rows = append(rows, row.ID, mustAdd(t, tx, "'mail'").id)
		go func() {
			_, err := placement.Divide(t.Context(), ps...)
			divided <- err
		}()
		waitUntilBlocked(t, tx.Conn())
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := <-divided; err == nil || !strings.Contains(err.Error(), "were added during the division") {
		t.Errorf("the division: %v", err)
	}
	if got := divide(t, ps...); !slices.Equal(got, []string{"0-255", ""}) {
		t.Errorf("after another they hold %q", got)
	}
	for _, id := range rows {
		if _, err := ps[0].Get(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
}

// adders add tasks to databases, by Go and by SQL, of all shards that they take.
type adders struct {
	stop  chan struct{}
	done  sync.WaitGroup
	mu    sync.Mutex
	added map[string][]task.ID // guarded by mu: by the name of the database
}

// addTo adds tasks to these databases until end is called.
func addTo(t *testing.T, ps ...placement.Database) *adders {
	a := &adders{stop: make(chan struct{}), added: make(map[string][]task.ID)}
	for _, p := range ps {
		for _, add := range []func(shard uint16) (task.ID, error){
			func(shard uint16) (task.ID, error) {
				row := rowOf(shard)
				_, err := p.Insert(t.Context(), row)
				return row.ID, err
			},
			func(uint16) (task.ID, error) {
				got, err := add(t.Context(), p.Pool(), "'mail'")
				return got.id, err
			},
		} {
			a.done.Go(func() {
				for shard := uint16(0); ; shard = (shard + 37) % task.ShardCount {
					select {
					case <-a.stop:
						return
					default:
					}
					a.note(t, p.Name, add, shard)
				}
			})
		}
	}
	return a
}

// note adds a task, which may be refused because of its shard.
func (a *adders) note(t *testing.T, name string, add func(uint16) (task.ID, error), shard uint16) {
	id, err := add(shard)
	switch {
	case err == nil:
		a.mu.Lock()
		defer a.mu.Unlock()
		a.added[name] = append(a.added[name], id)
	case !errors.Is(err, storage.ErrElsewhere):
		t.Errorf("adding to %s: %v", name, err)
	}
}

// end stops the adders and returns the added tasks.
func (a *adders) end() map[string][]task.ID {
	close(a.stop)
	a.done.Wait()
	return a.added
}

// addedMore waits until some more tasks have been added to a database.
func (a *adders) addedMore(name string) {
	count := func() int {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.added[name])
	}
	for enough := count() + 20; count() < enough; {
		runtime.Gosched()
	}
}

func TestADivisionLosesNothingThatIsAddedMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		wait   int // the division waits in this database while tasks are added
		addTo  []int
		homes  []string // their shards then
		failed string   // the error
	}{
		"to the first, which is as it was": {0, []int{0}, []string{"0-255", "0-255"}, "write the shards of a to it: tasks of shards"},
		"to the last, which is as it was":  {1, []int{0, 1}, []string{"0-127", "0-255"}, "write the shards of b to it: tasks of shards"},
		"to the first, which has its part": {1, []int{0}, []string{"0-127", "128-255"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ps := parts(t, "a", "b")
			lock := connectionTo(t, ps[c.wait])
			pgtest.Exec(t, lock, "begin", "lock table taskengine.home in exclusive mode")
			divided := make(chan error)
			go func() {
				_, err := placement.Divide(t.Context(), ps...)
				divided <- err
			}()
			waitUntilBlocked(t, lock)
			var to []placement.Database
			for _, i := range c.addTo {
				to = append(to, ps[i])
			}
			a := addTo(t, to...)
			for _, p := range to {
				a.addedMore(p.Name)
			}
			pgtest.Exec(t, lock, "rollback")
			if err := <-divided; (err == nil) != (c.failed == "") || err != nil && !strings.Contains(err.Error(), c.failed) {
				t.Errorf("the division: %v", err)
			}
			for _, p := range to {
				a.addedMore(p.Name)
			}
			areWhereTheyBelong(t, a.end(), ps...)
			for i, want := range c.homes {
				if home, err := ps[i].Holdings(t.Context()); err != nil || home.Owned.String() != want {
					t.Errorf("%s holds %s, %v; want %s", ps[i].Name, &home.Owned, err, want)
				}
			}
		})
	}
}

func TestADivisionAtAnyMomentLosesNothing(t *testing.T) {
	for range 5 {
		ps := parts(t, "a", "b")
		a := addTo(t, ps[0])
		if _, err := placement.Divide(t.Context(), ps...); err != nil && !strings.Contains(err.Error(), "were added during the division") {
			t.Error(err)
		}
		a.addedMore("a")
		areWhereTheyBelong(t, a.end(), ps...)
	}
}

// areWhereTheyBelong fails the test unless all added tasks are in the database that holds their shard.
func areWhereTheyBelong(t *testing.T, added map[string][]task.ID, ps ...placement.Database) {
	t.Helper()
	for _, p := range ps {
		home, err := p.Holdings(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		rows := content(t, p.Store)
		if len(rows) != len(added[p.Name]) {
			t.Errorf("%s has %d tasks, and %d were added", p.Name, len(rows), len(added[p.Name]))
		}
		for _, id := range added[p.Name] {
			if rows[id] == nil || !home.Owned.Has(id.Shard()) {
				t.Fatalf("%s holds %s, and task %v of shard %d is there: %t", p.Name, &home.Owned, id, id.Shard(), rows[id] != nil)
			}
		}
	}
}
