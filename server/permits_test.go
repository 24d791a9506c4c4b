package server_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/server"
	"github.com/taskengine/taskengine/storage/memory"
)

func TestANodeTellsWhetherItHoldsItsPermits(t *testing.T) {
	coordinator := local.New()
	e, err := engine.Open(t.Context(), engine.Config{Store: memory.New(), Coordinator: coord.Coordinator{Semaphore: coordinator, Rates: coordinator}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	n := &node{engine: e, health: new(server.Health), metrics: server.NewMetrics(nil, server.Build{Version: "v0"})}
	n.health.Started(e, nil)
	n.metrics.Watch(e, nil)
	l := admin(t, n.health, n.metrics)
	says := func(line string, usable float64) {
		t.Helper()
		for begin := time.Now(); ; time.Sleep(time.Millisecond) {
			code, body := get(t, l, "/readyz?verbose", "")
			_, series := scrape(t, n)
			if code == 200 && strings.Contains(body, line) && series["taskengine_permits_usable"] == usable && series["taskengine_member"] == 1 {
				return
			}
			if time.Since(begin) > time.Minute {
				t.Fatalf("the answer is %d: %s, and the metric %v", code, body, series["taskengine_permits_usable"])
			}
		}
	}
	says("[+] permits: ok\n", 1)
	if err := coordinator.Close(); err != nil {
		t.Fatal(err)
	}
	says("[-] permits: the node cannot prove to the coordinator that it is alive", 0)
	if code, body := get(t, l, "/readyz", ""); code != 200 || body != "ok\n" {
		t.Errorf("a node that lost its permits alone answers %d: %s", code, body)
	}
}
