//go:build unix

// Package outbox_test runs the service of this folder and a node with a database and a broker of their own, and kills the
// node and the broker.
package outbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/internal/kafkatest"
	"github.com/taskengine/taskengine/internal/logtest"
	"github.com/taskengine/taskengine/internal/pgtest"
)

var server *pgtest.Server // set once, before the tests

func TestMain(m *testing.M) {
	os.Exit(pgtest.Run(m, func(s *pgtest.Server) { server = s }))
}

// build makes a program and returns its path.
func build(t *testing.T, folder string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(folder))
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, folder).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", folder, err, out)
	}
	return path
}

// world has the broker, the program and the environment of the example.
type world struct {
	program string
	broker  *kafkatest.Cluster
	env     []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	broker := kafkatest.New(t, 1)
	w := &world{program: build(t, "../../cmd/taskengine"), broker: broker}
	w.env = []string{"DATABASE=" + server.Database(t), "BROKER=" + broker.Brokers()[0], "PATH=" + os.Getenv("PATH")}
	if out, err := w.command(t, w.program, "migrate", "apply", "-c", "taskengine.yaml").CombinedOutput(); err != nil {
		t.Fatalf("migrate: %v: %s", err, out)
	}
	admin := kadm.NewClient(w.client(t))
	kafkatest.CreateTopic(t, admin, 3, 1, nil, "orders")
	return w
}

func (w *world) command(t *testing.T, path string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), path, args...)
	c.Env = w.env
	return c
}

func (w *world) client(t *testing.T, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kafkatest.Client(w.broker.Brokers(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// node starts a node, which ends with the test.
func (w *world) node(t *testing.T) *exec.Cmd {
	t.Helper()
	said := new(logtest.Buffer)
	c := w.command(t, w.program, "run", "-c", "taskengine.yaml", "--set", "api.listen=none", "--set", "admin.listen=none", "--set", "task_log.max_size=0B")
	c.Stdout, c.Stderr = said, said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if t.Failed() {
			t.Logf("the node said:\n%s", said)
		}
	})
	return c
}

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begin := time.Now(); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begin) > 2*time.Minute {
			t.Fatalf("not within two minutes: %s", what)
		}
	}
}

// announced is the value of a record.
type announced struct {
	Order    int
	Customer string
}

// read returns the orders that were announced, by customer, in the order of their records. A record that is there twice
// counts once.
func (w *world) read(t *testing.T, orders int) map[string][]int {
	t.Helper()
	reader := w.client(t, kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	all, seen := make(map[string][]int), make(map[int]bool)
	for len(seen) < orders {
		fetched := reader.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			t.Fatalf("after %d orders: %v", len(seen), err)
		}
		for _, r := range fetched.Records() {
			var a announced
			if err := json.Unmarshal(r.Value, &a); err != nil || string(r.Key) != a.Customer {
				t.Fatalf("the record of key %q is %q: %v", r.Key, r.Value, err)
			}
			if !seen[a.Order] {
				seen[a.Order] = true
				all[a.Customer] = append(all[a.Customer], a.Order)
			}
		}
	}
	return all
}

func TestEachOrderIsAnnouncedThoughNodeAndBrokerAreKilled(t *testing.T) {
	w := newWorld(t)
	victim := w.node(t)
	shopping := w.command(t, build(t, "./shop"), "-orders", "1000")
	var said bytes.Buffer
	shopping.Stdout, shopping.Stderr = &said, &said
	if err := shopping.Start(); err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(t.Context(), strings.TrimPrefix(w.env[0], "DATABASE="))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	count := func(sql string) (n int) {
		t.Helper()
		if err := c.QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	await(t, "a hundred announcements", func() bool { return count("select count(*) from taskengine.tasks where state = 'done'") >= 100 })
	if err := w.broker.Kill(0); err != nil {
		t.Fatal(err)
	}
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	w.node(t)
	if err := shopping.Wait(); err != nil || !strings.Contains(said.String(), "900 orders were placed and 100 declined") {
		t.Fatalf("shop: %v: %s", err, &said)
	}
	if err := w.broker.Restart(0); err != nil {
		t.Fatal(err)
	}
	await(t, "all tasks have ended", func() bool {
		return count("select count(*) from taskengine.tasks where state in ('waiting', 'submitted', 'processing')") == 0
	})
	if orders, done := count("select count(*) from shop.orders"), count("select count(*) from taskengine.tasks where state = 'done'"); orders != 900 || done != 900 {
		t.Errorf("%d orders and %d tasks that are done", orders, done)
	}
	for customer, orders := range w.read(t, 900) {
		if !slices.IsSorted(orders) {
			t.Errorf("the orders of %s were announced in the order %v", customer, orders)
		}
	}
}
