//go:build !race

package pairs

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord/guid"
	kafkacoord "github.com/taskengine/taskengine/coord/kafka"
	"github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/engine/enginetest"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/internal/wiretest"
	"github.com/taskengine/taskengine/kafka"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
)

// topics is how many clusters have a topic so far.
var topics atomic.Int64

// Hints and roles depend on the topic alone.
func TestPostgresAndPostgresWithHintsAndRolesByKafka(t *testing.T) {
	t.Parallel()
	enginetest.RunCluster(t, enginetest.Cluster{New: func(t *testing.T, s enginetest.Setup) func() *enginetest.Member {
		database := postgrestest.Tables(t, server)
		if s.Ahead != 0 {
			pgtest.SetClock(t, database, s.Ahead)
		}
		topic := fmt.Sprint("hints-", topics.Add(1))
		return func() *enginetest.Member {
			m := new(enginetest.Member)
			closeStore := openStore(t, m, wiretest.New(t, database))
			toCoordinator, toLimits := wiretest.New(t, database), wiretest.New(t, database)
			members, closeMembers := coordinate(t, toCoordinator, postgres.Options{Lease: s.Lease})
			limits, closeLimits := coordinate(t, toLimits, postgres.Options{Lease: s.Lease})
			bus, toBus := carry(t, topic)
			log := slog.New(slog.NewTextHandler(t.Output(), nil))
			elector, err := guid.New(bus, guid.Options{Lease: 3 * time.Second, Log: log})
			if err != nil {
				t.Fatal(err)
			}
			m.Coordinator = members.Coordinator()
			m.Semaphore, m.Rates = limits, limits
			m.Bus, m.Elector = bus, elector
			m.ToCoordinator, m.ToBus, m.ToLimits = silent{toCoordinator}, silent{toBus}, silent{toLimits}
			m.Disconnect = func() {
				if err := bus.Close(); err != nil {
					t.Error(err)
				}
				closeLimits()
				closeMembers()
				closeStore()
			}
			return m
		}
	}})
}

// carry connects a member to a topic, by a network of its own.
func carry(t *testing.T, topic string) (*kafkacoord.Bus, *wiretest.Wire) {
	t.Helper()
	w := wiretest.New(t, "tcp://"+brokers.Brokers()[0])
	by := strings.TrimPrefix(w.URL(), "tcp://")
	bus, err := kafkacoord.New(kafkacoord.Options{
		Connection: kafka.Connection{Name: "main", Brokers: []string{by}, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, by)
		}},
		Topic: topic, Create: true, Partitions: 8,
	})
	if err != nil {
		t.Fatal(err)
	}
	return bus, w
}
