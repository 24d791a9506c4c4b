// Package ratelog bounds how much a program logs about one thing, such as an error that
// repeats until a disk has room again.
package ratelog

import (
	"sync"
	"time"
)

// Limiter admits a bounded number of lines in each period and counts the others. A period
// begins with the first line after the previous period has ended. The zero value admits one
// line a minute. The exported fields must not change after the first use. A Limiter is safe
// for concurrent use and must not be copied.
type Limiter struct {
	Lines int           // admitted in one period; 0 is 1
	Bytes int           // admitted in one period, of all lines; 0 is without bound. A longer line is never admitted
	Per   time.Duration // the period; 0 is a minute

	mu      sync.Mutex
	ends    time.Time // guarded by mu: of the present period
	lines   int       // guarded by mu: admitted in the present period
	bytes   int       // guarded by mu: admitted in the present period
	dropped int       // guarded by mu: lines not admitted since the last call of Dropped
}

// Allow reports whether a line is admitted now. If it is not, Allow counts it.
func (l *Limiter) Allow() bool { return l.AllowSize(0) }

// AllowSize is like Allow for a line of size bytes.
func (l *Limiter) AllowSize(size int) bool {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !now.Before(l.ends) {
		l.ends, l.lines, l.bytes = now.Add(l.period()), 0, 0
	}
	if l.lines >= max(l.Lines, 1) || l.Bytes > 0 && l.bytes+size > l.Bytes {
		l.dropped++
		return false
	}
	l.lines++
	l.bytes += size
	return true
}

func (l *Limiter) period() time.Duration {
	if l.Per == 0 {
		return time.Minute
	}
	return l.Per
}

// Dropped returns how many lines were not admitted since the previous call.
func (l *Limiter) Dropped() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.dropped
	l.dropped = 0
	return n
}
