package schema_test

import (
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
			t.Errorf("what is kept for %d s and ended at %d µs is in the table since %d, and SQL says %d", keep[i], at[i], want[i], got[i])
		}
	}
}
