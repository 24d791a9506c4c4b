package server

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// slowLog is a log that takes a while for each line.
type slowLog struct {
	slog.Handler
	takes time.Duration
	mu    sync.Mutex
	lines []string // guarded by mu
}

func (l *slowLog) Handle(_ context.Context, r slog.Record) error {
	time.Sleep(l.takes)
	l.mu.Lock()
	defer l.mu.Unlock()
	line := r.Message
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	l.lines = append(l.lines, line)
	return nil
}

func TestStandstillsOfStoreAndProcessAreMeasuredAndLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMetrics(nil, Build{})
		log := &slowLog{Handler: slog.DiscardHandler, takes: 3 * time.Second}
		ctx, cancel := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		watching.Go(func() { m.WatchStandstills(ctx, slog.New(onlyLevel{log})) })
		m.committed(20*time.Millisecond, nil)
		m.committed(7*time.Second, nil)
		m.committed(2*time.Second, nil)
		time.Sleep(time.Minute) // the slow log holds the watch up, as a busy machine does
		cancel()
		watching.Wait()
		now := time.Now()
		if s := m.stands.of(standsStore, now); s.count != 2 || s.total != 9*time.Second || s.longest != 7*time.Second {
			t.Errorf("the store stood still as %+v", s)
		}
		if s := m.stands.of(standsProcess, now); s.count == 0 || s.longest < 2*time.Second || s.longest > 3*time.Second {
			t.Errorf("the process stood still as %+v", s)
		}
		log.mu.Lock()
		defer log.mu.Unlock()
		stores := 0
		for _, line := range log.lines {
			if line == "the store stood still: commits took a second or more commits=2 longest_recently=7s" {
				stores++
			}
		}
		if stores != 1 {
			t.Errorf("the log is %q", log.lines)
		}
		time.Sleep(recentStandstill)
		if s := m.stands.of(standsStore, time.Now()); s.longest != 0 || s.count != 2 {
			t.Errorf("later it is %+v", s)
		}
	})
}

func TestANodeWithoutCommitsIsNotWokenToNoticeStandstills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMetrics(nil, Build{})
		log := &slowLog{Handler: slog.DiscardHandler}
		lines := func() int {
			log.mu.Lock()
			defer log.mu.Unlock()
			return len(log.lines)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		watching.Go(func() { m.WatchStandstills(ctx, slog.New(onlyLevel{log})) })
		m.committed(time.Millisecond, nil)
		time.Sleep(time.Minute)
		m.stands.note(standsStore, 2*time.Second, time.Now()) // the watch would log it at its next look
		time.Sleep(time.Minute)
		if n := lines(); n != 0 {
			t.Errorf("an idle node has looked: %d lines", n)
		}
		m.committed(time.Millisecond, nil)
		time.Sleep(time.Second)
		if n := lines(); n != 1 {
			t.Errorf("after a commit the log has %d lines", n)
		}
		cancel()
		watching.Wait()
	})
}

// onlyLevel enables all lines.
type onlyLevel struct{ *slowLog }

func (onlyLevel) Enabled(context.Context, slog.Level) bool { return true }
