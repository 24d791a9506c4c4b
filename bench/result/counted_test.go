package result_test

import (
	"testing"

	"github.com/taskengine/taskengine/bench/result"
)

func TestOneOfAThingIsSingular(t *testing.T) {
	for n, want := range map[int]string{0: "0 runs", 1: "1 run", 2: "2 runs", 21: "21 runs"} {
		if got := result.Counted(n, "run"); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
