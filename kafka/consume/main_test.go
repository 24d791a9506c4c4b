package consume_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/kafkatest"
	"github.com/taskengine/taskengine/kafka"
	"github.com/taskengine/taskengine/kafka/consume"
	"github.com/taskengine/taskengine/kafka/source"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// brokers is the cluster of all tests of this package. Tests that end brokers start one of their own.
var brokers *kafkatest.Cluster

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

// run starts brokers that compact topics soon.
func run(m *testing.M) int {
	_ = flag.Set("test.parallel", "8") // most of it is waiting for brokers
	c, err := kafkatest.Start(1, kafkatest.Lasting(), kafkatest.WithLines("log.cleaner.backoff.ms=200", "log.initial.task.delay.ms=100"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	brokers = c
	code := m.Run()
	if err := c.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// cluster is a cluster of brokers.
type cluster interface{ Brokers() []string }

// fakeBrokers are a cluster in this process.
type fakeBrokers struct{ *kfake.Cluster }

// Brokers returns the addresses of the brokers.
func (f fakeBrokers) Brokers() []string { return f.ListenAddrs() }

// onEach runs a test on real brokers, and on kfake: behaviour of both may be tested on one of them, which answers
// as the test wants.
func onEach(t *testing.T, test func(t *testing.T, brokers cluster)) {
	t.Helper()
	t.Parallel()
	t.Run("kafka", func(t *testing.T) {
		t.Parallel()
		test(t, brokers)
	})
	t.Run("kfake", func(t *testing.T) {
		t.Parallel()
		c, _ := newFake(t)
		test(t, c)
	})
}

// newFake returns brokers in this process, with topics of one partition.
func newFake(t *testing.T, topics ...string) (fakeBrokers, *kfake.Cluster) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topics...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return fakeBrokers{c}, c
}

var topics atomic.Int64

// newTopic creates a topic that no other test uses.
func newTopic(t *testing.T, c cluster, partitions int32, settings map[string]*string) string {
	t.Helper()
	name := fmt.Sprint("topic-", topics.Add(1))
	create(t, c, name, partitions, settings)
	return name
}

func create(t *testing.T, c cluster, name string, partitions int32, settings map[string]*string) {
	t.Helper()
	kafkatest.CreateTopic(t, admin(t, c), partitions, 1, settings, name)
}

func admin(t *testing.T, c cluster) *kadm.Client {
	t.Helper()
	client, err := kafkatest.Client(c.Brokers())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return kadm.NewClient(client)
}

// produce writes records in their order. The caller names topic and, with [kgo.ManualPartitioner], partition.
func produce(t *testing.T, c cluster, records ...*kgo.Record) {
	t.Helper()
	client, err := kafkatest.Client(c.Brokers(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// numbered returns n records of a topic with the values first, first+1 and so on, in its partitions in turn.
func numbered(topic string, partitions, first, n int) (all []*kgo.Record) {
	for i := first; i < first+n; i++ {
		all = append(all, &kgo.Record{Topic: topic, Partition: int32(i % partitions), Key: fmt.Append(nil, i%7), Value: fmt.Append(nil, i)})
	}
	return all
}

func definition(name string, topics ...string) source.Definition {
	return source.Definition{Name: name, Topics: topics, Group: "group-" + name, Type: "order", OrderingKey: "key"}
}

// node is an engine with sources, and the tasks that it has run.
type node struct {
	*engine.Engine
	t       *testing.T
	cluster cluster
	store   storage.Store
	reads   storage.Store // of the sources; nil for store
	sources *consume.Sources
	types   map[string]policy.Type // besides the sources; order if there is none
	log     *slog.Logger           // nil is not to log
	connect kafka.Connection       // of the sources; without brokers it is that to the cluster

	pace consume.Pace // see SetPace

	mu   sync.Mutex
	runs map[string]int // guarded by mu: by payload
	last map[string]*task.Task
	ids  map[task.ID]bool // guarded by mu
	hold chan struct{}    // tasks wait for it, unless it is nil

	holds string // the type of the tasks that wait for hold; "" for all
}

func newStore() storage.Store { return memory.New() }

// newNode returns a node with a store in memory, which runs until the end of the test.
func newNode(t *testing.T, c cluster, all ...source.Definition) *node {
	t.Helper()
	n := &node{t: t, cluster: c, store: newStore()}
	n.open(all...)
	t.Cleanup(n.close)
	return n
}

// soon is the interval of work that sources repeat after some seconds elsewhere.
const soon = 300 * time.Millisecond

// retryingAfter returns the policy of a source with another pause after each error.
func retryingAfter(of policy.Type, pause time.Duration) policy.Type {
	of.Retry.Backoff = policy.Backoff{Kind: policy.Exponential, Initial: pause, Factor: 1, Max: 2 * pause}
	return of
}

func (n *node) open(all ...source.Definition) {
	n.t.Helper()
	config := consume.Config{Store: n.store, Log: slog.New(slog.DiscardHandler)}
	if n.log != nil {
		config.Log = n.log
	}
	if n.connect.Brokers == nil {
		n.connect = kafka.Connection{Name: "main", Brokers: n.cluster.Brokers()}
	}
	if n.reads != nil {
		config.Store = n.reads
	}
	for _, d := range all {
		config.Sources = append(config.Sources, consume.Source{Definition: d, Connection: n.connect})
	}
	var err error
	if n.sources, err = consume.New(config); err != nil {
		n.t.Fatal(err)
	}
	to := n.pace
	to.Save, to.RetryLook = cmp.Or(to.Save, soon), soon
	n.sources.SetPace(to)
	if n.runs == nil {
		n.runs, n.last, n.ids = make(map[string]int), make(map[string]*task.Task), make(map[task.ID]bool)
	}
	if n.types == nil {
		n.types = map[string]policy.Type{"order": policy.DefaultType()}
	}
	handlers, types := n.sources.Handlers(), n.sources.Policies()
	for _, d := range all {
		types[consume.TypeOf(d.Name)] = retryingAfter(types[consume.TypeOf(d.Name)], soon)
	}
	maps.Copy(types, n.types)
	for name := range n.types {
		if handlers[name] == nil {
			handlers[name] = task.HandlerFunc(n.handle)
		}
	}
	n.Engine, err = engine.Open(n.t.Context(), engine.Config{Name: "n1", Store: n.store, Policies: policy.Set{Slots: 8, Types: types}, Handlers: handlers, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		n.t.Fatal(err)
	}
	if err := n.sources.Apply(n.t.Context(), n.Engine); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	n.sources.Stop()
	if err := n.Close(ctx); err != nil {
		n.t.Error(err)
	}
	_ = n.sources.Close(ctx)
}

func (n *node) handle(ctx context.Context, t *task.Task) ([]byte, error) {
	if n.hold != nil && (n.holds == "" || n.holds == t.Type) {
		select {
		case <-n.hold:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.runs[string(t.Payload)]++
	n.ids[t.ID] = true
	n.last[string(t.Payload)] = t
	return nil, nil
}

// ran returns how many tasks have run, and how often the one that ran most often.
func (n *node) ran() (tasks, most int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, times := range n.runs {
		most = max(most, times)
	}
	return len(n.runs), most
}

// inserted returns how many different tasks have run, whatever their payloads are.
func (n *node) inserted() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.ids)
}

// status returns a source.
func (n *node) status(name string) *consume.Status {
	n.t.Helper()
	s, err := n.sources.Get(n.t.Context(), n.Engine, name)
	if err != nil {
		n.t.Fatal(err)
	}
	return s
}

func (n *node) await(what string, is func() bool) {
	n.t.Helper()
	before, _ := n.ran()
	for end := time.Now().Add(3 * time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		tasks, most := n.ran()
		if tasks != before {
			before, end = tasks, time.Now().Add(3*time.Minute)
		}
		if time.Now().After(end) {
			for _, name := range n.sources.Names() {
				what += fmt.Sprintf("\n%+v", *n.status(name))
			}
			n.t.Fatalf("%s: not within three minutes since a task ran for the first time; %d tasks have run, one of them %d times", what, tasks, most)
		}
	}
}
