package memory

import (
	"bytes"
	"context"
)

// Setting implements [storage.Settings].
func (s *Store) Setting(ctx context.Context, name string) ([]byte, error) {
	return view(ctx, s, func() ([]byte, error) { return bytes.Clone(s.settings[name]), nil })
}

// SetSetting implements [storage.Settings].
func (s *Store) SetSetting(ctx context.Context, name string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	s.set(name, value)
	return nil
}

// SwapSetting implements [storage.Shared].
func (s *Store) SwapSetting(ctx context.Context, name string, old, value []byte) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return false, err
	}
	is, ok := s.settings[name]
	if ok != (old != nil) || !bytes.Equal(is, old) {
		return false, nil
	}
	s.set(name, value)
	return true, nil
}

// set is called with mu held.
func (s *Store) set(name string, value []byte) {
	if value == nil {
		delete(s.settings, name)
		return
	}
	s.settings[name] = bytes.Clone(value)
}
