package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/schema"
)

var _ storage.Homed = (*Store)(nil)

// homeConstraint is the constraint of the table task that keeps everybody from making or
// changing rows of shards that are not here: programs that know nothing of it, too.
const homeConstraint = "task_home"

// isElsewhere reports whether rows were refused because their shards are not here.
func isElsewhere(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "23514" && e.ConstraintName == homeConstraint
}

// home is the row of the table home.
type home struct {
	storage.Home
	said   bool        // there is a row
	coming task.Shards // that are on their way here; none of Here
}

// holds reports whether all of these shards are here.
func (h *home) holds(shards task.Shards) bool { return h.Here.With(&shards) == h.Here }

// Home implements [storage.Homed].
func (s *Store) Home(ctx context.Context) (storage.Home, error) {
	var h home
	err := s.again(ctx, "look which shards are here", func() (err error) {
		h, err = s.home(ctx, s.pool)
		return err
	})
	return h.Home, err
}

// home reads the row by a connection or in a transaction.
func (s *Store) home(ctx context.Context, q schema.Querier) (h home, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var here, coming, leaving []byte
	err = q.QueryRow(ctx, s.fill("select here, coming, leaving, to_name from {home}")).Scan(&here, &coming, &leaving, &h.To)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		h.Here = task.AllShards()
		return h, nil
	case err != nil:
		return h, err
	}
	h.said, h.Here, h.coming, h.Leaving = true, shardsIn(here), shardsIn(coming), shardsIn(leaving)
	return h, nil
}

// shardsIn undoes bitmap.
func shardsIn(b []byte) (shards task.Shards) {
	for i := range shards {
		if len(b) >= 8 {
			shards[i], b = binary.LittleEndian.Uint64(b), b[8:]
		}
	}
	return shards
}

// lockWait is how long a change of the constraint waits for those who use the table, and
// all others behind it.
const lockWait = time.Second

// settle writes what decide returns, which looks in the same transaction, and has the
// constraint say it as well. It waits for transactions that use the table, in turns: between
// them the others go on. When nobody can change it any more, check may refuse; it may be nil.
func (s *Store) settle(ctx context.Context, decide func(was home) (home, error), check func(tx pgx.Tx, is home) error) error {
	for {
		err := pgx.BeginTxFunc(ctx, s.pool, readCommitted, func(tx pgx.Tx) error {
			was, err := s.homeAlone(ctx, tx)
			if err != nil {
				return err
			}
			is, err := decide(was)
			if err != nil || is == was {
				return err
			}
			if err := s.say(ctx, tx, is); err != nil {
				return err
			}
			if err := s.fence(ctx, tx, is.Here.With(&is.coming)); err != nil || check == nil {
				return err
			}
			return check(tx, is)
		})
		var e *pgconn.PgError
		if err == nil || !errors.As(err, &e) || e.Code != "55P03" {
			return err
		}
		s.log.Info("waiting for transactions that use the table task, to write which shards are in the database")
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(lockWait):
		}
	}
}

// readCommitted is how transactions begin that wait for a lock, whatever the server's default
// is: they see what was written while they waited.
var readCommitted = pgx.TxOptions{IsoLevel: pgx.ReadCommitted}

// homeAlone reads the row in a transaction that alone may change it from now on.
func (s *Store) homeAlone(ctx context.Context, tx pgx.Tx) (home, error) {
	if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1)", schema.Lock("home", s.slots.schema)); err != nil {
		return home{}, err
	}
	return s.home(ctx, tx)
}

// say writes the row.
func (s *Store) say(ctx context.Context, tx pgx.Tx, h home) error {
	_, err := tx.Exec(ctx, s.fill(`
insert into {home} as h (here, coming, leaving, to_name) values ($1, $2, $3, $4)
on conflict (one) do update set here = excluded.here, coming = excluded.coming, leaving = excluded.leaving, to_name = excluded.to_name`),
		bitmap(&h.Here), bitmap(&h.coming), bitmap(&h.Leaving), h.To)
	return err
}

// fence has the table task take rows of these shards only.
func (s *Store) fence(ctx context.Context, tx pgx.Tx, shards task.Shards) error {
	sql := fmt.Sprintf("set local lock_timeout = %d; alter table {task} drop constraint if exists %s;", lockWait.Milliseconds(), homeConstraint)
	if shards != task.AllShards() {
		sql += fmt.Sprintf(`
alter table {task} add constraint %s check (%s) not valid;`,
			homeConstraint, of(fmt.Sprintf(`'\x%x'::bytea`, bitmap(&shards))))
	}
	_, err := tx.Exec(ctx, s.fill(sql), pgx.QueryExecModeSimpleProtocol)
	return err
}

// of returns the condition that a row is of the shards of a bitmap, without a call of a function
// for each row that is no part of PostgreSQL.
func of(bitmap string) string {
	return "get_bit(" + bitmap + ", get_byte(uuid_send(id), 3) # get_byte(uuid_send(id), 7) # get_byte(uuid_send(id), 15)) = 1"
}

func (s *Store) fill(sql string) string { return filler(s.slots.schema)(sql) }
