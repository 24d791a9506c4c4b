package kafka

import (
	"testing"
	"time"
)

func TestANodeLagsThatHasNotReadWhatWasThereTenSecondsAgo(t *testing.T) {
	s := &session{positions: map[int32]int64{0: 5, 1: 100}}
	now := time.Unix(1_700_000_000, 0)
	read := func(after time.Duration, position, end int64) bool {
		now = now.Add(after)
		s.positions[1] = position
		return s.lags(now, map[int32]int64{0: 5, 1: end})
	}
	for _, c := range []struct {
		after         time.Duration
		position, end int64
		lags          bool
	}{
		{0, 100, 1000, false},
		{maxLag / 2, 100, 2000, false},
		{maxLag/2 - 1, 999, 3000, false},
		{1, 1000, 3000, false},               // it has read the records of ten seconds ago
		{maxLag / 2, 1999, 3000, true},       // and not the records of ten seconds ago
		{0, 3000, 3000, false},               // it has caught up
		{100 * maxLag, 3000, 1 << 40, false}, // it was not looked at for long, and has read all of then
		{maxLag, 3000, 1 << 40, true},
	} {
		if got := read(c.after, c.position, c.end); got != c.lags {
			t.Errorf("after %v at %d of %d it lags: %t", c.after, c.position, c.end, got)
		}
	}
	delete(s.positions, 1) // it is not read any more
	if s.lags(now.Add(maxLag), map[int32]int64{0: 5, 1: 1 << 41}) {
		t.Error("it lags with a partition that it does not read")
	}
}
