package server

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// leastStandstill is the least time without progress that counts as a standstill of a part of a node.
const leastStandstill = time.Second

// recentStandstill is how long the longest standstill is shown.
const recentStandstill = 10 * time.Minute

// The parts of a node that may stand still.
const (
	standsStore   = "store"   // a commit took that long
	standsProcess = "process" // no goroutine with a timer ran, of a node that works
)

// standstills note how long the parts of a node stood still.
type standstills struct {
	commits chan struct{} // has an element after a commit

	mu    sync.Mutex
	parts map[string]*standing // guarded by mu; the keys do not change
}

// committed notes how long a commit took.
func (s *standstills) committed(took time.Duration) {
	s.note(standsStore, took, time.Now())
	select {
	case s.commits <- struct{}{}:
	default:
	}
}

// standing are the standstills of one part.
type standing struct {
	count   uint64
	total   time.Duration
	longest time.Duration // of recent ones
	at      time.Time     // the end of the longest
}

func newStandstills() *standstills {
	return &standstills{commits: make(chan struct{}, 1), parts: map[string]*standing{standsStore: {}, standsProcess: {}}}
}

// note adds a wait of a part that ended now, and reports whether it was a standstill.
func (s *standstills) note(part string, took time.Duration, now time.Time) bool {
	if took < leastStandstill {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.parts[part]
	p.count++
	p.total += took
	if took >= p.longest || now.Sub(p.at) > recentStandstill {
		p.longest, p.at = took, now
	}
	return true
}

// of returns the standstills of a part. A longest one that is not recent is 0.
func (s *standstills) of(part string, now time.Time) standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := *s.parts[part]
	if now.Sub(p.at) > recentStandstill {
		p.longest = 0
	}
	return p
}

// collect collects the metrics of all parts.
func (s *standstills) collect(out chan<- prometheus.Metric) {
	now := time.Now()
	for _, part := range []string{standsStore, standsProcess} {
		p := s.of(part, now)
		out <- prometheus.MustNewConstMetric(desc("standstill_longest_seconds", "The longest standstill that ended in the last ten minutes: the store took that long for a commit, or the process did not run. A second or more, or 0.", "part"),
			prometheus.GaugeValue, p.longest.Seconds(), part)
		out <- prometheus.MustNewConstMetric(desc("standstill_seconds_total", "How long commits of a second or more took, and how long the process did not run for a second or more.", "part"),
			prometheus.CounterValue, p.total.Seconds(), part)
		out <- prometheus.MustNewConstMetric(desc("standstills_total", "Commits of a second or more, and times that the process did not run for a second or more.", "part"),
			prometheus.CounterValue, float64(p.count), part)
	}
}

const (
	watchBeat  = 100 * time.Millisecond // how often a node that works looks whether it ran
	watchBeats = 100                    // without a commit the node is idle, and not woken
)

// WatchStandstills notices when this process does not run, by a timer that is late, and logs each standstill of the process and
// of the store once, when it is over. The timer runs from a commit until 10 s after the last one. WatchStandstills returns when ctx ends.
func (m *Metrics) WatchStandstills(ctx context.Context, log *slog.Logger) {
	for logged := uint64(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-m.stands.commits:
			logged = m.watchWork(ctx, log, logged)
		}
	}
}

// watchWork watches a node until it is idle. It logs the standstills of the store except for the first logged ones, and returns the number that is logged then.
func (m *Metrics) watchWork(ctx context.Context, log *slog.Logger, logged uint64) uint64 {
	tick := time.NewTicker(watchBeat)
	defer tick.Stop()
	for last, idle := time.Now(), 0; idle < watchBeats; idle++ {
		select {
		case <-ctx.Done():
			return logged
		case <-tick.C:
		}
		now := time.Now()
		if late := now.Sub(last) - watchBeat; m.stands.note(standsProcess, late, now) {
			log.Warn("this process stood still: the machine was paused or had no processor time for it", "for", late.Round(time.Millisecond))
		}
		last = now
		if s := m.stands.of(standsStore, now); s.count > logged {
			log.Warn("the store stood still: commits took a second or more", "commits", s.count-logged, "longest_recently", s.longest.Round(time.Millisecond))
			logged = s.count
		}
		select {
		case <-m.stands.commits:
			idle = 0
		default:
		}
	}
	return logged
}
