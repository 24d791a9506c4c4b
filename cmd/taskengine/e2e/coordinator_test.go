package e2e

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/internal/etcdtest"
	"github.com/taskengine/taskengine/internal/wiretest"
	"github.com/taskengine/taskengine/internal/zktest"
)

// servers are the servers of a coordinator.
type servers interface {
	Endpoints() []string
	Close() error
}

// external are the coordinators of all tests, one server each. The first test that needs one starts it, and
// TestMain closes it.
var external struct {
	mu      sync.Mutex
	servers map[string]servers // guarded by mu: by driver
}

// endpoint returns the address of a server of a driver.
func endpoint(t *testing.T, driver string) string {
	t.Helper()
	external.mu.Lock()
	defer external.mu.Unlock()
	if external.servers[driver] == nil {
		s, err := startServers(driver, 1)
		if err != nil {
			t.Fatal(err)
		}
		if external.servers == nil {
			external.servers = map[string]servers{}
		}
		external.servers[driver] = s
	}
	return strings.TrimPrefix(external.servers[driver].Endpoints()[0], "http://")
}

// startServers starts servers of one coordinator.
func startServers(driver string, number int) (servers, error) {
	if driver == config.Etcd {
		return etcdtest.Start(number)
	}
	return zktest.Start(number)
}

func closeCoordinators() error {
	var errs []error
	for _, s := range external.servers {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// through is a network to a server of a coordinator.
type through struct{ *wiretest.Wire }

func newThrough(t *testing.T, driver string) through {
	return through{wiretest.New(t, "tcp://"+endpoint(t, driver))}
}

func (w through) address() string { return strings.TrimPrefix(w.URL(), "tcp://") }

// coordinated returns a part of a configuration: coordination below a prefix of its own.
func coordinated(driver, endpoint, prefix string) string {
	return fmt.Sprintf("\ncoordination: {driver: %s, endpoints: %q, prefix: %s, lease: 2s}", driver, endpoint, prefix)
}

// prefixOf returns a prefix that no other test has.
func prefixOf(t *testing.T) string {
	return strings.NewReplacer("/", "-").Replace(t.Name()) + fmt.Sprint(time.Now().UnixNano())
}

// onEach runs a test with each coordinator that is no database.
func onEach(t *testing.T, test func(t *testing.T, driver string)) {
	for _, driver := range []string{config.Etcd, config.ZooKeeper} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			test(t, driver)
		})
	}
}

// kept counts the data below a prefix, by kind and name.
func kept(t *testing.T, file string) map[string]int {
	t.Helper()
	all := map[string]int{}
	for _, one := range parse(t, succeeds(t, "coordination", "show", file, "-o", "json")) {
		if one["kind"] != nil {
			all[fmt.Sprint(one["kind"], " ", one["name"])]++
		}
	}
	return all
}

// succeeds runs a command that must succeed, and returns its output.
func succeeds(t *testing.T, args ...string) string {
	t.Helper()
	r := cli(t, nil, "", args...)
	if r.code != 0 {
		t.Fatalf("%v ended with %d: %s", args, r.code, r.stderr)
	}
	return r.stdout
}
