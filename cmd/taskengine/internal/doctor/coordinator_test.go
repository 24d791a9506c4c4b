//go:build unix

package doctor

import (
	"testing"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/internal/etcdtest"
)

func TestAnEtcdThatWasNeverCompactedIsAWarning(t *testing.T) {
	servers, err := etcdtest.Start(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := servers.Close(); err != nil {
			t.Error(err)
		}
	})
	c := config.Default().Coordination
	c.Driver, c.Endpoints = config.Etcd, servers.Endpoints()
	var found Findings
	examineCoordinator(t.Context(), &found, c)
	found.has(t, Warning, "etcd", "never compacted")
	var none Findings
	examineCoordinator(t.Context(), &none, config.Default().Coordination)
	if len(none) > 0 {
		t.Errorf("without etcd there are the findings %v", none)
	}
}
