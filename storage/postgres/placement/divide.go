package placement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/internal/home"
	"github.com/taskengine/taskengine/task"
)

// Divide decides which shards databases hold that have no such decision yet. If there are no tasks,
// each holds an equal part, in their order; else the database that has tasks holds all shards, until
// [Move] moves some. A database that is added later holds none. Divide returns the shards of each database.
// If a task is added at that time that would be in the wrong database, it fails and does not change that
// database.
func Divide(ctx context.Context, databases ...Database) ([]storage.Holdings, error) {
	homes, err := divide(ctx, databases)
	if err != nil {
		return nil, fmt.Errorf("postgres: divide the shards: %w", err)
	}
	return homes, nil
}

func divide(ctx context.Context, parts []Database) ([]storage.Holdings, error) {
	homes, full := make([]home.Row, len(parts)), make([]bool, len(parts))
	for i, p := range parts {
		var err error
		if homes[i], err = p.home(ctx); err != nil {
			return nil, fmt.Errorf("look at %s: %w", p.Name, err)
		}
		if full[i], err = p.hasTasks(ctx); err != nil {
			return nil, fmt.Errorf("look at %s: %w", p.Name, err)
		}
	}
	if err := decide(parts, homes, full); err != nil {
		return nil, err
	}
	out := make([]storage.Holdings, len(parts))
	for i, p := range parts {
		if err := p.settle(ctx, func(was home.Row) (home.Row, error) {
			is := was
			if !was.Written {
				is = homes[i]
			}
			out[i] = is.Holdings
			return is, nil
		}, func(tx pgx.Tx, is home.Row) error { return p.onlyHere(ctx, tx, is) }); err != nil {
			return nil, fmt.Errorf("write the shards of %s to it: %w", p.Name, err)
		}
	}
	return out, nil
}

// decide fills in the rows of the databases that have none. full says which databases have tasks.
func decide(parts []Database, homes []home.Row, full []bool) error {
	var held task.Shards
	equal := true // all rows are of a division into equal parts, which may have been interrupted
	settled := 0
	for i, h := range homes {
		if equal = equal && (h.Written || !full[i]); h.Written {
			both := h.Owned.With(&h.Migrating)
			held, settled, equal = held.With(&both), settled+1, equal && h.Owned == share(i, len(homes))
		}
	}
	for i := range homes {
		h := &homes[i]
		switch {
		case h.Written:
			continue
		case full[i] && (settled > 0 || slices.Index(full, true) != i):
			// Its tasks may be of any shard, so it would have to hold all: one database at most can.
			return fmt.Errorf("%s has tasks, and other databases hold some of the shards already: "+
				"copy its tasks with taskengine copy, and name an empty database instead", parts[i].Name)
		case full[i]:
			h.Owned = task.AllShards()
		case settled > 0 && held != task.AllShards() && !equal:
			missing := task.AllShards()
			missing = missing.Without(&held)
			return fmt.Errorf("no database holds the shards %s: name the one that does, before another is added", &missing)
		case !equal || held == task.AllShards():
			h.Owned = task.Shards{}
		default:
			h.Owned = share(i, len(homes))
		}
		h.Written = true
	}
	return nil
}

// onlyHere returns an error if the database has tasks of shards that it does not hold: they were added
// in that time.
func (d Database) onlyHere(ctx context.Context, tx pgx.Tx, is home.Row) error {
	if is.Owned == task.AllShards() {
		return nil
	}
	var others bool
	sql := "select exists (select from {task} where not " + home.Condition("$1::bytea") + ") or exists (select from {ended} where not " + home.Condition("$1::bytea") + ")"
	if err := tx.QueryRow(ctx, d.fill(sql), home.Bitmap(&is.Owned)).Scan(&others); err != nil {
		return err
	}
	if others {
		return errors.New("tasks of shards that it does not get were added during the division: stop the programs that add them, and divide again")
	}
	return nil
}

// hasTasks reports whether there is any task.
func (d Database) hasTasks(ctx context.Context) (some bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err = d.Pool().QueryRow(ctx, d.fill("select exists (select from {task}) or exists (select from {ended}) or exists (select from {packed})")).Scan(&some)
	return some, err
}

// share returns the i-th of n equal parts of all shards.
func share(i, n int) (shards task.Shards) {
	for shard := i * task.ShardCount / n; shard < (i+1)*task.ShardCount/n; shard++ {
		shards.Add(uint16(shard))
	}
	return shards
}
