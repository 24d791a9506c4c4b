package postgres

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// application is the application_name of sessions without one in their connection string. maxApplication bytes of one
// are kept before the id of a node: the server keeps 63 bytes.
const (
	application    = "taskengine"
	maxApplication = 63 - len(" 01234567:") - len("01234567-89ab-cdef-0123-456789abcdef")
)

// identity is which nodes use a store.
type identity struct {
	schema string // distinguishes the nodes of one schema of a database from the nodes of another

	mu    sync.Mutex
	nodes []task.ID // guarded by mu
}

// name sets the application_name of a connection: the one of its connection string and, if one node uses the store, the
// id of that.
func (i *identity) name(c *pgx.ConnConfig) {
	i.mu.Lock()
	defer i.mu.Unlock()
	name := c.RuntimeParams["application_name"]
	if name == "" {
		name = application
	}
	if len(i.nodes) == 1 {
		name = fmt.Sprintf("%s %s:%s", name[:min(len(name), maxApplication)], i.prefix(), i.nodes[0])
	}
	c.RuntimeParams["application_name"] = name
}

// prefix returns the text before the id of a node.
func (i *identity) prefix() string {
	h := fnv.New32a()
	h.Write([]byte(i.schema))
	return fmt.Sprintf("%08x", h.Sum32())
}

// Identify implements [storage.Identified].
func (s *Store) Identify(node task.ID) (release func()) {
	s.identity.mu.Lock()
	s.identity.nodes = append(s.identity.nodes, node)
	s.identity.mu.Unlock()
	s.renew()
	return func() {
		s.identity.mu.Lock()
		defer s.identity.mu.Unlock()
		if at := slices.Index(s.identity.nodes, node); at >= 0 {
			s.identity.nodes = slices.Delete(s.identity.nodes, at, at+1)
		}
	}
}

// renew replaces connections when they are not used, so that they get their present name.
func (s *Store) renew() {
	for _, pool := range []*pgxpool.Pool{s.pool, s.writer, s.aside, s.direct} {
		pool.Reset()
	}
}

// The sessions of nodes of the schema that are in a transaction in which nothing has happened for a time.
const silentSessions = `
from pg_catalog.pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
	and application_name ~ (' ' || $1 || ':[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')
	and xact_start is not null and state_change < clock_timestamp() - make_interval(secs => $2)`

// Silent implements [storage.Identified].
func (s *Store) Silent(ctx context.Context, least time.Duration) (nodes []task.ID, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	rows, err := s.pool.Query(ctx, "select distinct right(application_name, 36)::uuid"+silentSessions, s.identity.prefix(), least.Seconds())
	if err == nil {
		nodes, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (id task.ID, err error) {
			err = row.Scan((*[16]byte)(&id))
			return id, err
		})
	}
	if err != nil {
		return nil, s.failed("look for sessions of nodes that are gone", err)
	}
	return nodes, nil
}

// End implements [storage.Identified].
func (s *Store) End(ctx context.Context, least time.Duration, nodes ...task.ID) (ended int, err error) {
	if len(nodes) == 0 {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ids := make([][16]byte, len(nodes))
	for i, id := range nodes {
		ids[i] = id
	}
	err = s.pool.QueryRow(ctx, "select count(*) from (select pg_terminate_backend(pid) as ended"+silentSessions+
		" and right(application_name, 36)::uuid = any($3::uuid[]) offset 0) e where ended", s.identity.prefix(), least.Seconds(), ids).Scan(&ended)
	if err != nil {
		return 0, s.failed("end sessions of nodes that are gone", err)
	}
	return ended, nil
}

var _ storage.Identified = (*Store)(nil)
