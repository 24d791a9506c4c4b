package descriptors

import (
	"testing"
)

func TestDescriptorsAreLeftForTheStore(t *testing.T) {
	if d := Divide(0, 100); d != (Share{}) {
		t.Errorf("without a limit: %+v", d)
	}
	for _, test := range []struct {
		limit uint64
		slots int
		least int // connections of the API
	}{{64, 10, 8}, {256, 10, 32}, {1024, 100, 200}, {1024, 5000, 100}, {4096, 0, 3000}, {524_288, 100, 500_000}, {1 << 63, 100, 1_000_000}} {
		d := Divide(test.limit, test.slots)
		if d.API < test.least || d.Store < leastStoreFiles || d.Admin < leastConnections {
			t.Errorf("of %d, with %d slots: %+v", test.limit, test.slots, d)
		}
		if used := uint64(d.API + d.Admin + d.Store + otherFiles); test.limit >= 256 && used > test.limit {
			t.Errorf("of %d, with %d slots, %d are given: %+v", test.limit, test.slots, used, d)
		}
	}
}
