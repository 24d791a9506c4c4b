//go:build unix

package cluster_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/internal/etcdtest"
	"github.com/taskengine/taskengine/internal/zktest"
)

// chosen returns the drivers by which nodes coordinate, one example for each: that of $COORD, or all if it is empty.
func chosen(coord string) ([]string, error) {
	all := []string{config.Database, config.Etcd, config.ZooKeeper}
	if coord == "" {
		return all, nil
	}
	if !slices.Contains(all, coord) {
		return nil, fmt.Errorf("COORD=%.60s names no coordinator; write COORD=%s", coord, strings.Join(all, ", or COORD="))
	}
	return []string{coord}, nil
}

func TestADriverIsChosen(t *testing.T) {
	for coord, want := range map[string]int{"": 3, "postgres": 1, "etcd": 1, "zookeeper": 1} {
		if got, err := chosen(coord); err != nil || len(got) != want || !strings.HasPrefix(got[0], coord) {
			t.Errorf("%q chooses %q, %v", coord, got, err)
		}
	}
	if _, err := chosen("foo"); err == nil || !strings.Contains(err.Error(), "COORD=foo") || !strings.Contains(err.Error(), "COORD=postgres, or COORD=etcd, or COORD=zookeeper") {
		t.Errorf("foo is refused with %v", err)
	}
}

// coordinator is a server that is started for the example, or nil for a driver that needs none.
type coordinator interface {
	Endpoints() []string
	Close() error
}

// coordinate starts the server of a driver, which ends with the test.
func coordinate(t *testing.T, driver string) coordinator {
	t.Helper()
	var c coordinator
	var err error
	switch driver {
	case config.Etcd:
		c, err = etcdtest.Start(1)
	case config.ZooKeeper:
		c, err = zktest.Start(1)
	default:
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// prepare writes the file of the nodes, and the handler beside it, to the folder of the example.
func (x *example) prepare(t *testing.T) {
	t.Helper()
	where := "it"
	file, err := os.ReadFile(filepath.Base(x.file))
	if c := coordinate(t, x.driver); c != nil {
		where = x.driver + " at " + c.Endpoints()[0]
		const begin = "coordination: {"
		if strings.Count(string(file), begin) != 1 {
			t.Fatalf("%s has no line %s", filepath.Base(x.file), begin)
		}
		file = []byte(strings.Replace(string(file), begin, fmt.Sprintf("%sdriver: %s, endpoints: [%q], prefix: examples/cluster, ", begin, x.driver, c.Endpoints()[0]), 1))
	}
	handler, unread := os.ReadFile("payout")
	err = errors.Join(err, unread, os.WriteFile(x.file, file, 0o600), os.WriteFile(filepath.Join(filepath.Dir(x.file), "payout"), handler, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	say("three nodes on one PostgreSQL coordinate by %s; at most 30 payouts at once in all, and 3 for each partner", where)
}

// coordination shows how the nodes coordinate, when nodes that are gone are no members any more.
func (x *example) coordination(t *testing.T, nodes []*node) {
	t.Helper()
	var living []string
	for _, n := range nodes {
		living = append(living, n.name)
	}
	await(t, fmt.Sprint("they coordinate by ", x.driver, ", and its members are ", living), func() bool {
		driver, members := x.recorded(t, nodes[0])
		return driver == x.driver && (x.driver == config.Database || slices.Equal(members, living))
	})
	x.show(t, nodes[0], "coordination", "show", x.file)
}

// recorded returns the driver that the nodes have recorded in their database, and the names of the nodes that are
// members elsewhere, in order.
func (x *example) recorded(t *testing.T, n *node) (driver string, members []string) {
	t.Helper()
	for text := range strings.Lines(x.run(t, n, "coordination", "show", x.file, "-o", "json")) {
		var one struct{ Driver, Kind, Name string }
		if err := json.Unmarshal([]byte(text), &one); err != nil {
			t.Fatal(err)
		}
		if one.Driver != "" {
			driver = one.Driver
		}
		if one.Kind == "member" {
			members = append(members, one.Name)
		}
	}
	slices.Sort(members)
	return driver, members
}
