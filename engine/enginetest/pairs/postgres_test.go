package pairs

import (
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/engine/enginetest"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/internal/wiretest"
	storage "github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
)

func TestPostgresAndPostgres(t *testing.T) {
	t.Parallel()
	enginetest.RunCluster(t, onPostgres(func(_ *testing.T, c *postgres.Coord) coord.Elector { return c }))
}

// onPostgres returns clusters on PostgreSQL. elector returns that of a member.
func onPostgres(elector func(*testing.T, *postgres.Coord) coord.Elector) enginetest.Cluster {
	return enginetest.Cluster{New: func(t *testing.T, s enginetest.Setup) func() *enginetest.Member {
		database := postgrestest.Tables(t, server)
		if s.Ahead != 0 {
			pgtest.SetClock(t, database, s.Ahead)
		}
		return func() *enginetest.Member {
			m := new(enginetest.Member)
			closeStore := openStore(t, m, wiretest.New(t, database))
			toCoordinator, toBus, toLimits := wiretest.New(t, database), wiretest.New(t, database), wiretest.New(t, database)
			members, closeMembers := coordinate(t, toCoordinator, postgres.Options{Lease: s.Lease, Listen: toBus.URL()})
			limits, closeLimits := coordinate(t, toLimits, postgres.Options{Lease: s.Lease})
			m.Coordinator = members.Coordinator()
			m.Elector = elector(t, members)
			m.Semaphore, m.Rates = limits, limits
			m.ToCoordinator, m.ToBus, m.ToLimits = silent{toCoordinator}, silent{toBus}, silent{toLimits}
			m.Disconnect = func() {
				closeLimits()
				closeMembers()
				closeStore()
			}
			return m
		}
	}}
}

// silent is a network. By its cut neither side gets an error.
type silent struct{ wire *wiretest.Wire }

// Cut implements [enginetest.Link].
func (s silent) Cut() { s.wire.Stall() }

// Heal implements [enginetest.Link].
func (s silent) Heal() { s.wire.Heal() }

// openStore connects a member to the store.
func openStore(t *testing.T, m *enginetest.Member, w *wiretest.Wire) (disconnect func()) {
	t.Helper()
	u, err := url.Parse(w.URL())
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("pool_max_conns", "4")
	u.RawQuery = q.Encode()
	s, err := storage.Open(t.Context(), u.String(), storage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m.Store, m.ToStore = s, w
	return func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// coordinate connects a process to its cluster.
func coordinate(t *testing.T, w *wiretest.Wire, o postgres.Options) (c *postgres.Coord, disconnect func()) {
	t.Helper()
	config, err := pgxpool.ParseConfig(w.URL())
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 2
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = postgres.New(pool, o); err != nil {
		t.Fatal(err)
	}
	return c, func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		pool.Close()
	}
}
