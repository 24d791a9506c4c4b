package wakeup

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// isSet reports whether s is set, and clears it.
func isSet(s Signal) bool {
	select {
	case <-s.C():
		return true
	default:
		return false
	}
}

func TestASignalIsSetOnceHoweverOftenSetIsCalled(t *testing.T) {
	s := New()
	if isSet(s) {
		t.Error("a new signal is set")
	}
	for range 3 {
		for range 5 {
			s.Set()
		}
		if !isSet(s) {
			t.Error("the signal is not set after Set")
		}
		if isSet(s) {
			t.Error("the signal is still set after it was received")
		}
	}
}

func TestACopyIsTheSameSignal(t *testing.T) {
	s := New()
	c := s
	c.Set()
	if !isSet(s) || isSet(c) {
		t.Error("a copy has a state of its own")
	}
}

func TestTheZeroSignalNeverWakes(t *testing.T) {
	var s Signal
	s.Set()
	if isSet(s) {
		t.Error("the zero signal delivered a value")
	}
}

func TestOneCallOfSetWakesOneOfSeveralGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		woken := make(chan int, 3)
		for i := range 3 {
			go func() {
				<-s.C()
				woken <- i
			}()
		}
		for n := range 3 {
			synctest.Wait()
			if len(woken) != n {
				t.Fatalf("%d goroutines are awake after %d calls of Set", len(woken), n)
			}
			s.Set()
		}
	})
}

func TestAGoroutineThatTakesAllOnEachWakeUpMissesNothing(t *testing.T) {
	const producers, each = 8, 1000
	s := New()
	var mu sync.Mutex
	queued := 0
	var group sync.WaitGroup
	for range producers {
		group.Go(func() {
			for range each {
				mu.Lock()
				queued++
				mu.Unlock()
				s.Set()
			}
		})
	}
	timeout := time.After(time.Minute)
	for taken := 0; taken < producers*each; {
		select {
		case <-s.C():
			mu.Lock()
			taken += queued
			queued = 0
			mu.Unlock()
		case <-timeout:
			t.Fatalf("no wake-up for the last %d of %d", producers*each-taken, producers*each)
		}
	}
	group.Wait()
}

func BenchmarkSet(b *testing.B) {
	s := New()
	for b.Loop() {
		s.Set()
	}
}

func TestASleepEndsWithItsContextOrItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := Sleep(t.Context(), time.Hour); err != nil || time.Since(began) != time.Hour {
			t.Errorf("it ended after %v with the error %v", time.Since(began), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := Sleep(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
	})
}
