//go:build !race

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/internal/kafkatest"
)

// sourceConfig makes a node that copies a topic to another one, by a task for each record.
const sourceConfig = `
node: {slots: 64}
storage: %s
kafka: {main: {brokers: %q}}
sources:
  in: {kafka: {topics: [%s]}, type: copy, ordering_key: key}
handlers:
  publish: {kafka: {topic: %s, key: ordering_key, timeout: 5s, headers: {partition: headers.kafka-partition, offset: headers.kafka-offset}}}
types:
  copy: {handler: publish, max_crashes: 0, retry: {max: 1000, backoff: none}}
`

const sourcePartitions = 4

// source is a topic, which nodes copy to another one.
type source struct {
	brokers   *kafkatest.Cluster
	in, tasks string
}

// newSource creates both topics. Sources of the same brokers have different names.
func newSource(t *testing.T, c *kafkatest.Cluster, name string) *source {
	t.Helper()
	s := &source{c, name + "-in", name + "-tasks"}
	client, err := kafkatest.Client(c.Brokers())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	kafkatest.CreateTopic(t, kadm.NewClient(client), sourcePartitions, 1, nil, s.in)
	kafkatest.CreateTopic(t, kadm.NewClient(client), 1, 1, nil, s.tasks)
	return s
}

// configure writes the configuration of a node, and returns its path.
func (s *source) configure(t *testing.T, storage string) string {
	t.Helper()
	return write(t, "taskengine.yaml", fmt.Sprintf(sourceConfig, storage, s.brokers.Brokers()[0], s.in, s.tasks))
}

// fill writes records until ctx ends, and then waits until the brokers have confirmed them. There is always one on the way;
// more at a time would only cost processor time, the more the slower the machine is.
func (s *source) fill(ctx context.Context) error {
	client, err := kafkatest.Client(s.brokers.Brokers(), kgo.DefaultProduceTopic(s.in), kgo.UnknownTopicRetries(-1)) // a broker that has just started may not know it yet
	if err != nil {
		return err
	}
	defer client.Close()
	var failed error
	var once sync.Once
	for i := 0; ctx.Err() == nil; i++ {
		client.Produce(context.Background(), &kgo.Record{Key: strconv.AppendInt(nil, int64(i%50), 10), Value: strconv.AppendInt(nil, int64(i), 10)}, func(_ *kgo.Record, err error) {
			if err != nil {
				once.Do(func() { failed = err })
			}
		})
		time.Sleep(4 * time.Millisecond)
	}
	flushed, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := client.Flush(flushed); err != nil {
		return err
	}
	return failed
}

// copied are the tasks that records have become, as the topic shows to which they were copied.
type copied struct {
	tasks map[string]map[string]bool // by partition and offset of a record, the ids of its tasks
	last  map[string]int64           // by key, the value that was written last for the first time
}

// read reads that topic until each record of the source has a task, and checks the order of the keys.
func (c *copied) read(t *testing.T, from *source) {
	t.Helper()
	client, err := kafkatest.Client(from.brokers.Brokers(), kgo.ConsumeTopics(from.tasks), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*limit)
	defer cancel()
	want := from.brokers.Ends(t, from.in, false)
	c.tasks, c.last = make(map[string]map[string]bool), make(map[string]int64)
	for int64(len(c.tasks)) < want {
		fetched := client.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("of %d records, %d have a task", want, len(c.tasks))
		}
		for _, r := range fetched.Records() {
			c.note(t, r)
		}
	}
	t.Logf("%d records have a task each", want)
}

func (c *copied) note(t *testing.T, r *kgo.Record) {
	headers := make(map[string]string)
	for _, h := range r.Headers {
		headers[h.Key] = string(h.Value)
	}
	at := headers["partition"] + "@" + headers["offset"]
	if c.tasks[at] == nil {
		c.tasks[at] = make(map[string]bool)
		value, err := strconv.ParseInt(string(r.Value), 10, 64)
		if last, ok := c.last[string(r.Key)]; err != nil || ok && value < last {
			t.Errorf("the record %s of key %s has the value %s, behind %d", at, r.Key, r.Value, last)
		}
		c.last[string(r.Key)] = value
	}
	if c.tasks[at][headers["taskengine-task-id"]] = true; len(c.tasks[at]) > 1 {
		t.Errorf("the record %s has become the tasks %v", at, c.tasks[at])
	}
}

// copier are nodes that copy a source.
type copier struct {
	*source
	nodes  []*running
	files  []string   // their configurations
	filled chan error // when nothing more is written
}

func newCopier(t *testing.T, c *kafkatest.Cluster, driver string) *copier {
	t.Helper()
	k, nodes, storage := &copier{source: newSource(t, c, driver), filled: make(chan error, 1)}, 1, ""
	switch driver {
	case "postgres":
		nodes, storage = 2, storageOf(t, driver)
	case "divided":
		nodes, storage = 2, dividedFor(t, k.source, databases(t).Database(t), databases(t).Database(t))
	default:
		storage = storageOf(t, driver)
	}
	for i := range nodes {
		k.files = append(k.files, k.configure(t, storage))
		k.nodes = append(k.nodes, start(t, nil, "run", "-c", k.files[i]))
	}
	return k
}

// killOne kills a node, and starts it again.
func (k *copier) killOne(t *testing.T, i int) {
	t.Helper()
	if err := k.nodes[i].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-k.nodes[i].ended
	k.nodes[i] = start(t, nil, "run", "-c", k.files[i])
}

// All stores have one broker, as it takes more processor time than a node.
func TestEachRecordBecomesOneTaskThoughNodesAndBrokersAreKilled(t *testing.T) {
	t.Parallel()
	c := kafkatest.New(t, 1)
	drivers := []string{"pebble", "bolt", "postgres", "divided"}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	pause := func(least, most int) { time.Sleep(time.Duration(least+rng.IntN(most-least)) * time.Millisecond) } // any moment is the right one
	filling, full := context.WithCancel(t.Context())
	var copiers []*copier
	for _, driver := range drivers {
		k := newCopier(t, c, driver)
		go func() { k.filled <- k.fill(filling) }()
		copiers = append(copiers, k)
	}
	for round := range 5 {
		pause(500, 2000)
		if round%2 == 1 {
			if err := c.Kill(0); err != nil {
				t.Fatal(err)
			}
			if err := c.Restart(0); err != nil {
				t.Fatal(err)
			}
		}
		for _, i := range rng.Perm(len(copiers)) {
			pause(0, 200)
			copiers[i].killOne(t, rng.IntN(len(copiers[i].nodes)))
		}
	}
	full()
	for i, driver := range drivers {
		if err := <-copiers[i].filled; err != nil {
			t.Fatal(err)
		}
		t.Run(driver, func(t *testing.T) { new(copied).read(t, copiers[i].source) })
	}
}

// dividedFor returns the storage of tasks in two databases, which are divided.
func dividedFor(t *testing.T, s *source, main, other string) string {
	t.Helper()
	storage := onSeveral(main, map[string]string{"other": other})
	file := s.configure(t, storage)
	succeeds(t, "migrate", "apply", "-c", file)
	succeeds(t, "shards", "divide", "-c", file)
	return storage
}

// A seek reads records again: each becomes one more task, also in the other database.
func TestASourceOnSeveralDatabasesReadsRecordsAgain(t *testing.T) {
	t.Parallel()
	s := newSource(t, kafkatest.New(t, 1), "divided")
	urls := []string{databases(t).Database(t), databases(t).Database(t)}
	file := s.configure(t, dividedFor(t, s, urls[0], urls[1]))
	n := start(t, nil, "run", "-c", file)
	filling, full := context.WithTimeout(t.Context(), 2*time.Second)
	defer full()
	if err := s.fill(filling); err != nil {
		t.Fatal(err)
	}
	records := s.brokers.Ends(t, s.in, false)
	done := func(times int64) {
		t.Helper()
		var all [2]string
		for end := time.Now().Add(2 * limit); ; time.Sleep(askEvery) {
			var sum int64
			for i, url := range urls {
				all[i] = query(t, url, "select count(*) from taskengine.tasks where type = 'copy' and state = 'done'")
				one, err := strconv.ParseInt(all[i], 10, 64)
				if err != nil || one == 0 && time.Now().After(end) {
					t.Fatalf("a database has %q tasks, %v", all[i], err)
				}
				sum += one
			}
			switch {
			case sum == times*records:
				return
			case sum > times*records || time.Now().After(end):
				t.Fatalf("%d records have become %v tasks", records, all)
			}
		}
	}
	done(1)
	n.ok(t, "source", "seek", "in", "--begin")
	done(2)
}
