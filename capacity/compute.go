package capacity

import "runtime"

// lot is the number of steps between two looks at the clock: about 20 us.
const lot = 1 << 14

// churn computes n steps. A caller that uses the result prevents the compiler from omitting them.
func churn(n int) uint64 {
	x := uint64(n) | 1
	for range n {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// churnWhile computes while more returns true.
func churnWhile(more func() bool) {
	for more() {
		runtime.KeepAlive(churn(lot))
	}
}
