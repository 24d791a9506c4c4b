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
	if value == nil {
		delete(s.settings, name)
		return nil
	}
	s.settings[name] = bytes.Clone(value)
	return nil
}
