package workpool

import "testing"

func TestGatherWaitsWhileMoreComeAndNotForEver(t *testing.T) {
	for name, test := range map[string]struct {
		waiting func(call int) int
		calls   int
	}{
		"no goroutine":  {func(int) int { return 0 }, 2},
		"two more":      {func(call int) int { return min(call, 3) }, 4},
		"ever more":     {func(call int) int { return call }, maxGather},
		"some are gone": {func(call int) int { return max(0, 2-call) }, 3},
	} {
		calls := 0
		Gather(func() int { calls++; return test.waiting(calls) })
		if calls != test.calls {
			t.Errorf("%s: it looked %d times, want %d", name, calls, test.calls)
		}
	}
}
