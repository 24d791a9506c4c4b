package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

// countRows reads all rows.
func countRows(ctx context.Context, pool *pgxpool.Pool) (map[storage.StateType]int64, error) {
	n := make(map[storage.StateType]int64)
	rows, _ := pool.Query(ctx, `
select state, type, count(*) from (select state, type from taskengine.task union all select state, type from taskengine.ended) t
group by state, type`)
	var state int16
	var typ []byte
	var count int64
	_, err := pgx.ForEachRow(rows, []any{&state, &typ, &count}, func() error {
		n[storage.StateType{State: task.State(state), Type: string(typ)}] = count
		return nil
	})
	return n, err
}

// countsAre fails the test unless the counts equal the rows.
func countsAre(t *testing.T, s *postgres.Store, when string) {
	t.Helper()
	if err := (underTest{Store: s}).Check(t.Context()); err != nil {
		t.Errorf("%s: %v", when, err)
	}
}

// execIn runs a statement in the database of a store.
func execIn(t *testing.T, s *postgres.Store, sql string, args ...any) {
	t.Helper()
	if _, err := s.Pool().Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func TestCountsAreRightWhateverChangesTheTables(t *testing.T) {
	url := server.Database(t)
	s := postgrestest.Open(t, url)
	ids := task.NewIDs([32]byte{1})
	for i := range 5 {
		finish(t, s, ids, moment.Add(time.Duration(i)*time.Hour), time.Hour, "")
	}
	for range 4 {
		mustAdd(t, s.Pool(), "'ship'")
	}
	countsAre(t, s, "after add")
	for _, sql := range []string{
		"update taskengine.task set state = 5, type = 'other' where id in (select id from taskengine.task limit 2)",
		"update taskengine.task set priority = 3",
		"update taskengine.ended set state = 6 where ended_at = (select min(ended_at) from taskengine.ended)",
		"update taskengine.ended set ended_at = ended_at + 3600000000 where ended_at < (select max(ended_at) from taskengine.ended)", // to other tables
		"delete from taskengine.ended where ended_at = (select min(ended_at) from taskengine.ended)",
		"delete from taskengine.task where state = 5",
		"delete from taskengine.task where id is null",
		"truncate taskengine.ended",
		"truncate taskengine.task",
	} {
		execIn(t, s, sql)
		countsAre(t, s, sql)
	}
	tx, err := s.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mustAdd(t, tx, "'ship'")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	countsAre(t, s, "after a rollback")
}

// notes returns how many rows the table of notes has.
func notes(t *testing.T, s *postgres.Store) int {
	t.Helper()
	return one[int](t, s.Pool(), "select count(*) from taskengine.tally")
}

// noteMany causes more notes than Fold leaves alone.
func noteMany(t *testing.T, s *postgres.Store) {
	t.Helper()
	execIn(t, s, "do $$ begin for i in 1 .. 120 loop perform taskengine.add('ship', wake => false); end loop; end $$")
}

func fold(t *testing.T, s *postgres.Store) int64 {
	t.Helper()
	n, err := s.Fold(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestNotesAreFoldedWhenThereAreMany(t *testing.T) {
	s := postgrestest.Open(t, postgrestest.Tables(t, server))
	mustAdd(t, s.Pool(), "'ship'")
	if n := fold(t, s); n != 0 || notes(t, s) != 1 {
		t.Errorf("%d of one note were folded", n)
	}
	noteMany(t, s)
	if n := fold(t, s); n != 121 || notes(t, s) != 1 {
		t.Errorf("%d notes were folded, and there are %d", n, notes(t, s))
	}
	countsAre(t, s, "after a fold")
	execIn(t, s, "delete from taskengine.task")
	noteMany(t, s)
	execIn(t, s, "delete from taskengine.task")
	if fold(t, s); notes(t, s) != 0 {
		t.Errorf("of nothing there are %d notes", notes(t, s))
	}
}

// A fold is killed when it has deleted notes and waits for a note that another transaction holds.
func TestAFoldThatIsKilledHasDoneNothing(t *testing.T) {
	url := server.Database(t)
	s, c := postgrestest.Open(t, url), pgtest.Connect(t, url)
	noteMany(t, s)
	pgtest.Exec(t, c, "begin", "select from taskengine.tally where ctid = (select max(ctid) from taskengine.tally) for update")
	folded := make(chan error)
	go func() {
		_, err := s.Fold(t.Context())
		folded <- err
	}()
	killed := 0
	for killed == 0 {
		killed = one[int](t, c, `select count(pg_terminate_backend(pid)) from pg_stat_activity where $1 = any(pg_blocking_pids(pid))`, c.PgConn().PID())
	}
	if err := <-folded; err == nil {
		t.Error("it was not killed")
	}
	pgtest.Exec(t, c, "rollback")
	if notes(t, s) != 120 {
		t.Errorf("there are %d notes", notes(t, s))
	}
	countsAre(t, s, "after a fold was killed")
	if n := fold(t, s); n != 120 {
		t.Errorf("afterwards %d are folded", n)
	}
	countsAre(t, s, "after another fold")
}

func TestOneFoldsAtATime(t *testing.T) {
	url := server.Database(t)
	s, c := postgrestest.Open(t, url), pgtest.Connect(t, url)
	noteMany(t, s)
	pgtest.Exec(t, c, "begin", "select from taskengine.tally limit 1 for update")
	folded := make(chan int64)
	go func() {
		n, err := s.Fold(t.Context())
		if err != nil {
			t.Error(err)
		}
		folded <- n
	}()
	for one[int](t, c, `select count(*) from pg_stat_activity where $1 = any(pg_blocking_pids(pid))`, c.PgConn().PID()) == 0 {
	}
	if n := fold(t, s); n != 0 {
		t.Errorf("a second one folds %d notes", n)
	}
	mustAdd(t, s.Pool(), "'ship'") // a fold does not stop writers
	pgtest.Exec(t, c, "rollback")
	if n := <-folded; n != 120 {
		t.Errorf("%d notes were folded", n)
	}
	countsAre(t, s, "in the end")
}

func TestCountsOfATableThatIsDroppedAreGoneWithIt(t *testing.T) {
	s := postgrestest.Open(t, postgrestest.Tables(t, server))
	ids := task.NewIDs([32]byte{1})
	for i := range 3 {
		finish(t, s, ids, moment, time.Hour, "")
		finish(t, s, ids, moment.Add(time.Duration(i)*24*time.Hour), time.Hour, "")
		finish(t, s, ids, moment, 0, "")
	}
	expire(t, s, moment.Add(2*time.Hour))
	countsAre(t, s, "after rows have expired")
	finish(t, s, ids, moment, time.Hour, "") // in a table of the same name
	countsAre(t, s, "in a new table")
	noteMany(t, s)
	fold(t, s)
	expire(t, s, moment.Add(25*time.Hour+time.Hour))
	countsAre(t, s, "after rows that were folded have expired")
	noteMany(t, s)
	fold(t, s)
	countsAre(t, s, "after a fold")
	if n := one[int](t, s.Pool(), "select count(distinct since) from taskengine.tally"); n != 2 {
		t.Errorf("there are notes of %d tables", n)
	}
}

func TestCountsOfATableThatIsDetachedComeBackWithIt(t *testing.T) {
	s := postgrestest.Open(t, postgrestest.Tables(t, server))
	finish(t, s, task.NewIDs([32]byte{1}), moment, time.Hour, "")
	var table, bounds string
	if err := s.Pool().QueryRow(t.Context(), `
select c.oid::regclass::text, pg_get_expr(relpartbound, c.oid) from pg_class c
where oid = (select tableoid from taskengine.ended)`).Scan(&table, &bounds); err != nil {
		t.Fatal(err)
	}
	execIn(t, s, "alter table taskengine.ended_3600 detach partition "+table)
	countsAre(t, s, "while it is detached")
	noteMany(t, s)
	if n := fold(t, s); n < 120 {
		t.Errorf("%d notes were folded", n)
	}
	if wrong := one[int64](t, s.Pool(), recount); wrong != 0 {
		t.Errorf("%d sums were wrong", wrong)
	}
	execIn(t, s, "alter table taskengine.ended_3600 attach partition "+table+" "+bounds)
	countsAre(t, s, "after it was attached")
}

// recount makes counts right, and returns how many sums were wrong.
const recount = "select taskengine.recount()"

func TestARecountMakesCountsRight(t *testing.T) {
	s := postgrestest.Open(t, postgrestest.Tables(t, server))
	ids := task.NewIDs([32]byte{1})
	for range 3 {
		finish(t, s, ids, moment, time.Hour, "")
		mustAdd(t, s.Pool(), "'ship'")
	}
	execIn(t, s, "update taskengine.tally set n = n + 7")
	execIn(t, s, "insert into taskengine.tally (type, state, n, folded) values ('unheard of', 2, -3, true)")
	if err := (underTest{Store: s}).Check(t.Context()); err == nil {
		t.Fatal("the counts are not wrong: this test shows nothing")
	}
	for _, want := range []int64{4, 0} {
		if wrong := one[int64](t, s.Pool(), recount); wrong != want {
			t.Errorf("%d sums were wrong, want %d", wrong, want)
		}
		countsAre(t, s, "after a recount")
	}
}

func TestARecountIsRightWhileTasksLive(t *testing.T) {
	s := postgrestest.Open(t, postgrestest.Tables(t, server))
	ids := task.NewIDs([32]byte{1})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 100 {
			finish(t, s, ids, moment.Add(time.Duration(i)*time.Minute), time.Hour, "")
			mustAdd(t, s.Pool(), "'ship'")
		}
	}()
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		if wrong := one[int64](t, s.Pool(), recount); wrong != 0 {
			t.Errorf("%d sums were wrong", wrong)
		}
	}
	countsAre(t, s, "in the end")
}

func TestNotesAreFoldedByWayOfPgBouncer(t *testing.T) {
	url := server.Database(t)
	postgrestest.Open(t, url)
	s, err := postgres.Open(t.Context(), pgtest.Through(server.Bouncer(t, "default_pool_size=1"), url)+"&default_query_exec_mode=cache_describe", postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	noteMany(t, s)
	if n := fold(t, s); n != 120 {
		t.Errorf("%d notes were folded", n)
	}
	if wrong := one[int64](t, s.Pool(), recount); wrong != 0 {
		t.Errorf("%d sums were wrong", wrong)
	}
	countsAre(t, s, "after a fold")
}

func TestPeopleSeeTheCounts(t *testing.T) {
	s := postgrestest.Open(t, postgrestest.Tables(t, server))
	mustAdd(t, s.Pool(), "'ship'")
	mustAdd(t, s.Pool(), "'ship', at => now() + interval '1 hour'")
	finish(t, s, task.NewIDs([32]byte{1}), moment, time.Hour, "")
	got := one[string](t, s.Pool(), "select string_agg(concat_ws(' ', type, state, tasks), ', ' order by type, state) from taskengine.counts")
	if want := "mail done 1, ship submitted 1, ship waiting 1"; got != want {
		t.Errorf("they see %q, want %q", got, want)
	}
}

// added is the answer of the SQL function add.
type added struct {
	id      task.ID
	created bool
}

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// add adds a task from SQL, with arguments written in SQL.
func add(ctx context.Context, q querier, args string) (a added, err error) {
	var id string
	err = q.QueryRow(ctx, "select id::text, created from taskengine.add("+args+")", pgx.QueryExecModeSimpleProtocol).Scan(&id, &a.created)
	if err == nil {
		a.id, err = task.ParseID(id)
	}
	return a, err
}

func mustAdd(t *testing.T, q querier, args string) added {
	t.Helper()
	a, err := add(t.Context(), q, args)
	if err != nil {
		t.Fatalf("add(%s): %v", args, err)
	}
	return a
}
