package coord_test

import (
	"testing"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
)

func TestANodeApartSharesLimitsAndSettingsAndNoTasks(t *testing.T) {
	n := local.New()
	got := n.Coordinator().Apart()
	if want := (coord.Coordinator{Settings: n, Semaphore: n, Rates: n, Peers: n}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if alone := (coord.Coordinator{}).Apart(); alone != (coord.Coordinator{}) {
		t.Errorf("a node alone gets %+v", alone)
	}
}
