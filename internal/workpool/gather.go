package workpool

import "runtime"

// maxGather is how often Gather yields at most: a stream of requests that never ends must
// not hold up its caller.
const maxGather = 16

// Gather yields to goroutines that are about to make a request, until the number of
// requests, which waiting returns, no longer grows. Its caller then serves them together.
// If no other goroutine can run, the cost is negligible.
func Gather(waiting func() int) {
	n := -1
	for range maxGather {
		more := waiting()
		if more == n {
			return
		}
		n = more
		runtime.Gosched()
	}
}
