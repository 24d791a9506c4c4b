package engine

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/taskengine/taskengine/engine/internal/core"
)

func attempts(n int) []*attempt {
	as := make([]*attempt, n)
	for i := range as {
		as[i] = &attempt{Run: core.Run{Type: "t"}}
	}
	return as
}

// However many handlers do not return, the next attempt is made.
func TestPoolCallsEveryHandlerWhileOthersBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var begun, returned atomic.Int32
		p := newPool(func(*attempt) {
			begun.Add(1)
			<-release
			returned.Add(1)
		})
		for _, n := range []int{1, 2 * maxIdle, 3, 1} { // more than may stay idle later
			before := begun.Load()
			p.add(attempts(n)...)
			synctest.Wait()
			if got := begun.Load() - before; got != int32(n) {
				t.Fatalf("%d of %d handlers were called while others blocked", got, n)
			}
		}
		close(release)
		synctest.Wait()
		if p.idle != maxIdle || p.coming != 0 {
			t.Errorf("%d goroutines are idle (want %d), %d on their way", p.idle, maxIdle, p.coming)
		}
		p.add(attempts(1000)...) // by those who were idle
		synctest.Wait()
		if got := returned.Load(); got != 2*maxIdle+5+1000 {
			t.Errorf("%d handlers returned", got)
		}
		p.dismiss() // or synctest finds those who stayed
	})
}

// However long the line, few goroutines are called to it at a time: those who are there
// already may take all of it.
func TestPoolCallsFewGoroutinesAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled, coming atomic.Int32
		var p *pool
		p = newPool(func(*attempt) {
			handled.Add(1)
			p.mu.Lock()
			defer p.mu.Unlock()
			coming.Store(max(coming.Load(), int32(p.coming)))
		})
		p.add(attempts(10_000)...)
		synctest.Wait()
		if handled.Load() != 10_000 {
			t.Errorf("%d of 10000 were handled", handled.Load())
		}
		if most := coming.Load(); most > int32(runtime.GOMAXPROCS(0)) {
			t.Errorf("%d goroutines were on their way at a time", most)
		}
		p.dismiss()
	})
}

// A goroutine that a handler ends takes nobody's turn with it.
func TestPoolSurvivesHandlersThatEndTheirGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled atomic.Int32
		p := newPool(func(*attempt) {
			handled.Add(1)
			runtime.Goexit()
		})
		for range 3 {
			p.add(attempts(100)...)
			synctest.Wait()
		}
		if handled.Load() != 300 || p.idle != 0 {
			t.Errorf("%d of 300 were handled, %d goroutines idle", handled.Load(), p.idle)
		}
		p.dismiss()
	})
}

func TestPoolSendsHomeWhoComesBackAfterDismissal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := newPool(func(*attempt) { <-release })
		p.add(attempts(10)...)
		synctest.Wait()
		p.dismiss()
		p.add(attempts(1)...) // a drain that ran out of time still begins what was grabbed
		close(release)
		synctest.Wait()
		if p.idle != 0 {
			t.Errorf("%d goroutines stayed", p.idle)
		}
	})
}
