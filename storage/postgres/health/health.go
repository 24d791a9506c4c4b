// Package health examines a database that has the tables of package postgres while nodes use it.
// It reads the tasks that have not ended once, and beyond that statistics of the server. It
// reports facts; the caller decides which of them are wrong.
package health

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/schema"
)

// Report has the facts about a database. Its parts are read one after the other, within about a
// second of each other. Times are by the database's clock unless said otherwise.
type Report struct {
	Server   int               // server_version_num
	Schema   int               // version of the tables
	Want     int               // version of the tables that this program makes
	Settings map[string]string // settings of the server that matter here, by name
	Sees     bool              // whether the role sees the activity of other sessions

	Now         time.Time
	Skew        time.Duration // how far the clock of this machine is ahead
	SkewWithin  time.Duration // the largest error of Skew
	Connections int           // of all clients of the server

	Nodes   []Node
	Others  int       // nodes that are alive and coordinate elsewhere: see [Elsewhere]
	Clocks  []Clock   // of the nodes that are alive and send theirs, in the order in which they joined
	Rows    Rows      // the tasks that have not ended
	Counts  []Count   // the counts of tasks that have not ended and that are wrong
	Tables  []Table   // the tables of the tasks that have not ended, and their indexes
	Ended   int64     // bytes of the tables of the tasks that have ended
	Over    []string  // partitions of ended tasks that should have been dropped an hour ago
	Apart   []string  // detached partitions of ended tasks
	Holders []Holder  // sessions and slots that keep vacuum from removing dead rows, the oldest first, at most 10
	Idle    []Session // sessions that are idle in a transaction, the oldest first, at most 10

	Blockers []storage.Blocker // sessions that may keep tasks waiting by their locks, the oldest first
}

// Late is how long after its time a row is late, and how long after the death of a node its
// tasks are orphans. Before that, a node may be about to deal with it.
const Late = time.Minute

// Examine returns the facts about the database of a store. It changes nothing.
func Examine(ctx context.Context, s *postgres.Store) (*Report, error) {
	e := &examination{pool: s.Pool(), schema: s.Schema(), fill: schema.Fill(s.Schema())}
	h := &Report{Want: len(schema.Migrations(e.schema))}
	for _, part := range []struct {
		name string
		read func(context.Context, *Report) error
	}{
		{"its version", e.readVersion},
		{"its settings", e.readSettings},
		{"its clock", e.readClock},
		{"the nodes", func(ctx context.Context, h *Report) (err error) {
			if h.Nodes, err = Nodes(ctx, s); err == nil {
				h.Others, err = Elsewhere(ctx, s)
			}
			return err
		}},
		{"the clocks of the nodes", e.readClocks},
		{"the tasks", e.readRows},
		{"the counts", e.readCounts},
		{"the tables", e.readTables},
		{"the tables of tasks that have ended", e.readPartitions},
		{"the causes that hold back vacuum", e.readHolders},
		{"the sessions", e.readIdle},
		{"the locks", func(ctx context.Context, h *Report) (err error) {
			h.Blockers, err = s.Blockers(ctx)
			return err
		}},
	} {
		if err := part.read(ctx, h); err != nil {
			return nil, failed("look at "+part.name, err)
		}
	}
	return h, nil
}

// examination is one call of Examine. Its methods fill in the parts of the report in the order
// of Examine: some use what an earlier one has read.
type examination struct {
	pool   *pgxpool.Pool
	schema string
	fill   func(sql string) string // by schema.Fill
}

func failed(doing string, err error) error {
	if postgres.IsUnavailable(err) {
		return fmt.Errorf("postgres: %s: %w: %w", doing, storage.ErrUnavailable, err)
	}
	return fmt.Errorf("postgres: %s: %w", doing, err)
}

func (e *examination) readVersion(ctx context.Context, h *Report) (err error) {
	h.Schema, err = schema.Version(ctx, e.pool, e.schema)
	return err
}
