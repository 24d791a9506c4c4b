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

// sourceConfig makes a node that copied the topic in to the topic tasks, by a task for each record.
const sourceConfig = `
node: {slots: 64}
storage: %s
kafka: {main: {brokers: %q}}
sources:
  in: {kafka: {topics: [in]}, type: copy, ordering_key: key}
handlers:
  publish: {kafka: {topic: tasks, key: ordering_key, timeout: 5s, headers: {partition: headers.kafka-partition, offset: headers.kafka-offset}}}
types:
  copy: {handler: publish, max_crashes: 0, retry: {max: 1000, backoff: none}}
`

const sourcePartitions = 4

// startSource starts a broker with the topics in and tasks.
func startSource(t *testing.T) *kafkatest.Cluster {
	t.Helper()
	c := startKafka(t)
	client, err := kafkatest.Client(c.Brokers())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	kafkatest.CreateTopic(t, kadm.NewClient(client), sourcePartitions, 1, nil, "in")
	return c
}

// fill writes records to the topic in until ctx ends, and then waits until the brokers have confirmed them. There is always
// one on the way; more at a time would only cost processor time, the more the slower the machine is.
func fill(ctx context.Context, c *kafkatest.Cluster) error {
	client, err := kafkatest.Client(c.Brokers(), kgo.DefaultProduceTopic("in"))
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

// copied are the tasks that records have become, as the topic tasks shows.
type copied struct {
	tasks map[string]map[string]bool // by partition and offset of a record, the ids of its tasks
	last  map[string]int64           // by key, the value that was written last for the first time
}

// read reads the topic tasks until each record of the topic in has a task, and checks the order of the keys.
func (c *copied) read(t *testing.T, brokers *kafkatest.Cluster) {
	t.Helper()
	client, err := kafkatest.Client(brokers.Brokers(), kgo.ConsumeTopics("tasks"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*limit)
	defer cancel()
	want := brokers.Ends(t, "in", false)
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

func TestEachRecordBecomesOneTaskThoughNodesAndBrokersAreKilled(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pebble", "bolt", "postgres", "divided"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			c := startSource(t)
			nodes, storage := 1, ""
			switch driver {
			case "postgres":
				nodes, storage = 2, storageOf(t, driver)
			case "divided":
				nodes, storage = 2, dividedFor(t, c, databases(t).Database(t), databases(t).Database(t))
			default:
				storage = storageOf(t, driver)
			}
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 1))
			filling, full := context.WithCancel(t.Context())
			filled := make(chan error, 1)
			go func() { filled <- fill(filling, c) }()
			all, files := make([]*running, nodes), make([]string, nodes)
			for i := range all {
				files[i] = write(t, "taskengine.yaml", fmt.Sprintf(sourceConfig, storage, c.Brokers()[0]))
				all[i] = start(t, nil, "run", "-c", files[i])
			}
			for round := range 5 {
				time.Sleep(time.Duration(500+rng.IntN(1500)) * time.Millisecond) // any moment is the right one
				if round%2 == 1 {
					if err := c.Kill(0); err != nil {
						t.Fatal(err)
					}
					if err := c.Restart(0); err != nil {
						t.Fatal(err)
					}
				}
				i := rng.IntN(nodes)
				if err := all[i].cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				<-all[i].ended
				all[i] = start(t, nil, "run", "-c", files[i])
			}
			full()
			if err := <-filled; err != nil {
				t.Fatal(err)
			}
			new(copied).read(t, c)
		})
	}
}

// dividedFor returns the storage of tasks in two databases, which are divided.
func dividedFor(t *testing.T, c *kafkatest.Cluster, main, other string) string {
	t.Helper()
	storage := onSeveral(main, map[string]string{"other": other})
	file := write(t, "taskengine.yaml", fmt.Sprintf(sourceConfig, storage, c.Brokers()[0]))
	succeeds(t, "migrate", "apply", "-c", file)
	succeeds(t, "shards", "divide", "-c", file)
	return storage
}

// A seek reads records again: each becomes one more task, also in the other database.
func TestASourceOnSeveralDatabasesReadsRecordsAgain(t *testing.T) {
	t.Parallel()
	c := startSource(t)
	urls := []string{databases(t).Database(t), databases(t).Database(t)}
	file := write(t, "taskengine.yaml", fmt.Sprintf(sourceConfig, dividedFor(t, c, urls[0], urls[1]), c.Brokers()[0]))
	n := start(t, nil, "run", "-c", file)
	filling, full := context.WithTimeout(t.Context(), 2*time.Second)
	defer full()
	if err := fill(filling, c); err != nil {
		t.Fatal(err)
	}
	records := c.Ends(t, "in", false)
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
