package cells_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/taskengine/taskengine/coord"
)

// All of them together are much larger than a value that the coordinator takes.
func TestThereIsRoomForTenThousandSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.most = 50_000
		c := m.connect(nil)
		n, other := node(t, c), node(t, m.connect(nil))
		var seen []coord.Setting
		go func() { _ = other.Watch(t.Context(), "limits", func(all []coord.Setting) { seen = all }) }()
		synctest.Wait()
		const count = 10_000
		value := []byte(strings.Repeat("v", 300))
		for i := range count {
			if _, ok, err := n.Swap(t.Context(), "limits", fmt.Sprint("partner/customer-", i), 0, value); err != nil || !ok {
				t.Fatalf("setting %d: %v", i+1, err)
			}
		}
		before := c.requests()
		written := m.bytes()
		now, ok, err := n.Swap(t.Context(), "limits", "partner", 0, value)
		if err != nil || !ok {
			t.Fatal(err)
		}
		synctest.Wait()
		if made, size := c.requests()-before, m.bytes()-written; made > 2 || size > 50*len(value) {
			t.Errorf("a change makes %d requests and writes %d bytes", made, size)
		}
		if len(seen) != count+1 || seen[0].Scope != "partner" || seen[0].Version != now.Version {
			t.Errorf("another node sees %d settings, the first of which is %+v", len(seen), seen[0])
		}
		if all, err := n.Settings(t.Context(), "limits"); err != nil || len(all) != count+1 {
			t.Errorf("there are %d settings, %v", len(all), err)
		}
		_, _, err = n.Swap(t.Context(), "limits", "large", 0, make([]byte, 60_000))
		if err == nil || !strings.Contains(err.Error(), "at most 50000") {
			t.Errorf("a setting that is too large: %v", err)
		}
	})
}
