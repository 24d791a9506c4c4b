//go:build !race

package postgres

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/internal/ended"
	"github.com/taskengine/taskengine/storage/postgres/schema"
	"github.com/taskengine/taskengine/task"
)

// emptyTables returns the URL of a database with tables, on a server of its own.
func emptyTables(t testing.TB, settings ...string) string {
	t.Helper()
	server, err := pgtest.Start(settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	url := server.Database(t)
	if _, err := schema.Migrate(t.Context(), url, schema.Default); err != nil {
		t.Fatal(err)
	}
	return url
}

// crowded returns a connection to a database with a million rows of each kind. A quarter of the rows that have not
// ended have one of 10,000 ordering keys, each of which has a head. 100,000 more are in error.
func crowded(t testing.TB) *pgx.Conn {
	t.Helper()
	url := emptyTables(t, "max_wal_size=4GB")
	s, err := Open(t.Context(), url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var ends []ending
	for _, keep := range []int32{0, 86400, 7 * 86400} {
		class := ended.Class{Keep: keep}
		for n := range int64(4) {
			ends = append(ends, ending{class: class, at: n * class.Partition(0).To()})
		}
	}
	if _, err := s.partitions.need(t.Context(), ends, time.Time{}); err != nil {
		t.Fatal(err)
	}
	c := pgtest.Connect(t, url)
	for _, sql := range []string{
		`
insert into taskengine.task (id, version, seq, created_at, ready_at, next_event_at, expires_at, started_at, updated_at, shard, turn, attempt, crashes,
	state, priority, queued, type, grp, key, due_state, due_at, owner, ordering_key)
select md5(i::text)::uuid, 1, i, 0, i, 0, 0, {none}, 0, i % 256, case when i % 4 <> 2 then 0 when i <= 40000 then 2 else 1 end, 0, 0,
	case i % 4 when 0 then 1 when 1 then 3 else 2 end, i % 10, i % 4 = 3 or i % 4 = 2 and i <= 40000,
	convert_to('type ' || i % 10, 'UTF8'), '', convert_to('key ' || i, 'UTF8'),
	case i % 4 when 0 then 1 end, case i % 4 when 0 then i end, case i % 4 when 1 then md5((i % 8)::text)::uuid end,
	case i % 4 when 2 then convert_to('key ' || i % 40000, 'UTF8') end
from generate_series(1, 1000000) i`, `
insert into taskengine.ended (id, version, seq, created_at, ready_at, next_event_at, expires_at, started_at, updated_at, shard, turn, attempt, crashes,
	state, priority, queued, type, grp, keep, ended_at)
select md5('ended ' || i)::uuid, 1, i, 0, i, 0, 0, 0, 0, 0, 0, 0, 0, 4, 5, false, 'type', '', keep, (i % 4) * span
from generate_series(1, 80000) i, (values (0, 120 * 86400 / 4 * 1000000::bigint), (86400, 86400 / 4 * 1000000::bigint), (7 * 86400, 7 * 86400 / 4 * 1000000::bigint)) k (keep, span)`,
		`
insert into taskengine.task (id, version, seq, created_at, ready_at, next_event_at, expires_at, started_at, updated_at, shard, turn, attempt, crashes,
	state, priority, queued, type, grp, due_state, kind, kind_at)
select md5('error ' || i)::uuid, 1, i, 0, i, {none}, 0, 0, 0, i % 256, 0, 1, 0, 5, 5, false, convert_to('type ' || i % 10, 'UTF8'), '', 5, i % 40, i
from generate_series(1, 100000) i`,
		`insert into taskengine.key (type, ordering_key, key, id) select type, coalesce(ordering_key, ''), key, id from taskengine.task where key is not null`,
		`analyze`,
	} {
		if _, err := c.Exec(t.Context(), schema.Fill(schema.Default)(sql)); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// sorts matches a plan in which rows are sorted. A merge of sorted rows has a Sort Key, too.
var sorts = regexp.MustCompile(`(?m)^\s*(-> +)?(Incremental )?Sort$`)

// limited matches a limit of a plan with the node below it, if that reads a table.
var limited = regexp.MustCompile(`Limit\n.*Scan .* on task.*`)

var parameter = regexp.MustCompile(`\$(\d+)`)

// plan returns the plan that PostgreSQL makes of a statement without knowing its arguments.
func plan(t *testing.T, c *pgx.Conn, sql string, set ...string) string {
	t.Helper()
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	params := 0
	for _, m := range parameter.FindAllStringSubmatch(sql, -1) {
		var n int
		if _, err := fmt.Sscan(m[1], &n); err != nil {
			t.Fatal(err)
		}
		params = max(params, n)
	}
	args := strings.TrimSuffix(strings.Repeat("null, ", params), ", ")
	for _, s := range append(set, "deallocate all", "prepare q as "+sql, "set local plan_cache_mode = force_generic_plan") {
		if _, err := tx.Exec(t.Context(), s, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	if args != "" {
		args = "(" + args + ")"
	}
	rows, err := tx.Query(t.Context(), "explain (costs off) execute q"+args, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatalf("explain %s: %v", sql, err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

var reads = regexp.MustCompile(`Seq Scan on \S+`)

// The cost of a step in the life of a task must not grow with the number of rows.
func TestAMillionRowsAreNotReadForOne(t *testing.T) {
	c := crowded(t)
	sql := statementsIn(schema.Default)
	// These read the rows that they count or search, on purpose.
	whole := map[string]bool{"dueRunning": true, "dueEnded": true}
	// These read the first entry of an index.
	first := map[string]bool{"allQueues": true, "allUnclaimed": true, "listKey": true}
	// These read notes about rows, and no rows.
	noTasks, tasks := map[string]bool{"count": true, "fold": true}, regexp.MustCompile(`Scan.* on (task|ended)`)
	// Small tables are read as a whole. Nothing is packed but during a move.
	small := regexp.MustCompile(`Seq Scan on (engine_setting|type_policy|pulse|tally|packed|pg_inherits|pg_class)`)
	streamed := map[string]bool{"listAll": true, "listSome": true, "listLive": true, "listErrors": true, "listWorkflows": true, "listOpenWorkflows": true, "listEndedWorkflows": true}
	check := func(name, text string, set ...string) {
		if text == "" || whole[name] {
			return
		}
		got := plan(t, c, text, set...)
		for _, read := range reads.FindAllString(got, -1) {
			if !small.MatchString(read) {
				t.Errorf("%s reads a whole table: %s\n%s", name, read, got)
			}
		}
		if noTasks[name] && tasks.MatchString(got) {
			t.Errorf("%s reads tasks:\n%s", name, got)
		}
		if streamed[name] && sorts.MatchString(got) {
			t.Errorf("%s reads more rows than it returns, to sort them:\n%s", name, got)
		}
		lines := strings.Split(got, "\n")
		for i, line := range lines {
			if !first[name] && strings.Contains(line, " using ") && !strings.Contains(line, " using pg_") && (i+1 == len(lines) || !strings.Contains(lines[i+1], "Index Cond")) {
				t.Errorf("%s reads a whole index:%s\n%s", name, line, got)
			}
		}
		if os.Getenv("SHOW_PLANS") != "" {
			t.Logf("%s:\n%s", name, got)
		}
	}
	browsed := map[string]bool{"count": true, "fold": true, "unclaimed": true, "allUnclaimed": true}
	listed := map[string]bool{"listErrorsOf": true, "listKinds": true, "listKey": true}
	v := reflect.ValueOf(*sql)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if v.Field(i).Kind() != reflect.String {
			continue
		}
		settings := sql.first.settings[directly]
		switch {
		case browsed[name]:
			settings = planBrowse
		case streamed[name]:
			settings = planStream
		case listed[name]:
			settings = plans
		}
		check(name, v.Field(i).String(), settings)
	}
	kinds := []task.KindRange{{From: 1, To: 2}}
	for name, q := range map[string]storage.ListQuery{
		"search": {Search: make([]task.SearchSet, 2)}, "search of a kind": {Search: make([]task.SearchSet, 1), Kinds: kinds},
		"search of kinds": {Search: make([]task.SearchSet, 1), Kinds: append(kinds, kinds...)},
	} {
		check(name, sql.searches.of(q), planSearch)
	}
	checkPages(t, c, sql)
	checkEntries(t, c, sql)
	for kind, text := range sql.inserts {
		check(fmt.Sprintf("insert %+v", kind), text(), sql.first.settings[directly])
	}
}

// checkPages fails the test unless lists of few rows read the indexes of them.
func checkPages(t *testing.T, c *pgx.Conn, sql *statements) {
	for name, text := range map[string][2]string{
		"task_error": {sql.listErrors, planStream}, "task_workflow": {sql.listWorkflows, planStream}, "task_error_type": {sql.listErrorsOf, plans},
	} {
		if got := plan(t, c, text[0], text[1]); !strings.Contains(got, "Index Scan Backward using "+name+" on task") {
			t.Errorf("a page does not read the index %s:\n%s", name, got)
		}
	}
}

// checkEntries fails the test unless the entries of indexes are read in the order of these, up to a limit, and rows by their ids.
func checkEntries(t *testing.T, c *pgx.Conn, sql *statements) {
	for name, text := range map[string]string{
		"submitted": sql.entries.submitted, "submitted of types": sql.entries.submittedOf, "waiting": sql.entries.waiting, "both": sql.entries.both,
	} {
		got := plan(t, c, text, planEntries)
		some := limited.FindAllString(got, -1)
		if len(some) == 0 || reads.MatchString(got) || !strings.Contains(got, "using task_pkey on task p") {
			t.Errorf("entries of %s:\n%s", name, got)
		}
		for _, entries := range some {
			if !strings.Contains(entries, "Index Scan using task_") {
				t.Errorf("entries of %s are not read in the order of an index:\n%s", name, got)
			}
		}
	}
}

// Pages of a type and of a kind read their own indexes also if all tasks in error are of one type and one kind: then each row that the order of the ids
// has first seems to match.
func TestPagesOfATypeOrAKindReadTheirIndexIfAllTasksInErrorAreAlike(t *testing.T) {
	c := pgtest.Connect(t, emptyTables(t))
	for _, sql := range []string{
		`
insert into {task} (id, version, seq, created_at, ready_at, next_event_at, expires_at, started_at, updated_at, shard, turn, attempt, crashes,
	state, priority, queued, type, grp, due_state, kind, kind_at)
select lpad(to_hex(i), 32, '0')::uuid, 1, i, 0, i, {none}, 0, 0, 0, 0, 0, 1, 0, 5, 5, false, 'order', '', 5, 7, i
from generate_series(1, 20000) i`,
		"analyze",
	} {
		if _, err := c.Exec(t.Context(), schema.Fill(schema.Default)(sql)); err != nil {
			t.Fatal(err)
		}
	}
	sql := statementsIn(schema.Default)
	for index, text := range map[string]string{"task_error_type": sql.listErrorsOf, "task_kind": sql.listKinds} {
		if got := plan(t, c, text, plans); !strings.Contains(got, "Index Scan Backward using "+index+" on task t\n") {
			t.Errorf("a page does not read the index %s:\n%s", index, got)
		}
	}
}

// A plan that is made while the tables are empty must be right when they are not.
func TestPlansOfEmptyTablesFindWhatTheyNeedByIndex(t *testing.T) {
	c := pgtest.Connect(t, emptyTables(t))
	sql := statementsIn(schema.Default)
	for name, text := range map[string]string{
		"grab": sql.grab, "rerun": sql.rerun, "exit": sql.exit, "end": sql.end, "removeExits": sql.removeExits, "insert": sql.inserts[insertKind{keyed: true, careful: true, follows: true}](), "finish": sql.finish, "drop": sql.drop, "update": sql.update, "note": sql.note, "ready": sql.ready, "due": sql.due,
		"remove": sql.remove, "removeEnded": sql.removeEnded, "lockTask": sql.lockTask, "queues": sql.queues,
		"outdated": sql.outdated, "demote": sql.demote, "promote": sql.promote, "heads": sql.heads, "headless": sql.headless, "takeHead": sql.takeHead,
	} {
		if got := plan(t, c, text, sql.first.settings[directly]); reads.MatchString(got) {
			t.Errorf("%s:\n%s", name, got)
		}
	}
}
