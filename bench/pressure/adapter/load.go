package adapter

import (
	"bufio"
	"context"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// bulk is the least number of jobs of a token that are inserted in one call although PRODUCER_BATCH_MAX is less: a burst.
const bulk = 500

// inserters is the number of goroutines that insert. A job waits if all of them are busy.
const inserters = 512

// arrival is a number of jobs that arrived together and are inserted in one call.
type arrival struct {
	at time.Time
	n  int
}

// load has the jobs that have arrived and that no inserter has taken yet. No limit applies: an open load does not wait for
// the queue that it loads.
type load struct {
	batch int // the most jobs of an arrival

	mu      sync.Mutex
	changed *sync.Cond
	waiting []arrival // guarded by mu
	closed  bool      // guarded by mu
}

func newLoad(batch int) *load {
	l := &load{batch: batch}
	l.changed = sync.NewCond(&l.mu)
	return l
}

// add divides jobs that arrive together into arrivals.
func (l *load) add(at time.Time, n int) {
	batch := l.batch
	if n >= bulk {
		batch = n
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for ; n > 0; n -= batch {
		l.waiting = append(l.waiting, arrival{at, min(n, batch)})
	}
	l.changed.Broadcast()
}

// take returns the next arrival, and false after close.
func (l *load) take() (arrival, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.waiting) == 0 && !l.closed {
		l.changed.Wait()
	}
	if l.closed {
		return arrival{}, false
	}
	a := l.waiting[0]
	l.waiting = l.waiting[1:]
	return a, true
}

// close drops the arrivals that wait.
func (l *load) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.changed.Broadcast()
}

// follow adds the jobs of tokens until the input ends.
func (l *load) follow(in io.Reader) {
	for s := bufio.NewScanner(in); s.Scan(); {
		if n := tokenOf(s.Text()); n > 0 {
			l.add(time.Now(), n)
		}
	}
}

// pace adds jobs at a rate, by the time that has really passed.
func (l *load) pace(ctx context.Context, c Config, target *atomic.Uint64) {
	tick := time.NewTicker(c.BatchTime)
	defer tick.Stop()
	credit, last := 0.0, time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		rate := rateOf(c)
		target.Store(uint64(rate))
		now := time.Now()
		credit += rate * now.Sub(last).Seconds()
		last = now
		n := int(credit)
		credit -= float64(n)
		for ; n > 0; n -= c.BatchMax {
			l.add(now, min(n, c.BatchMax))
		}
	}
}

// rateOf returns the rate of the control file, or that of the settings.
func rateOf(c Config) float64 {
	if c.RateFile == "" {
		return c.Rate
	}
	text, err := os.ReadFile(c.RateFile)
	if err != nil {
		return c.Rate
	}
	rate, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	if err != nil || rate < 0 {
		return c.Rate
	}
	return rate
}

// payloadOf returns the payload of a job that arrived at a time: the time, and as many letters as it takes.
func payloadOf(at time.Time, size int) []byte {
	b := strconv.AppendInt(make([]byte, 0, max(size, 20)), at.UnixNano(), 10)
	for b = append(b, ' '); len(b) < size; {
		b = append(b, 'x')
	}
	return b
}

// arrivedAt reads the time from a payload.
func arrivedAt(payload []byte) (time.Time, bool) {
	text, _, _ := strings.Cut(string(payload), " ")
	ns, err := strconv.ParseInt(text, 10, 64)
	return time.Unix(0, ns), err == nil
}
