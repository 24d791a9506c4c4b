//go:build unix

package pgtest

import (
	"testing"
	"time"
)

func TestTheClockOfOneDatabaseIsSet(t *testing.T) {
	url := server.Database(t)
	before := ask[time.Time](t, connect(t, url), "select clock_timestamp()")
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		SetClock(t, url, ahead)
		if now := ask[time.Time](t, connect(t, url), "select pg_catalog.clock_timestamp()"); now.Sub(before) < ahead || now.Sub(before) > ahead+time.Hour {
			t.Errorf("set %v ahead of %v, it says %v", ahead, before, now)
		}
	}
	now := ask[time.Time](t, connect(t, server.Database(t)), "select clock_timestamp()")
	if passed := now.Sub(before); passed < 0 || passed > time.Hour {
		t.Errorf("the clock of another database says %v after %v", now, before)
	}
}
