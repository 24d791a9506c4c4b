//go:build unix

package orders_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/etcdtest"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/internal/servertest"
)

// world has the programs and servers of the example.
type world struct {
	group     *servertest.Group // ends all processes with this one, and removes their files
	etcd      *etcdtest.Cluster
	database  string // as a URL
	platforms string // likewise
	since     time.Time
	env       []string // of the nodes and the commands
}

// build makes the programs of the example, in a folder that the caller removes.
func build() (folder string, err error) {
	if folder, err = os.MkdirTemp("", "orders-programs-"); err != nil {
		return "", err
	}
	c := exec.Command("go", "build", "-ldflags", "-s -w", "-o", folder, "../../cmd/taskengine", "./platforms", "./fetcher", "./witness")
	if out, err := c.CombinedOutput(); err != nil {
		return folder, fmt.Errorf("build: %w: %s", err, out)
	}
	return folder, nil
}

// newWorld starts the servers and the platforms, which have had orders for a time, and makes the tables.
func newWorld(t *testing.T, history time.Duration, env ...string) *world {
	t.Helper()
	group, err := servertest.NewGroup("orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := group.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{group: group, database: server.Database(t)}
	if w.etcd, err = etcdtest.Start(1); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.etcd.Close(); err != nil {
			t.Error(err)
		}
	})
	w.platforms = w.startPlatforms(t, history)
	w.since = time.Now().Add(-history).UTC().Truncate(time.Second)
	w.env = append([]string{
		"PATH=" + os.Getenv("PATH"), "NODE=nobody", "DATABASE=" + w.database, "ETCD=" + w.etcd.Endpoints()[0], "PLATFORMS=" + w.platforms,
		"START=" + w.since.Format(time.RFC3339), "LOSE=",
	}, env...)
	tables, err := os.ReadFile("orders.sql")
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, pgtest.Connect(t, w.database), string(tables))
	config, err := os.ReadFile("taskengine.yaml")
	if err == nil {
		err = errors.Join(os.WriteFile(w.file(), config, 0o600), os.Symlink(filepath.Join(programs, "fetcher"), w.in("fetcher")))
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := w.try(t, "", "migrate", "apply", "-c", w.file()); err != nil {
		t.Fatalf("migrate: %v: %s", err, out)
	}
	return w
}

func (w *world) file() string { return w.in("taskengine.yaml") }

func (w *world) in(name string) string { return filepath.Join(w.group.Folder(), name) }

var opened = regexp.MustCompile(`the platforms are at (http://\S+)`)

func (w *world) startPlatforms(t *testing.T, history time.Duration) (url string) {
	t.Helper()
	p, err := w.group.Start("platforms", filepath.Join(programs, "platforms"), "-history", history.String())
	if err != nil {
		t.Fatal(err)
	}
	err = p.Await(func(context.Context) error {
		said, err := os.ReadFile(w.in("platforms.log"))
		if found := opened.FindSubmatch(said); found != nil {
			url = string(found[1])
			return nil
		}
		return errors.Join(err, errors.New("they are not open"))
	})
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// try runs a command of taskengine, and returns its output.
func (w *world) try(t *testing.T, address string, args ...string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), filepath.Join(programs, "taskengine"), args...)
	c.Env = append([]string{"TASKENGINE_ADDRESS=" + address}, w.env...)
	var said, problems strings.Builder
	c.Stdout, c.Stderr = &said, &problems
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("taskengine %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(problems.String()))
	}
	return strings.TrimSpace(said.String()), nil
}

// control sends a request to the platforms, and returns the answer.
func (w *world) control(t *testing.T, method, path string) []byte {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, w.platforms+"/control/"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	whole, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s: %s: %v", method, path, a.Status, whole, err)
	}
	return whole
}

// close has the platforms get no more orders, and returns until when they have.
func (w *world) close(t *testing.T) (end time.Time) {
	t.Helper()
	if text := w.control(t, http.MethodPost, "close"); json.Unmarshal(text, &end) != nil {
		t.Fatalf("the platforms close at %s", text)
	}
	return end
}

// witness runs the witness, and returns what it says and its exit code.
func (w *world) witness(t *testing.T, until time.Time, resets string) (said string, code int) {
	t.Helper()
	c := exec.CommandContext(t.Context(), filepath.Join(programs, "witness"), "-database", w.database, "-platforms", w.platforms,
		"-since", w.since.Format(time.RFC3339Nano), "-until", until.Format(time.RFC3339Nano), "-resets", resets)
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out)), c.ProcessState.ExitCode()
}

// await returns when something has come about.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begin := time.Now(); !is(); time.Sleep(100 * time.Millisecond) {
		if time.Since(begin) > 10*time.Minute {
			t.Fatalf("not within ten minutes: %s", what)
		}
	}
}

// say prints an event for the reader.
func say(format string, args ...any) { fmt.Printf("== "+format+"\n", args...) }
