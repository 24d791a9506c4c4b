package consume

import (
	"cmp"
	"time"
)

// Waiting returns how many bytes of records a source has fetched that its readers have not taken.
func (s *Sources) Waiting(name string) (bytes int) {
	of := s.all[name]
	of.mu.Lock()
	f := of.fetcher
	of.mu.Unlock()
	if f == nil {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.streams {
		bytes += one.bytes
	}
	return bytes
}

// SetPace sets how often the sources save, renew the positions of the group, and look for topics after an error, and how long
// they suspect that records are lost, 0 for the defaults. It is called before they run.
func (s *Sources) SetPace(save, renewal, retryLook, suspicion time.Duration) {
	for _, one := range s.all {
		p := &one.pace
		p.save, p.renewal = cmp.Or(save, p.save), cmp.Or(renewal, p.renewal)
		p.retryLook, p.suspicion = cmp.Or(retryLook, p.retryLook), cmp.Or(suspicion, p.suspicion)
	}
}

// Streams returns how many partitions of a source its client fetches.
func (s *Sources) Streams(name string) int {
	one := s.all[name]
	one.mu.Lock()
	f := one.fetcher
	one.mu.Unlock()
	if f == nil {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.streams)
}
