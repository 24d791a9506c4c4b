package crew

import "runtime"

// maxGather is how often Gather lets others run: a stream of requests that never ends must
// not keep its caller from what it is about to do.
const maxGather = 16

// Gather lets those goroutines run that are about to ask for something, until what waiting
// counts grows no more, so that its caller serves them all at a time. Alone, it takes no
// time to speak of.
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
