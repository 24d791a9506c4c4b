//go:build unix

package guid_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/coord/guid"
	kafkacoord "github.com/taskengine/taskengine/coord/kafka"
	"github.com/taskengine/taskengine/internal/wiretest"
	"github.com/taskengine/taskengine/kafka"
)

var topics atomic.Int64

// byTopic returns a function that connects nodes to a topic, each by a network of its own, and the bus of each.
func byTopic(t *testing.T, topic string, o guid.Options) func() (*remote, *kafkacoord.Bus) {
	t.Helper()
	return func() (*remote, *kafkacoord.Bus) {
		w := wiretest.New(t, "tcp://"+brokers.Brokers()[0])
		by := strings.TrimPrefix(w.URL(), "tcp://")
		log := slog.New(slog.NewTextHandler(t.Output(), nil))
		bus, err := kafkacoord.New(kafkacoord.Options{
			Connection: kafka.Connection{Name: "main", Brokers: []string{by}, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, by)
			}},
			Topic: topic, Create: true, Partitions: 1, Check: o.Lease / 20, Log: log,
		})
		if err != nil {
			t.Fatal(err)
		}
		n := &remote{wire: w, lease: o.Lease}
		t.Cleanup(func() {
			n.heals.Wait()
			if err := bus.Close(); err != nil {
				t.Error(err)
			}
		})
		o.Log = log
		if n.Elector, err = guid.New(bus, o); err != nil {
			t.Fatal(err)
		}
		return n, bus
	}
}

func onKafka(o guid.Options, lease time.Duration) coordtest.Backend[coord.Elector] {
	o.Lease = lease
	return coordtest.Backend[coord.Elector]{
		New: func(t *testing.T) func() coord.Elector {
			connect := byTopic(t, fmt.Sprint("topic-", topics.Add(1)), o)
			return func() coord.Elector {
				n, bus := connect()
				for deadline := time.Now().Add(patience); bus.BusStatus().Down != nil; time.Sleep(time.Millisecond) { // until then it is isolated
					if time.Now().After(deadline) {
						t.Fatalf("waited %v in vain for a node that is connected", patience)
					}
				}
				return n
			}
		},
		Sever:    func(_ *testing.T, n coord.Elector) { n.(*remote).sever() },
		Slower:   func() coordtest.Backend[coord.Elector] { return onKafka(o, 2*lease) },
		Patience: patience,
		Settle:   20 * time.Millisecond,
		Overlap:  patience / 2, // messages may be late on a busy machine; that two lead must end
		Parallel: true,
	}
}

func TestElectionsByATopicOfKafka(t *testing.T) {
	t.Run("of nodes that must hear themselves", func(t *testing.T) {
		t.Parallel()
		coordtest.RunElector(t, onKafka(guid.Options{MustHear: true}, testLease))
	})
	t.Run("by default, without severed nodes", func(t *testing.T) {
		t.Parallel()
		coordtest.RunTurns(t, onKafka(guid.Options{}, testLease))
	})
}

// A duty must not stop because no broker can be used any more.
func TestAnIsolatedNodeLeadsThoughItsBrokerIsGone(t *testing.T) {
	n, _ := byTopic(t, "isolated", guid.Options{Lease: testLease})()
	n.wire.Cut()
	done := errors.New("done")
	if err := n.Lead(t.Context(), "role", func(context.Context) error { return done }); !errors.Is(err, done) {
		t.Errorf("Lead returned %v, want %v", err, done)
	}
}
