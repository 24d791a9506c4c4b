// Package placement decides which databases hold which shards of the tasks of one engine, and
// moves shards from one database to another while nodes run.
package placement

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/internal/home"
	"github.com/taskengine/taskengine/storage/postgres/schema"
)

// Database is one of the databases that hold the tasks of one engine.
type Database struct {
	Name string // as errors call it, and as other databases record where tasks go
	*postgres.Store
	Log *slog.Logger // nil for none
}

// fill fills in one statement.
func (d Database) fill(sql string) string { return schema.Fill(d.Schema())(sql) }

func (d Database) log() *slog.Logger {
	if d.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return d.Log
}

// home reads which shards the database holds.
func (d Database) home(ctx context.Context) (home.Row, error) {
	return home.Read(ctx, d.Pool(), d.Schema())
}

// readCommitted is for transactions that wait for a lock: whatever the server's default is, their
// next statement sees the commits of others in that time.
var readCommitted = pgx.TxOptions{IsoLevel: pgx.ReadCommitted}

// lockWait is how long a change of the constraint waits for transactions that use the table task.
// Transactions that begin in that time wait behind it.
const lockWait = time.Second

// lockNotAvailable is the code of the error after lockWait.
const lockNotAvailable = "55P03"

// settle writes the row that decide returns for the present one, and the constraint that belongs
// to it, in one transaction. It waits for transactions that use the table, in turns: between
// them others go on. Once the constraint holds, check may refuse; it may be nil.
func (d Database) settle(ctx context.Context, decide func(was home.Row) (home.Row, error), check func(tx pgx.Tx, is home.Row) error) error {
	for {
		err := pgx.BeginTxFunc(ctx, d.Pool(), readCommitted, func(tx pgx.Tx) error {
			was, err := home.ReadForUpdate(ctx, tx, d.Schema())
			if err != nil {
				return err
			}
			is, err := decide(was)
			if err != nil || is == was {
				return err
			}
			if err := home.Write(ctx, tx, d.Schema(), is); err != nil {
				return err
			}
			if err := home.Enforce(ctx, tx, d.Schema(), is.Owned.With(&is.Coming), lockWait); err != nil || check == nil {
				return err
			}
			return check(tx, is)
		})
		var e *pgconn.PgError
		if err == nil || !errors.As(err, &e) || e.Code != lockNotAvailable {
			return err
		}
		d.log().Info("waiting for transactions that use the table task, to write which shards are in the database")
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(lockWait):
		}
	}
}
