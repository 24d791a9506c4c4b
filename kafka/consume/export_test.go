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

// Pace is how often sources save, renew the positions of the group, and look for topics after an error, how long they suspect
// that records are lost, and how soon they ask apart about a topic without an answer; 0 for the defaults.
type Pace struct{ Save, Renewal, RetryLook, Suspicion, Quick time.Duration }

// SetPace sets the pace of the sources. It is called before they run.
func (s *Sources) SetPace(to Pace) {
	for _, one := range s.all {
		p := &one.pace
		p.save, p.renewal, p.retryLook = cmp.Or(to.Save, p.save), cmp.Or(to.Renewal, p.renewal), cmp.Or(to.RetryLook, p.retryLook)
		p.suspicion, p.quick = cmp.Or(to.Suspicion, p.suspicion), cmp.Or(to.Quick, p.quick)
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
