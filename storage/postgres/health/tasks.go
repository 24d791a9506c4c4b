package health

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/task"
)

// Rows describes the rows that have not ended. Times are zero if there is no such row.
type Rows struct {
	Live, Ready, Running, Errors int64
	Behind                       int64     // submitted, and behind others of their ordering key: they are not ready
	OldestReady                  time.Time // the smallest ReadyAt of a ready row
	OldestReadyType              string    // the type of that row
	Orphans                      int64     // running, and their node is not alive
	OrphansSince                 time.Time // the earliest start of an orphan
	LateRunning                  int64     // running on nodes that are alive, and past their ExpiresAt
	LateWaiting                  int64     // waiting, and past their time
	LateWaitingSince             time.Time // the earliest such time
	LateReady                    int64     // ready or behind, and past the time until which they may start
	Newest                       time.Time // the newest change, by the clock of the node that made it
}

// Count is a count of tasks that differs from the number of rows.
type Count struct {
	State          task.State
	Type           string
	Counted, There int64
}

// The next_event_at of a running row is no time by which something is due.
const selectRowsHealth = `
select count(*), count(*) filter (where ready), count(*) filter (where running), count(*) filter (where state = 5),
	coalesce(min(ready_at) filter (where ready), {none}),
	count(*) filter (where orphan), coalesce(min(started_at) filter (where orphan), {none}),
	count(*) filter (where running and not orphan and expired), count(*) filter (where state = 1 and late), coalesce(min(next_event_at) filter (where state = 1 and late), {none}),
	count(*) filter (where state = 2 and late), coalesce(max(updated_at), {none}), count(*) filter (where state = 2 and not ready)
from (select state, ready_at, started_at, next_event_at, updated_at, state = 2 and turn <> 1 as ready, state = 3 as running, state = 3 and (owner is null or owner <> all($1::uuid[])) as orphan,
	next_event_at <> {none} and next_event_at < $2 as late, expires_at <> {none} and expires_at < $2 as expired
	from {task}) t`

func (e *examination) readRows(ctx context.Context, h *Report) error {
	var alive [][16]byte
	for _, n := range h.Nodes {
		if n.DiedAt.IsZero() || h.Now.Sub(n.DiedAt) < Late {
			alive = append(alive, n.Incarnation)
		}
	}
	r := &h.Rows
	var oldest, since, waiting, newest int64
	err := e.pool.QueryRow(ctx, e.fill(selectRowsHealth), alive, h.Now.Add(-Late).UnixMicro()).Scan(
		&r.Live, &r.Ready, &r.Running, &r.Errors, &oldest, &r.Orphans, &since, &r.LateRunning, &r.LateWaiting, &waiting, &r.LateReady, &newest, &r.Behind)
	if err != nil {
		return err
	}
	at := func(us int64) time.Time { return time.UnixMicro(us).UTC() }
	r.OldestReady, r.OrphansSince, r.LateWaitingSince, r.Newest = at(oldest), at(since), at(waiting), at(newest)
	if r.Ready == 0 {
		return nil
	}
	var typ []byte
	err = e.pool.QueryRow(ctx, e.fill("select coalesce((select type from {task} where state = 2 and turn <> 1 and ready_at = $1 limit 1), '')"), oldest).Scan(&typ)
	r.OldestReadyType = string(typ)
	return err
}

// One statement, so that both numbers are of one snapshot.
const selectWrongCounts = `
select state, type, sum(counted)::bigint, sum(there)::bigint from (
	select state, type, sum(n) as counted, 0 as there from {tally_now} where keep is null group by state, type
	union all
	select state, type, 0, count(*) from {task} group by state, type) c
group by state, type having sum(counted) <> sum(there)
order by type, state`

// readCounts compares the counts of the tasks that have not ended. Reading the others would take
// too long.
func (e *examination) readCounts(ctx context.Context, h *Report) error {
	rows, _ := e.pool.Query(ctx, e.fill(selectWrongCounts))
	var err error
	h.Counts, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (c Count, err error) {
		var state int16
		var typ []byte
		err = row.Scan(&state, &typ, &c.Counted, &c.There)
		c.State, c.Type = task.State(state), string(typ)
		return c, err
	})
	return err
}
