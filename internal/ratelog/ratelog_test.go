package ratelog

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// admitted returns how many of n lines a limiter admits.
func admitted(l *Limiter, n int) (admitted int) {
	for range n {
		if l.Allow() {
			admitted++
		}
	}
	return admitted
}

func TestTheZeroLimiterAdmitsOneLineAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Limiter
		if !l.Allow() || l.Allow() {
			t.Fatal("not exactly one of two lines was admitted")
		}
		time.Sleep(time.Minute - time.Nanosecond)
		if l.Allow() {
			t.Fatal("a second line was admitted within a minute of the first")
		}
		time.Sleep(time.Nanosecond)
		if !l.Allow() {
			t.Fatal("no line was admitted after a minute")
		}
	})
}

func TestAPeriodHasItsLinesAndTheRestIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Limiter{Lines: 3, Per: time.Second}
		for range 2 {
			if got := admitted(&l, 10); got != 3 {
				t.Fatalf("%d of 10 lines were admitted, want 3", got)
			}
			if got := l.Dropped(); got != 7 {
				t.Fatalf("%d lines were counted as dropped, want 7", got)
			}
			if got := l.Dropped(); got != 0 {
				t.Fatalf("%d lines were counted twice", got)
			}
			time.Sleep(time.Second)
		}
	})
}

func TestALineThatDoesNotFitIsDroppedAndASmallerOneIsNot(t *testing.T) {
	l := Limiter{Lines: 10, Bytes: 100, Per: time.Hour}
	for i, line := range []struct {
		size int
		want bool
	}{{60, true}, {60, false}, {40, true}, {1, false}, {0, true}} {
		if got := l.AllowSize(line.size); got != line.want {
			t.Errorf("line %d of %d bytes: admitted %v, want %v", i, line.size, got, line.want)
		}
	}
}

func TestOfManyAtOnceOneIsAdmitted(t *testing.T) {
	var l Limiter
	var passed atomic.Int64
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if l.Allow() {
				passed.Add(1)
			}
		})
	}
	all.Wait()
	if passed.Load() != 1 || l.Dropped() != 49 {
		t.Fatalf("%d lines were admitted, want 1", passed.Load())
	}
}
