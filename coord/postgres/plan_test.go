//go:build unix

package postgres_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/task"
)

// orderMany returns a request with orders of the limits from one number to another.
func orderMany(t *testing.T, session task.ID, number, from, to int) string {
	t.Helper()
	var all []map[string]any
	for i := from; i < to; i++ {
		all = append(all, map[string]any{
			"i": i, "holder": session, "name": fmt.Sprint("limit ", i), "keep": 1, "wanted": 1, "at_least": 1, "most": 1, "version": 0,
		})
	}
	text, err := json.Marshal(map[string]any{"session": session, "number": number, "known": 0, "all": false, "names": 1000, "orders": all})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A connection plans its statements while there are few permits, and uses the plans when there are many:
// then an order must not read the permits of all limits, nor each of many orders the permits of all others.
func TestAnOrderReadsThePermitsOfItsLimitAlone(t *testing.T) {
	url, me := database(t), task.ID{1}
	open(t, url, me)
	conn := pgtest.Connect(t, url)
	number := 0
	read := func(from, to int) (rows int) {
		t.Helper()
		number++
		request := orderMany(t, me, number, from, to)
		var before int
		count := func(tx pgx.Tx, sum *int) error {
			return tx.QueryRow(t.Context(), "SELECT (seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_xact_user_tables WHERE relname = 'permit'").Scan(sum)
		}
		err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			if err := count(tx, &before); err != nil {
				return err
			}
			if _, err := tx.Exec(t.Context(), orders, request); err != nil {
				return err
			}
			return count(tx, &rows)
		})
		if err != nil {
			t.Fatal(err)
		}
		return rows - before
	}
	for i := range 10 {
		read(i, i+1)
	}
	const many, each = 1000, 20
	for i := range 3 {
		if rows := read(many*(i+1), many*(i+2)); rows > many*each {
			t.Errorf("%d orders read %d rows", many, rows)
		}
	}
	if rows := read(many, many+1); rows > 10*each {
		t.Errorf("an order read %d rows", rows)
	}
}
