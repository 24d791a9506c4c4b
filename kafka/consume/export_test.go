package consume

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
