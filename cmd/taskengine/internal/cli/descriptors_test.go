package cli

import (
	"testing"
)

func TestDescriptorsAreLeftForTheStore(t *testing.T) {
	if d := shareDescriptors(0, 100); d != (descriptors{}) {
		t.Errorf("without a limit: %+v", d)
	}
	for _, test := range []struct {
		limit uint64
		slots int
		least int // connections of the API
	}{{64, 10, 8}, {256, 10, 32}, {1024, 100, 200}, {1024, 5000, 100}, {4096, 0, 3000}, {524_288, 100, 500_000}, {1 << 63, 100, 1_000_000}} {
		d := shareDescriptors(test.limit, test.slots)
		if d.api < test.least || d.store < leastStoreFiles || d.admin < leastConnections {
			t.Errorf("of %d, with %d slots: %+v", test.limit, test.slots, d)
		}
		if used := uint64(d.api + d.admin + d.store + otherFiles); test.limit >= 256 && used > test.limit {
			t.Errorf("of %d, with %d slots, %d are given: %+v", test.limit, test.slots, used, d)
		}
	}
}
