package capacity

import "runtime"

// lot is how much is computed before the clock is looked at: some 20 us of it.
const lot = 1 << 14

// churn computes something; who keeps the result keeps the compiler from leaving it out.
func churn(n int) uint64 {
	x := uint64(n) | 1
	for range n {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// churnWhile computes lots of it for as long as more says so.
func churnWhile(more func() bool) {
	for more() {
		runtime.KeepAlive(churn(lot))
	}
}
