//go:build !race

package pairs

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/etcd"
	"github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/coord/zk"
	"github.com/taskengine/taskengine/engine/enginetest"
	"github.com/taskengine/taskengine/internal/etcdtest"
	"github.com/taskengine/taskengine/internal/kafkatest"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/internal/wiretest"
	"github.com/taskengine/taskengine/internal/zktest"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
)

// The servers are set once, before the tests.
var (
	etcds     *etcdtest.Cluster
	zookeeper *zktest.Ensemble
	brokers   *kafkatest.Cluster
)

func startOthers() (err error) {
	if etcds, err = etcdtest.Start(1); err != nil {
		return err
	}
	if zookeeper, err = zktest.Start(1); err != nil {
		return err
	}
	brokers, err = kafkatest.Start(1, kafkatest.Lasting())
	return err
}

// stopOthers stops the servers that were started.
func stopOthers() (failed error) {
	if brokers != nil {
		failed = errors.Join(failed, brokers.Close())
	}
	if zookeeper != nil {
		failed = errors.Join(failed, zookeeper.Close())
	}
	if etcds != nil {
		failed = errors.Join(failed, etcds.Close())
	}
	return failed
}

func TestPostgresAndEtcd(t *testing.T) {
	t.Parallel()
	enginetest.RunCluster(t, besidePostgres(etcds.Endpoints()[0], func(at, prefix string, lease time.Duration, now func() time.Time) (remote, error) {
		return etcd.New(etcd.Options{Endpoints: []string{at}, Prefix: prefix, Lease: lease, Now: now})
	}))
}

func TestPostgresAndZooKeeper(t *testing.T) {
	t.Parallel()
	enginetest.RunCluster(t, besidePostgres(zookeeper.Endpoints()[0], func(at, prefix string, lease time.Duration, now func() time.Time) (remote, error) {
		return zk.New(zk.Options{Endpoints: []string{at}, Prefix: prefix, Lease: lease, Now: now})
	}))
}

// remote has the ports that PostgreSQL does not implement for these pairs.
type remote interface {
	Coordinator() coord.Coordinator
	Close() error
}

// clusters is how many clusters share the coordinators so far.
var clusters atomic.Int64

// besidePostgres returns the pairs of nodes that keep their tasks in PostgreSQL and coordinate by another server.
// The bus and the clock are of PostgreSQL. A cut of the network to the store cuts both, too.
func besidePostgres(endpoint string, connect func(endpoint, prefix string, lease time.Duration, now func() time.Time) (remote, error)) enginetest.Cluster {
	return enginetest.Cluster{New: func(t *testing.T, s enginetest.Setup) func() *enginetest.Member {
		database := postgrestest.Tables(t, server)
		if s.Ahead != 0 {
			pgtest.SetClock(t, database, s.Ahead)
		}
		prefix := fmt.Sprint("cluster", clusters.Add(1))
		return func() *enginetest.Member {
			m := new(enginetest.Member)
			toStore, toBus := wiretest.New(t, database), wiretest.New(t, database)
			closeStore := openStore(t, m, toStore)
			hints, closeHints := coordinate(t, toStore, postgres.Options{Lease: s.Lease, Listen: toBus.URL()})
			now, err := hints.ReadClock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			to := func(w *wiretest.Wire) (remote, func()) {
				c, err := connect(strings.TrimPrefix(w.URL(), "tcp://"), prefix, s.Lease, now)
				if err != nil {
					t.Fatal(err)
				}
				return c, func() {
					if err := c.Close(); err != nil {
						t.Error(err)
					}
				}
			}
			toCoordinator, toLimits := wiretest.New(t, "tcp://"+endpoint), wiretest.New(t, "tcp://"+endpoint)
			members, closeMembers := to(toCoordinator)
			limits, closeLimits := to(toLimits)
			m.Coordinator = members.Coordinator()
			m.Bus, m.Clock = hints, hints
			m.Semaphore, m.Rates = limits.Coordinator().Semaphore, limits.Coordinator().Rates
			m.ToCoordinator, m.ToBus, m.ToLimits = silent{toCoordinator}, silent{toBus}, silent{toLimits}
			m.Disconnect = func() {
				closeLimits()
				closeMembers()
				closeHints()
				closeStore()
			}
			return m
		}
	}}
}
