package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage/postgres/schema"
)

// Node is a member of the engine that the nodes on a schema are.
type Node struct {
	Incarnation task.ID
	Name        string
	JoinedAt    time.Time
	DiedAt      time.Time // zero while it is alive
}

const selectNodes = `
select m.incarnation, m.name, m.joined_at,
	coalesce(m.died_at, case when s.id is null or s.expires_at <= clock_timestamp() then coalesce(s.expires_at, clock_timestamp()) end)
from {member} m left join {session} s on s.id = m.session
order by m.joined_at, m.incarnation`

// Nodes returns the nodes that use the schema and agree by it, in the order in which they
// joined, and those that died within the last hour. Those that agree elsewhere are not
// known here.
func (s *Store) Nodes(ctx context.Context) ([]Node, error) {
	// An error of Query is one of CollectRows, too.
	rows, _ := s.pool.Query(ctx, s.fill(selectNodes))
	nodes, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (n Node, err error) {
		var died *time.Time
		err = row.Scan((*[16]byte)(&n.Incarnation), &n.Name, &n.JoinedAt, &died)
		if died != nil {
			n.DiedAt = *died
		}
		return n, err
	})
	if schema.IsMissing(err) { // those of the version before
		return nil, nil
	}
	if err != nil {
		return nil, s.failed("look for nodes", err)
	}
	return nodes, nil
}
