package postgres

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5"
)

// The triggers know the tables below ended by the same names as the program.
func TestSQLNamesTheTablesOfEndedTasksAsGoDoes(t *testing.T) {
	c := dial(t, emptyTables(t))
	var keep []int32
	var at, want []int64
	for _, k := range append([]int32{0, 365 * day, math.MaxInt32}, keeps[:]...) {
		for n := range int64(60) {
			ended := rand.Int64N(1<<54) - 1<<53
			switch n % 3 {
			case 0:
				ended = (n - 30) * span(k) // where a table begins
			case 1:
				ended = (n-30)*span(k) - 1
			}
			keep, at, want = append(keep, k), append(at, ended), append(want, ending{ended: ended, keep: k}.slot().from/1e6)
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
