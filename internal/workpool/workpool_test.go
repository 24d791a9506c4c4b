package workpool

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func jobs(n int) []int {
	js := make([]int, n)
	for i := range js {
		js[i] = i
	}
	return js
}

// However many jobs are not done, the next one is begun.
func TestEveryJobIsBegunWhileOthersBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var begun, done atomic.Int32
		c := New(func(int) {
			begun.Add(1)
			<-release
			done.Add(1)
		})
		for _, n := range []int{1, 2 * maxIdle, 0, 3, 1} { // more than may stay idle later
			before := begun.Load()
			c.Add(jobs(n)...)
			synctest.Wait()
			if got := begun.Load() - before; got != int32(n) {
				t.Fatalf("%d of %d jobs were begun while others blocked", got, n)
			}
		}
		close(release)
		synctest.Wait()
		if c.idle != maxIdle || c.coming != 0 {
			t.Errorf("%d goroutines are idle (want %d), %d on their way", c.idle, maxIdle, c.coming)
		}
		c.Add(jobs(1000)...) // for the idle goroutines
		synctest.Wait()
		if got := done.Load(); got != 2*maxIdle+5+1000 {
			t.Errorf("%d jobs were done", got)
		}
		c.Close() // otherwise synctest reports the idle goroutines
	})
}

// However many jobs wait, few goroutines are started or woken at a time: goroutines that work already may take
// all of them. Jobs begin in the order in which they were added.
func TestFewGoroutinesAreCalledAtATimeAndJobsKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done, coming atomic.Int32
		var c *Pool[int]
		c = New(func(job int) {
			done.Add(1)
			c.mu.Lock()
			defer c.mu.Unlock()
			coming.Store(max(coming.Load(), int32(c.coming)))
			if c.next < len(c.line) && c.line[c.next] <= job {
				t.Errorf("job %d was begun before job %d", job, c.line[c.next])
			}
		})
		c.Add(jobs(10_000)...)
		synctest.Wait()
		if done.Load() != 10_000 {
			t.Errorf("%d of 10000 jobs were done", done.Load())
		}
		if most := coming.Load(); most > int32(runtime.GOMAXPROCS(0)) {
			t.Errorf("%d goroutines were on their way at a time", most)
		}
		c.Close()
	})
}

// A job that ends its goroutine does not keep other jobs from being called.
func TestJobsThatEndTheirGoroutineDoNoHarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done atomic.Int32
		c := New(func(int) {
			done.Add(1)
			runtime.Goexit()
		})
		for range 3 {
			c.Add(jobs(100)...)
			synctest.Wait()
		}
		if done.Load() != 300 || c.idle != 0 {
			t.Errorf("%d of 300 jobs were done, %d goroutines idle", done.Load(), c.idle)
		}
		c.Close()
	})
}

func TestAGoroutineThatReturnsAfterCloseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var done atomic.Int32
		c := New(func(int) {
			<-release
			done.Add(1)
		})
		c.Add(jobs(10)...)
		synctest.Wait()
		c.Close()
		c.Add(7) // a drain that ran out of time still begins accepted jobs
		close(release)
		synctest.Wait()
		if c.idle != 0 || done.Load() != 11 {
			t.Errorf("%d goroutines stayed, %d of 11 jobs were done", c.idle, done.Load())
		}
	})
}
