package health

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	coordination "github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/schema"
	"github.com/taskengine/taskengine/task"
)

// Node is a member of the cluster that uses the schema.
type Node struct {
	Incarnation task.ID
	Name        string
	JoinedAt    time.Time
	DiedAt      time.Time // zero while it is alive
}

// Clock is how far the clock of a node is ahead of the database's clock, by the node's newest
// heartbeat. A heartbeat that took long to arrive makes Ahead smaller, by up to a third of the
// lease: a node with a right clock may seem to be behind, never ahead.
type Clock struct {
	Name  string
	Ahead time.Duration
}

const selectNodes = `
select m.incarnation, m.name, m.joined_at,
	coalesce(m.died_at, case when s.id is null or s.expires_at <= clock_timestamp() then coalesce(s.expires_at, clock_timestamp()) end)
from {member} m left join {session} s on s.id = m.session
order by m.joined_at, m.incarnation`

// Nodes returns the nodes that use the schema of a store and coordinate by it, in the order in
// which they joined, and the nodes that died within the last hour. Nodes that coordinate elsewhere are
// not among them: see [Elsewhere].
func Nodes(ctx context.Context, s *postgres.Store) ([]Node, error) {
	// An error of Query is one of CollectRows, too.
	rows, _ := s.Pool().Query(ctx, schema.Fill(s.Schema())(selectNodes))
	nodes, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (n Node, err error) {
		var died *time.Time
		err = row.Scan((*[16]byte)(&n.Incarnation), &n.Name, &n.JoinedAt, &died)
		if died != nil {
			n.DiedAt = *died
		}
		return n, err
	})
	if schema.IsMissing(err) { // tables of the version before the coordination
		return nil, nil
	}
	if err != nil {
		return nil, failed("look for nodes", err)
	}
	return nodes, nil
}

const selectElsewhere = `
select count(*) from {session} s where s.expires_at > clock_timestamp() and not exists (select from {member} m where m.session = s.id)`

// Elsewhere returns how many processes have a lease in the schema of a store and are no member there:
// nodes that coordinate by etcd or ZooKeeper, and at times a node that is starting.
func Elsewhere(ctx context.Context, s *postgres.Store) (n int, err error) {
	err = s.Pool().QueryRow(ctx, schema.Fill(s.Schema())(selectElsewhere)).Scan(&n)
	if schema.IsMissing(err) { // tables of the version before the coordination
		return 0, nil
	}
	if err != nil {
		return 0, failed("look for nodes that coordinate elsewhere", err)
	}
	return n, nil
}

const selectClocks = `
select m.name, s.beats, s.expires_at from {member} m join {session} s on s.id = m.session
where m.died_at is null and s.expires_at > clock_timestamp() order by m.joined_at, m.incarnation`

// readClocks compares the times of both clocks at which a heartbeat was answered. No other pair
// of times is of one moment: a node may wait for long before it can join.
func (e *examination) readClocks(ctx context.Context, h *Report) error {
	rows, _ := e.pool.Query(ctx, e.fill(selectClocks))
	var name string
	var beats int64
	var expires time.Time
	_, err := pgx.ForEachRow(rows, []any{&name, &beats, &expires}, func() error {
		if ahead, ok := coordination.Ahead(beats, expires); ok {
			h.Clocks = append(h.Clocks, Clock{name, ahead})
		}
		return nil
	})
	if schema.IsMissing(err) { // tables of the version before
		return nil
	}
	return err
}
