//go:build unix

package e2e

import (
	"fmt"
	"testing"
	"time"
)

// restorable is the servers of a coordinator with data that can be replaced by a copy.
type restorable interface {
	Keep() error
	GoBack() error
	Requests() (int64, error)
}

// A node joins after the copy of the coordinator was made to which it is restored: the others must neither keep the member
// that is gone nor miss the one that joins again, and a change of a limit must reach all of them.
func TestTasksWithOrderingKeysStartAfterTheCoordinatorWasRestored(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, driver string) {
		one, err := startServers(driver, 1)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := one.Close(); err != nil {
				t.Error(err)
			}
		})
		coordinator := one.(restorable)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		file := write(t, "taskengine.yaml", "storage: "+onPostgres(tables(t))+coordinated(driver, one.Endpoints()[0], prefixOf(t))+`
handlers: {copy: {exec: [/bin/cat]}}
limits: {all: {max: 9, scope: cluster}}
types: {copy: {limits: [all]}}
`)
		n := nodes(t, file, 2)
		must(coordinator.Keep())
		n = append(n, nodeOf(t, file, 2))
		n[2].ok(t, "task", "add", "copy", "--wait", "--timeout", "1m")
		must(coordinator.GoBack())
		var ids []string
		for i := range 20 {
			ids = append(ids, n[i%3].ok(t, "task", "add", "copy", "--ordering-key", fmt.Sprint(i)))
		}
		n[0].ok(t, append([]string{"task", "wait", "--timeout", "2m"}, ids...)...)
		n[1].ok(t, "limit", "set", "all", "--max", "7")
		for _, one := range n {
			for deadline := time.Now().Add(limit); one.objects(t, "limit", "get", "all")[0]["max"] != 7.0; time.Sleep(askEvery) {
				if time.Now().After(deadline) {
					t.Fatalf("a node does not learn of the change of a limit: %s", one.ok(t, "limit", "get", "all"))
				}
			}
		}
		begin := time.Now()
		before, err := coordinator.Requests()
		must(err)
		time.Sleep(time.Second)
		after, err := coordinator.Requests()
		must(err)
		if passed := time.Since(begin); float64(after-before) > 150*passed.Seconds() {
			t.Errorf("three nodes at rest send %d requests in %v", after-before, passed)
		}
	})
}
