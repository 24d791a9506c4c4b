package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/storage/postgres/internal/partition"
)

// futureTables is how many tables of a time to come are dropped in one sweep.
const futureTables = 200

// dropFuture drops the tables of what ended later than now, by the database's clock. Earlier versions made one for each
// id whose time was to come, and no table is needed for that any more: their rows are put
// where those belong that ended early. It reports whether some are left for the next sweep.
func (s *Store) dropFuture(ctx context.Context, c *pgx.Conn, all []part) (left bool, err error) {
	var now time.Time
	if err := c.QueryRow(ctx, "select clock_timestamp()").Scan(&now); err != nil || !s.slots.early {
		return false, err
	}
	dropped := 0
	for _, one := range all {
		// Clocks may differ, and a table is as long as its span.
		if one.Early || one.From < micro(now)+2*maxEarly {
			continue
		}
		if dropped++; dropped > futureTables {
			return true, nil
		}
		if err := s.dropFutureOne(ctx, c, &one); isLockTimeout(err) {
			left = true
		} else if err != nil && !isGone(err) {
			return left, err
		}
	}
	return left, nil
}

// dropFutureOne moves the rows of a table, and drops it in the same transaction: nobody
// overlooks one of them meanwhile, and others wait for it.
func (s *Store) dropFutureOne(ctx context.Context, c *pgx.Conn, one *part) error {
	var ends []ending
	rows, err := c.Query(ctx, "select id, updated_at from "+s.slots.quoted(one.name))
	if err != nil {
		return err
	}
	e := ending{Class: partition.Class{Keep: one.Keep, Early: true}}
	if _, err := pgx.ForEachRow(rows, []any{(*[16]byte)(&e.id), &e.ended}, func() error {
		ends = append(ends, e)
		return nil
	}); err != nil {
		return err
	}
	if _, err := s.slots.need(ctx, ends, time.Now()); err != nil {
		return err
	}
	s.slots.forget(one.Slot)
	ids := make([][16]byte, len(ends))
	for i, e := range ends {
		ids[i] = e.id
	}
	return pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "set local lock_timeout = '1s'"); err != nil {
			return err
		}
		partition := s.slots.quoted(one.name)
		if _, err := tx.Exec(ctx, fmt.Sprintf("alter table %s detach partition %s", s.slots.quoted(one.class), partition)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, s.fill(fmt.Sprintf("update %s set ended_at = updated_at, keep = $1 where id = any($2::uuid[])", partition)), e.Number(), ids); err != nil {
			return err
		}
		// What has come since its rows were read has no place yet: this fails, and the next sweep does it.
		if _, err := tx.Exec(ctx, s.fill("insert into {ended} select * from "+partition)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "drop table "+partition)
		return err
	})
}
