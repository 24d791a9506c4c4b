package client

import (
	"testing"
)

func TestAPauseIsARandomHalfToWhole(t *testing.T) {
	some := make(map[int64]bool)
	for range 20 {
		pause := jittered(mostPause)
		if pause < mostPause/2 || pause > mostPause {
			t.Errorf("a pause is %v, of %v", pause, mostPause)
		}
		some[int64(pause)] = true
	}
	if len(some) < 2 {
		t.Error("all pauses are the same")
	}
}
