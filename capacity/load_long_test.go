//go:build !race

package capacity_test

import (
	"fmt"
	"testing"

	"github.com/taskengine/taskengine/policy"
)

func TestALoadThatIsRetriedForeverLosesNothing(t *testing.T) {
	const text = "objective: p99 start < 50ms\ntypes: {a: {rate: 200/s, duration: 20ms, retries: 0.5, attempts: %s}}\n"
	forever, often := fmt.Sprintf(text, "forever"), fmt.Sprintf(text, "1000")
	if m := read(t, forever).Types["a"].Policy.Retry.Max; m != policy.Forever {
		t.Errorf("the attempts are %d", m)
	}
	one, other := plan(t, forever), plan(t, often)
	if one.StoreBytes != other.StoreBytes || one.Slots != other.Slots {
		t.Errorf("forever needs %v bytes and %d slots, a thousand attempts %v and %d", one.StoreBytes, one.Slots, other.StoreBytes, other.Slots)
	}
}
