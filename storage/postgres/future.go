package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/internal/pglocks"
	"github.com/taskengine/taskengine/internal/pgsession"
	"github.com/taskengine/taskengine/storage/postgres/internal/ended"
)

// futureTables is how many partitions of a time to come one call of Expire drops.
const futureTables = 200

// dropFuture drops the partitions of rows that end later than now, by the database's clock. Earlier
// versions made one for each id whose time was to come. It moves their rows to the classes of rows
// that ended early. It reports whether some are left for the next call.
func (s *Store) dropFuture(ctx context.Context, c *pgx.Conn, all []table) (left bool, err error) {
	var now time.Time
	if err := c.QueryRow(ctx, "select clock_timestamp()").Scan(&now); err != nil || !s.partitions.early {
		return false, err
	}
	dropped := 0
	for _, one := range all {
		// Clocks may differ, and a partition may have begun before now.
		if one.Early || one.From < micro(now)+2*maxEarly {
			continue
		}
		if dropped++; dropped > futureTables {
			return true, nil
		}
		if err := s.dropFutureOne(ctx, c, &one); pglocks.IsTimeout(err) {
			left = true
		} else if err != nil && !isGone(err) {
			return left, err
		}
	}
	return left, nil
}

// dropFutureOne moves the rows of a partition and drops it in one transaction, so that no other
// transaction misses a row. Transactions that use the table ended wait for it.
func (s *Store) dropFutureOne(ctx context.Context, c *pgx.Conn, one *table) error {
	var ends []ending
	rows, err := c.Query(ctx, "select id, updated_at from "+s.partitions.quoted(one.name))
	if err != nil {
		return err
	}
	e := ending{class: ended.Class{Keep: one.Keep, Early: true}}
	if _, err := pgx.ForEachRow(rows, []any{(*[16]byte)(&e.id), &e.at}, func() error {
		ends = append(ends, e)
		return nil
	}); err != nil {
		return err
	}
	if _, err := s.partitions.need(ctx, ends, time.Now()); err != nil {
		return err
	}
	s.partitions.forget(one.Partition)
	ids := make([][16]byte, len(ends))
	for i, e := range ends {
		ids[i] = e.id
	}
	return pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if err := pgsession.Begin(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "set local lock_timeout = '1s'"); err != nil {
			return err
		}
		partition := s.partitions.quoted(one.name)
		if _, err := tx.Exec(ctx, fmt.Sprintf("alter table %s detach partition %s", s.partitions.quoted(one.parent), partition)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, s.fill(fmt.Sprintf("update %s set ended_at = updated_at, keep = $1 where id = any($2::uuid[])", partition)), e.class.Number(), ids); err != nil {
			return err
		}
		// For a row that has come since they were read, the partition may be missing. Then this fails,
		// and the next call does it.
		if _, err := tx.Exec(ctx, s.fill("insert into {ended} select * from "+partition)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "drop table "+partition)
		return err
	})
}
