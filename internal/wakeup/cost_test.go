package wakeup

import (
	"testing"
	"time"
)

func TestACostIsWhatRoundsTakeAgainAndAgain(t *testing.T) {
	var c Cost
	for i, round := range []struct {
		took    time.Duration
		isWhole bool
		want    time.Duration
	}{
		{5, true, 0}, // the first one may have waited
		{6, true, 5},
		{6, true, 6},
		{1000, true, 6}, // it waited for an outage to end
		{5, true, 5},
		{1000, false, 0},
		{1000, false, 0},
		{7, true, 0},
		{7, true, 7},
		{1000, true, 7},
		{1001, true, 1000}, // rounds are costly now
	} {
		if got := c.After(round.took, round.isWhole); got != round.want {
			t.Errorf("round %d: got %d, want %d", i, got, round.want)
		}
	}
}
