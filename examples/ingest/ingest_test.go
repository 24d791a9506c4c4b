//go:build unix

// Package ingest_test runs the program of this folder and a node with a broker of their own, and kills the node and the
// broker.
package ingest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/internal/kafkatest"
	"github.com/taskengine/taskengine/internal/logtest"
)

const (
	partitions = 3
	meters     = 11
)

// build makes a program in a folder and returns its path.
func build(t *testing.T, to, from string) string {
	t.Helper()
	path := filepath.Join(to, filepath.Base(from))
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, from).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", from, err, out)
	}
	return path
}

// world has the broker, the program and the environment of the example.
type world struct {
	folder, program string
	broker          *kafkatest.Cluster
	env             []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	folder := t.TempDir()
	w := &world{folder: folder, program: build(t, folder, "../../cmd/taskengine"), broker: kafkatest.New(t, 1)}
	build(t, folder, "./ledger")
	config, err := os.ReadFile("taskengine.yaml")
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "taskengine.yaml"), config, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.env = []string{"BROKER=" + w.broker.Brokers()[0], "LEDGER=readings.txt", "PATH=" + os.Getenv("PATH")}
	client, err := kafkatest.Client(w.broker.Brokers())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	kafkatest.CreateTopic(t, kadm.NewClient(client), partitions, 1, nil, "readings")
	return w
}

func (w *world) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), w.program, args...)
	c.Env, c.Dir = w.env, w.folder
	return c
}

// node starts a node, which ends with the test.
func (w *world) node(t *testing.T) *exec.Cmd {
	t.Helper()
	said := new(logtest.Buffer)
	c := w.command(t, "run", "--set", "api.listen=none", "--set", "api.socket=api", "--set", "admin.listen=none", "--set", "task_log.max_size=0B")
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

// send writes n readings, the first of which has a number, and returns when the broker has confirmed them.
func (w *world) send(t *testing.T, first, n int) {
	t.Helper()
	client, err := kafkatest.Client(w.broker.Brokers(), kgo.DefaultProduceTopic("readings"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := first; i < first+n; i++ {
		meter := fmt.Sprint("m", i%meters)
		client.Produce(t.Context(), &kgo.Record{Key: []byte(meter), Value: fmt.Appendf(nil, `{"meter": %q, "kwh": %d}`, meter, i)}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := client.Flush(ctx); err != nil {
		t.Fatal(err)
	}
}

// lines returns the whole lines of the ledger.
func (w *world) lines(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(w.folder, "readings.txt"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	all := strings.Split(string(text), "\n")
	return all[:len(all)-1]
}

func (w *world) await(t *testing.T, lines int) {
	t.Helper()
	for begin := time.Now(); len(w.lines(t)) < lines; time.Sleep(5 * time.Millisecond) {
		if time.Since(begin) > 2*time.Minute {
			t.Fatalf("not within two minutes: %d lines; the ledger has %d", lines, len(w.lines(t)))
		}
	}
}

func TestEachReadingIsWrittenOnceThoughNodeAndBrokerAreKilled(t *testing.T) {
	w := newWorld(t)
	victim := w.node(t)
	w.send(t, 0, 2000)
	w.await(t, 200)
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait()
	if err := w.broker.Kill(0); err != nil {
		t.Fatal(err)
	}
	w.node(t)
	if err := w.broker.Restart(0); err != nil {
		t.Fatal(err)
	}
	client, err := kafkatest.Client(w.broker.Brokers())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "readings", Value: []byte("no reading")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	w.send(t, 2000, 1000)
	w.await(t, 3000)
	last, seen := make(map[string]int), make(map[string]bool)
	for _, line := range w.lines(t) {
		var place, meter string
		var kwh int
		if _, err := fmt.Sscan(line, &place, &meter, &kwh); err != nil || seen[place] || kwh < last[meter] {
			t.Fatalf("the line %q is wrong, doubled, or follows one with %d: %v", line, last[meter], err)
		}
		seen[place], last[meter] = true, kwh
	}
	if len(seen) != 3000 {
		t.Errorf("%d readings", len(seen))
	}
	list := w.command(t, "task", "list", "--address", "unix:"+filepath.Join(w.folder, "api"), "--type", "taskengine.record.readings")
	if out, err := list.CombinedOutput(); err != nil || strings.Count(string(out), "error") != 1 {
		t.Errorf("the record that is no reading: %v: %s", err, out)
	}
}
