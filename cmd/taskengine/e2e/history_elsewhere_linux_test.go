package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/internal/etcdtest"
	"github.com/taskengine/taskengine/internal/wiretest"
	"github.com/taskengine/taskengine/internal/zktest"
)

// elsewhere is the coordinator of a fleet, if that is not its database.
type elsewhere struct {
	server interface { // of its own, because it crashes
		Endpoints() []string
		Kill(server int) error
		Restart(server int) error
		Close() error
	}
	wires []through // by node
}

// newElsewhere starts a coordinator, and returns nil for the database.
func newElsewhere(t *testing.T, driver string) (e *elsewhere) {
	t.Helper()
	e = new(elsewhere)
	var err error
	switch driver {
	case config.Database:
		return nil
	case config.Etcd:
		e.server, err = etcdtest.Start(1)
	default:
		e.server, err = zktest.Start(1)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.server.Close(); err != nil {
			t.Error(err)
		}
	})
	for range planNodes {
		e.wires = append(e.wires, through{wiretest.New(t, "tcp://"+strings.TrimPrefix(e.server.Endpoints()[0], "http://"))})
	}
	return e
}

// do begins a fault, or ends it.
func (e *elsewhere) do(t *testing.T, what fault) {
	t.Helper()
	var err error
	switch {
	case what.kind == cutOff && what.ends:
		e.wires[what.node].Heal()
	case what.kind == cutOff:
		e.wires[what.node].Stall()
	case what.ends:
		err = e.server.Restart(0)
	default:
		err = e.server.Kill(0)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// settings returns the coordination of a node, as arguments of its program.
func (e *elsewhere) settings(node int) []string {
	if e == nil {
		return nil
	}
	return []string{"--set", "coordination.endpoints=" + e.wires[node].address()}
}

// addLosses adds to a history when nodes have said that they cannot prove that they are alive.
func (h *history) addLosses(t *testing.T, node string, log *lines) {
	t.Helper()
	for line := range strings.Lines(log.String()) {
		var entry struct {
			Time time.Time
			Msg  string
		}
		if json.Unmarshal([]byte(line), &entry) == nil && strings.HasPrefix(entry.Msg, "the node cannot prove that it is alive") {
			h.losses = append(h.losses, loss{node, entry.Time.UnixMicro()})
		}
	}
}

// history returns the recorded history. Only a database records its grants.
func (f *fleet) history(t *testing.T) *history {
	t.Helper()
	h := &history{
		lease: planLease.Microseconds(), attempts: readAttempts(t, f.journal), stops: f.stops, tasks: f.accepted,
		rate: pacing{time.Second.Microseconds() / planRate, planBurst}, isUnseen: f.elsewhere != nil,
	}
	if h.isUnseen {
		for node, log := range f.logs {
			h.addLosses(t, node, log)
		}
	} else {
		h.readAudit(t, f.database)
	}
	h.addLimits(&f.observed, "total", planTotal)
	for i := range 4 {
		h.addLimits(&f.observed, fmt.Sprint("partner/p", i), planPartner)
	}
	if !h.isUnseen {
		h.addPauses(&f.observed)
	}
	return h
}
