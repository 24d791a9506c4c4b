package plugins

import (
	"encoding/binary"
	"testing"

	"github.com/taskengine/taskengine/engine/task"
)

func suspect(n int) (id task.ID) {
	binary.BigEndian.PutUint64(id[:], uint64(n))
	return id
}

// Tasks that are never tried again, because their type is at_most_once, must not keep
// others from coming under suspicion.
func TestOfTooManySuspectsTheOldestAreForgotten(t *testing.T) {
	var s suspects
	for n := range 3 * maxSuspects {
		s.add(suspect(n))
		if !s.has(suspect(n)) || len(s.order) > maxSuspects || len(s.added) > maxSuspects {
			t.Fatalf("after %d: it is there: %t; %d are remembered, in %d additions", n, s.has(suspect(n)), len(s.added), len(s.order))
		}
	}
	if s.has(suspect(maxSuspects)) || !s.has(suspect(2*maxSuspects+1)) {
		t.Error("those who were forgotten are not the oldest")
	}
}

func TestASuspectThatComesAgainAndAgainTakesOnePlace(t *testing.T) {
	var s suspects
	s.add(suspect(1))
	for range 3 * maxSuspects {
		s.add(suspect(2))
		s.clear(suspect(2))
	}
	s.add(suspect(2))
	if !s.has(suspect(2)) || len(s.added) > 2 || len(s.order) > maxSuspects {
		t.Errorf("%d are remembered, in %d additions", len(s.added), len(s.order))
	}
	s.clear(suspect(2))
	if s.has(suspect(2)) {
		t.Error("it was cleared")
	}
}
