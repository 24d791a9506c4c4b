package plugins

import (
	"encoding/binary"
	"testing"

	"github.com/taskengine/taskengine/task"
)

func quarantined(n int) (id task.ID) {
	binary.BigEndian.PutUint64(id[:], uint64(n))
	return id
}

// Tasks of at_most_once types are never tried again. They must not keep others out of quarantine.
func TestAFullQuarantineForgetsTheOldestTasks(t *testing.T) {
	var q quarantine
	for n := range 3 * maxQuarantine {
		q.add(quarantined(n))
		if !q.has(quarantined(n)) || len(q.order) > maxQuarantine || len(q.added) > maxQuarantine {
			t.Fatalf("after %d: it is there: %t; %d tasks in %d entries", n, q.has(quarantined(n)), len(q.added), len(q.order))
		}
	}
	if q.has(quarantined(maxQuarantine)) || !q.has(quarantined(2*maxQuarantine+1)) {
		t.Error("the forgotten tasks are not the oldest")
	}
}

func TestATaskThatComesAgainAndAgainTakesOnePlaceInQuarantine(t *testing.T) {
	var q quarantine
	q.add(quarantined(1))
	for range 3 * maxQuarantine {
		q.add(quarantined(2))
		q.remove(quarantined(2))
	}
	q.add(quarantined(2))
	if !q.has(quarantined(2)) || len(q.added) > 2 || len(q.order) > maxQuarantine {
		t.Errorf("%d tasks in %d entries", len(q.added), len(q.order))
	}
	q.remove(quarantined(2))
	if q.has(quarantined(2)) {
		t.Error("a removed task is still there")
	}
}
