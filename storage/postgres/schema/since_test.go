package schema_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage/postgres/internal/ended"
	"github.com/taskengine/taskengine/storage/postgres/schema"
)

// The triggers know the tables below ended by the same names as the program.
func TestSQLNamesTheTablesOfEndedTasksAsGoDoes(t *testing.T) {
	c := pgtest.Connect(t, server.Database(t))
	pgtest.Exec(t, c, schema.Script(schema.Default, schema.Migrations(schema.Default)))
	var keep []int32
	var at, want []int64
	keeps := []int32{0, math.MaxInt32}
	for hours := range 401 * 24 {
		if k := ended.Keep(time.Duration(hours) * time.Hour); !slices.Contains(keeps, k) {
			keeps = append(keeps, k)
		}
	}
	for _, k := range keeps {
		class := ended.Class{Keep: k}
		span := class.Partition(0).To()
		for n := range int64(60) {
			ended := rand.Int64N(1<<54) - 1<<53
			switch n % 3 {
			case 0:
				ended = (n - 30) * span // where a table begins
			case 1:
				ended = (n-30)*span - 1
			}
			keep, at, want = append(keep, k), append(at, ended), append(want, class.Partition(ended).From/1e6)
		}
	}
	rows, _ := c.Query(t.Context(), "select taskengine.since_of(keep, at) from unnest($1::integer[], $2::bigint[]) with ordinality as c (keep, at, n) order by n", keep, at)
	got, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("a row that is kept for %d s and ended at %d µs is in the table since %d, and SQL says %d", keep[i], at[i], want[i], got[i])
		}
	}
}

// The functions that end attempts choose the tables, and lock them, as the program does.
func TestSQLKeepsEndedTasksAndLocksTheirTablesAsGoDoes(t *testing.T) {
	c := pgtest.Connect(t, server.Database(t))
	for _, name := range []string{schema.Default, "Other schema é"} {
		pgtest.Exec(t, c, schema.Script(name, schema.Migrations(name)))
		fill := schema.Fill(name)
		for hours := range 12000 {
			for _, d := range []time.Duration{-time.Microsecond, 0, time.Microsecond} {
				d += time.Duration(hours) * time.Hour
				if hours > 100 && hours%24 != 0 {
					continue
				}
				var got int32
				if err := c.QueryRow(t.Context(), fill("select {schema}.class_of($1)"), d.Microseconds()).Scan(&got); err != nil || got != ended.Keep(d) {
					t.Fatalf("a row to keep for %v is kept for %d s, want %d: %v", d, got, ended.Keep(d), err)
				}
			}
		}
		var got int32
		if err := c.QueryRow(t.Context(), fill("select {schema}.class_of($1)"), int64(math.MaxInt64)).Scan(&got); err != nil || got != math.MaxInt32 {
			t.Errorf("a row to keep for ever, nearly, is kept for %d s: %v", got, err)
		}
		// The names of tables are made of it.
		for _, class := range []ended.Class{{Keep: 3600, Early: true}, {}, {Early: true}, {Keep: 86400}} {
			for _, at := range []int64{1, -1, 1 << 50} {
				p := class.Partition(at)
				has := func() (yes bool) {
					if err := c.QueryRow(t.Context(), fill("select {schema}.has_room($1, $2)"), class.Number(), at).Scan(&yes); err != nil {
						t.Fatal(err)
					}
					return yes
				}
				if has() {
					t.Errorf("there is room for %v before there is the table %s", class, p.Name())
				}
				pgtest.Exec(t, c, fill(fmt.Sprintf("create table if not exists {schema}.%s partition of {schema}.ended for values in (%d) partition by range (ended_at)", class.Name(), class.Number())),
					fill(fmt.Sprintf("create table {schema}.%[2]q partition of {schema}.%[1]s for values from (%[3]d) to (%[4]d)", class.Name(), p.Name(), p.From, p.To())))
				if !has() {
					t.Errorf("there is no room for %v, and there is the table %s", class, p.Name())
				}
			}
		}
	}
}
