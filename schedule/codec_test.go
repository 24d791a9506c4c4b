//go:build !race

package schedule

import (
	"bytes"
	"testing"
	"time"
)

func TestEqualDefinitionsAreStoredAlikeInWhateverZoneTheirTimesAre(t *testing.T) {
	moment := at(t, "2026-05-01 00:00:00")
	in := func(zone *time.Location) []byte {
		local := moment.In(zone)
		return Named{"often", Definition{Every: time.Hour, Anchor: local, Start: local, End: local}}.Encode()
	}
	if utc, other := in(time.UTC), in(time.FixedZone("", 7200)); !bytes.Equal(utc, other) {
		t.Errorf("they are stored as\n%s\nand\n%s", utc, other)
	}
	if empty := (Named{"often", Definition{Every: time.Hour}}).Encode(); bytes.Contains(empty, []byte("0001")) {
		t.Errorf("a time that is not given is stored: %s", empty)
	}
}
