//go:build !race

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/internal/kafkatest"
)

// kafkaConfig makes a node that sends every task to one topic.
const kafkaConfig = `
node: {slots: 64}
storage: %s
kafka: {main: {brokers: %q}}
handlers:
  publish: {kafka: {topic: tasks, key: ordering_key, timeout: 5s, transactional: %t}}
types:
  least: {handler: publish, max_crashes: 0, retry: {max: 1000, backoff: none}, ordering: {inherit: true}}
  later: {handler: publish, max_crashes: 0, retry: {max: 1000, backoff: none}}
  most: {handler: publish, delivery: at_most_once}
`

// startKafka starts a broker with the topic tasks, which has one partition.
func startKafka(t *testing.T) *kafkatest.Cluster {
	t.Helper()
	c := kafkatest.New(t, 1)
	client, err := kafkatest.Client(c.Brokers())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	kafkatest.CreateTopic(t, kadm.NewClient(client), 1, 1, nil, "tasks")
	return c
}

// journalOf writes the type and the id of each record of the topic tasks, as programs see them that read committed
// records, and returns the path of the file.
func journalOf(t *testing.T, c *kafkatest.Cluster) string {
	t.Helper()
	client, err := kafkatest.Client(c.Brokers(), kgo.ConsumeTopics("tasks"), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	end := c.Ends(t, "tasks", true)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var lines strings.Builder
	for at := int64(0); at < end; {
		fetched := client.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			t.Fatal(err)
		}
		for _, r := range fetched.Records() {
			at = r.Offset + 1
			headers := make(map[string]string)
			for _, h := range r.Headers {
				headers[h.Key] = string(h.Value)
			}
			if !r.Attrs.IsControl() {
				fmt.Fprintln(&lines, headers["taskengine-type"], headers["taskengine-task-id"])
			}
		}
	}
	return write(t, "journal", lines.String())
}

func TestANodeAndABrokerThatAreKilledLoseNoTaskOnTheWayToATopic(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pebble", "postgres"} {
		transactional := driver == "postgres"
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			c := startKafka(t)
			file := filepath.Join(t.TempDir(), "taskengine.yaml")
			if err := os.WriteFile(file, fmt.Appendf(nil, kafkaConfig, storageOf(t, driver), c.Brokers()[0], transactional), 0o600); err != nil {
				t.Fatal(err)
			}
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 1))
			all := newAccepted()
			const rounds = 4
			for round := range rounds {
				n := start(t, nil, "run", "-c", file)
				load := submitUntilKilled(n, rng.Uint64(), 25*time.Millisecond)
				load.awaitAccepted(t, fewest*kills/rounds)
				if round%2 == 1 {
					if err := c.Kill(0); err != nil {
						t.Fatal(err)
					}
					if err := c.Restart(0); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond) // any moment is the right one
				if err := n.cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				<-n.ended
				load.wait()
				all.add(load.acknowledged)
			}
			n := start(t, nil, "run", "-c", file)
			for _, typ := range []string{"least", "later", "most"} {
				if got := cli(t, nil, "", "--address", n.api, "task", "wait", "--type", typ, "--timeout", "2m"); got.code != 0 {
					t.Fatalf("tasks of type %s do not end: %s", typ, got.stderr)
				}
			}
			journal := journalOf(t, c)
			verifyKilled(t, n, all.types, readJournal(t, journal))
			verifyTurns(t, all.keys, journal)
		})
	}
}

func TestAHandlerWithoutABrokerIsDown(t *testing.T) {
	t.Parallel()
	c := startKafka(t)
	file := write(t, "taskengine.yaml", fmt.Sprintf(kafkaConfig, "{driver: memory}", c.Brokers()[0], false))
	if got := cli(t, nil, "", "config", "check", "-c", file); got.code != 0 {
		t.Errorf("config check with a broker: %s", got.stderr)
	}
	n := start(t, nil, "run", "-c", file)
	n.ok(t, "task", "add", "least", "--data", "1", "--wait", "--timeout", "1m")
	if err := c.Kill(0); err != nil {
		t.Fatal(err)
	}
	down := "kafka.main: no broker of it answers; look whether " + c.Brokers()[0] + " can be reached from here"
	if got := cli(t, nil, "", "config", "check", "-c", file); got.code == 0 || !strings.Contains(got.stderr, down) {
		t.Errorf("config check without a broker: %d, %s", got.code, got.stderr)
	}
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if _, body := n.readiness(t); strings.Contains(body, down) {
			break
		}
		if time.Since(begin) > limit {
			_, body := n.readiness(t)
			t.Fatalf("the node does not say that the handler is down:\n%s", body)
		}
	}
	id := n.ok(t, "task", "add", "least", "--data", "2")
	if why := n.ok(t, "task", "why", id); !strings.Contains(why, down) {
		t.Errorf("the task waits because: %s", why)
	}
	if err := c.Restart(0); err != nil {
		t.Fatal(err)
	}
	n.ok(t, "task", "wait", id, "--timeout", "1m")
}
