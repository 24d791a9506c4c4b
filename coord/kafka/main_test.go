//go:build unix

package kafka_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/kafka"
	"github.com/taskengine/taskengine/internal/kafkatest"
	"github.com/taskengine/taskengine/internal/wiretest"
	connection "github.com/taskengine/taskengine/kafka"
	"github.com/taskengine/taskengine/task"
)

// brokers is the cluster of tests that do not end it. It is set once, before the tests.
var brokers *kafkatest.Cluster

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "6") // most of it is waiting for a broker
	code := kafkatest.Run(m, 1, func(c *kafkatest.Cluster) { brokers = c })
	if code == 0 {
		if err := goleak.Find(); err != nil {
			slog.Error("goroutines are left", "error", err)
			code = 1
		}
	}
	os.Exit(code)
}

// patience is how long a test waits for an event that must happen.
const patience = 4 * time.Minute

var topics atomic.Int64

func newName() string { return fmt.Sprint("hints-", topics.Add(1)) }

// node is the bus of one process. Its network can be cut.
type node struct {
	*kafka.Bus
	wire *wiretest.Wire
	logs *logged
}

// logged is the log of a node.
type logged struct {
	t    *testing.T
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (l *logged) Write(b []byte) (int, error) {
	_, _ = l.t.Output().Write(b) // it does not fail
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

// connect connects a node to a topic of a cluster of one broker, which is created if need be, unless change says otherwise.
func connect(t *testing.T, c *kafkatest.Cluster, topic string, change func(*kafka.Options)) *node {
	t.Helper()
	w := wiretest.New(t, "tcp://"+c.Brokers()[0])
	n := &node{wire: w, logs: &logged{t: t}}
	by := strings.TrimPrefix(w.URL(), "tcp://")
	o := kafka.Options{
		Connection: connection.Connection{Name: "main", Brokers: []string{by}, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, by)
		}},
		Topic: topic, Cluster: "cluster", Create: true, Partitions: 4, Check: 100 * time.Millisecond, Log: slog.New(slog.NewTextHandler(n.logs, nil)),
	}
	if change != nil {
		change(&o)
	}
	var err error
	if n.Bus, err = kafka.New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// isUp waits until a node is connected.
func (n *node) isUp(t *testing.T) *node {
	t.Helper()
	eventually(t, "a bus that is up", func() bool { return n.BusStatus().Down == nil })
	return n
}

// isDown waits until a node says that it is not connected, with a text.
func (n *node) isDown(t *testing.T, text string) {
	t.Helper()
	eventually(t, "a bus that is down, with: "+text, func() bool {
		down := n.BusStatus().Down
		return down != nil && strings.Contains(down.Error(), text)
	})
}

// sever cuts the network for some time, and does not wait for that.
func (n *node) sever() {
	n.wire.Cut()
	n.wire.Heal()
}

// hearing is one call of Subscribe.
type hearing struct {
	mu  sync.Mutex
	got map[task.Hint]int // guarded by mu: how often
}

// hear subscribes until the test ends.
func (n *node) hear(t *testing.T) *hearing {
	h := &hearing{got: map[task.Hint]int{}}
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		_ = n.Subscribe(ctx, func(hs []task.Hint) {
			h.mu.Lock()
			defer h.mu.Unlock()
			for _, one := range hs {
				h.got[one]++
			}
		})
	})
	t.Cleanup(func() { cancel(); done.Wait() })
	return h
}

func (h *hearing) count(hint task.Hint) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.got[hint]
}

// reaches publishes a hint from a node until it has arrived everywhere, and returns how often.
func (n *node) reaches(t *testing.T, hint task.Hint, all ...*hearing) (published int) {
	t.Helper()
	eventually(t, "a hint that is published many times", func() bool {
		if err := n.Publish(t.Context(), hint); err != nil {
			t.Fatal(err)
		}
		published++
		for _, h := range all {
			if h.count(hint) == 0 {
				return false
			}
		}
		return true
	})
	return published
}

func hint(number int, shard uint16) task.Hint {
	return task.Hint{State: task.Submitted, Trigger: task.Trigger{
		Ref: task.Ref{ID: task.ID{1, byte(number >> 8), byte(number)}, Version: 1}, Queue: task.Queue{Type: "mail"}, Shard: shard,
	}}
}

// admin returns a client that is none of a node.
func admin(t *testing.T, c *kafkatest.Cluster) (*kgo.Client, *kadm.Client) {
	t.Helper()
	client, err := kafkatest.Client(c.Brokers(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client, kadm.NewClient(client)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain for %s", patience, what)
		}
	}
}

var _ coord.Bus = (*node)(nil)
