package consume

import (
	"sync"
)

// Stats are what a node has done for a source since it started.
type Stats struct {
	Records, Tasks, Unread, Skipped uint64
	Lost                            uint64 // offsets that could not be read, or of records that the brokers have lost
	Lag                             int64  // of the partitions that this node reads
	Reading                         int    // how many partitions these are
	Waiting                         string // why one of them waits; "" if none does
}

// stats counts.
type stats struct {
	mu    sync.Mutex
	all   Stats            // guarded by mu
	lags  map[place]int64  // guarded by mu: by partition that this node reads; -1 if it is not known
	waits map[place]string // guarded by mu: why it waits
}

func newStats() *stats { return &stats{lags: make(map[place]int64), waits: make(map[place]string)} }

// committed counts what a transaction has done, which has moved a position.
func (s *stats) committed(was, now *position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all.Records += now.Records - was.Records
	s.all.Tasks += now.Tasks - was.Tasks
	s.all.Unread += now.Unread - was.Unread
	s.all.Skipped += now.Skipped - was.Skipped
}

func (s *stats) lost(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all.Lost += uint64(n)
}

// read notes the lag of a partition that this node reads, and why it waits.
func (s *stats) read(at place, lag int64, waits string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lags[at] = lag
	if s.waits[at] = waits; waits == "" {
		delete(s.waits, at)
	}
}

// left notes that this node does not read a partition any more.
func (s *stats) left(at place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.lags, at)
	delete(s.waits, at)
}

func (s *stats) get() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.all
	for _, lag := range s.lags {
		all.Lag += max(0, lag)
	}
	all.Reading = len(s.lags)
	for _, why := range s.waits {
		all.Waiting = why
	}
	return all
}
