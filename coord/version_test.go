package coord_test

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
)

func TestVersionsFollowTheTimeAndNeverStandStill(t *testing.T) {
	at := time.UnixMicro(1_700_000_000_000_000)
	for _, c := range []struct {
		last uint64
		now  time.Time
		want uint64
	}{
		{0, at, 1_700_000_000_000_000},
		{1_700_000_000_000_000, at, 1_700_000_000_000_001},
		{1_800_000_000_000_000, at, 1_800_000_000_000_001},
		{7, time.Unix(-1, 0), 8},
	} {
		if got := coord.NextVersion(c.last, c.now); got != c.want {
			t.Errorf("after %d at %v comes %d, want %d", c.last, c.now, got, c.want)
		}
	}
}
