package server_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
)

// reported is a cluster with a bus that has a state.
type reported struct {
	*local.Node
	status coord.BusStatus
}

func (r reported) BusStatus() coord.BusStatus { return r.status }

func TestANodeWithABusThatIsDownIsReadyAndSaysWhy(t *testing.T) {
	status := coord.BusStatus{Name: "kafka.main, topic hints", Sent: 1, Received: 2, Dropped: 3, Undecodable: 4}
	for _, c := range []struct {
		down error
		line string
		up   float64
	}{
		{nil, "[+] bus: ok, kafka.main, topic hints\n", 1},
		{errors.New("no broker\nanswers"), "[-] bus: nodes find tasks of each other in the store, within about a second: no broker\\nanswers\n", 0},
	} {
		status.Down = c.down
		n := newMember(t, reported{local.New(), status})
		l := admin(t, n.health, n.metrics)
		if code, body := get(t, l, "/readyz?verbose", ""); code != 200 || !strings.Contains(body, c.line) {
			t.Errorf("in detail, the answer is %d: %s", code, body)
		}
		if code, body := get(t, l, "/readyz", ""); code != 200 || body != "ok\n" {
			t.Errorf("the answer is %d: %s", code, body)
		}
		_, series := scrape(t, n)
		for name, want := range map[string]float64{"up": c.up, "sent_total": 1, "received_total": 2, "dropped_total": 3, "undecodable_total": 4} {
			if got, ok := series["taskengine_bus_"+name]; !ok || got != want {
				t.Errorf("taskengine_bus_%s is %v, want %v", name, got, want)
			}
		}
	}
	if text, _ := scrape(t, newNode(t)); strings.Contains(text, "taskengine_bus") {
		t.Error("a node without a bus reports a state of it")
	}
}
