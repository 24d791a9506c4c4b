package engine

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestTheClockNeverStepsBackAndAgreesWithTheWallInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ahead := began.Round(0).Add(time.Minute) // the wall clock was set back by a minute
		c := clock{last: ahead, read: began}
		for last := ahead; ; {
			time.Sleep(time.Second)
			now := c.now()
			if now.Before(last) {
				t.Fatalf("it stepped back from %v to %v", last, now)
			}
			if behind := time.Since(began); behind < 2*time.Minute && now.Sub(ahead) != behind/2 {
				t.Fatalf("after %v it went on by %v, want half of that", behind, now.Sub(ahead))
			}
			if now.Equal(time.Now().Round(0)) {
				break
			}
			last = now
		}
		if took := time.Since(began); took != 2*time.Minute {
			t.Errorf("it agreed with the wall after %v, want 2m", took)
		}
		time.Sleep(time.Hour)
		if now := c.now(); !now.Equal(time.Now().Round(0)) {
			t.Errorf("it says %v at %v", now, time.Now())
		}
	})
}
