//go:build unix

package pgcells

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/taskengine/taskengine/coord/cells"
	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/internal/pgtest"
)

// server is set once, by TestMain.
var server *pgtest.Server

func TestMain(m *testing.M) {
	os.Exit(pgtest.Run(m, func(s *pgtest.Server) { server = s }))
}

// node is a node with a pool of its own. It implements [coordtest.Node].
type node struct {
	*cells.Node
	pool *pgxpool.Pool
}

// Check implements [coordtest.Node].
func (n *node) Check(ctx context.Context) error { return n.pool.Ping(ctx) }

// Close closes the node and its pool.
func (n *node) Close() error {
	err := n.Node.Close()
	n.pool.Close()
	return err
}

// nodeName is the application_name of the connections of nodes.
const nodeName = "node"

// pool returns a pool of connections of a node. The tracer may be nil.
func pool(url string, tracer pgx.QueryTracer) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.Tracer = tracer
	config.ConnConfig.RuntimeParams["application_name"] = nodeName
	return pgxpool.NewWithConfig(context.Background(), config)
}

// open returns a node of a cluster in a schema.
func open(p *pgxpool.Pool, schema string, lease time.Duration, log *slog.Logger) *node {
	o := cells.Options{Driver: "PostgreSQL by cells", Name: schema, Lease: lease, Now: time.Now, Log: log}
	return &node{cells.New(&store{pool: p, schema: schema}, o), p}
}

// prepare makes the tables in a schema unless it exists.
func prepare(tb testing.TB, url, schema string) {
	tb.Helper()
	conn := pgtest.Connect(tb, url)
	s := &store{schema: schema}
	pgtest.Exec(tb, conn, s.sql(ddl))
}

func TestPorts(t *testing.T) {
	const before, after = "postgres://postgres@", "/postgres?sslmode=disable"
	url := server.URL("postgres")
	address := strings.TrimSuffix(strings.TrimPrefix(url, before), after)
	coordtest.RunPorts(t, address, time.Second, func(t *testing.T, address, prefix string, lease time.Duration) coordtest.Node {
		prepare(t, url, prefix)
		p, err := pool(before+address+after, nil)
		if err != nil {
			t.Fatal(err)
		}
		return coordtest.Connected(t, open(p, prefix, lease, slog.New(slog.NewTextHandler(t.Output(), nil))), nil)
	})
}
