// Package secret keeps a random secret in the settings of a coordinator, so that all nodes of a cluster have it.
package secret

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"sync"
	"time"

	"github.com/taskengine/taskengine/coord"
)

const (
	// size is how many random bytes a secret has. Its text is longer.
	size = 32

	// again is the least time between two readings because a secret was wrong.
	again = time.Second
)

// Secret is a secret that the nodes of a cluster share: a setting of their coordinator, which the first node makes.
type Secret struct {
	from coord.Config
	name string

	mu    sync.Mutex
	value []byte    // guarded by mu; nil: it was not read
	read  time.Time // guarded by mu: when it was read last
}

// New returns the secret that is the setting with a name. It is read when it is used.
func New(from coord.Config, name string) *Secret { return &Secret{from: from, name: name} }

// Get returns the secret. With anew it is read again, unless it was read just now: it may have been removed with the other
// contents of the coordinator, and made again.
func (s *Secret) Get(ctx context.Context, anew bool) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.value != nil && (!anew || time.Since(s.read) < again) {
		return s.value, nil
	}
	value, err := s.load(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the secret of the cluster: %w", err)
	}
	s.value, s.read = value, time.Now()
	return value, nil
}

// load returns the secret in the settings, and makes one if there is none.
func (s *Secret) load(ctx context.Context) ([]byte, error) {
	all, err := s.from.Settings(ctx, s.name)
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		if one.Scope == "" && len(one.Value) >= size {
			return one.Value, nil
		}
	}
	made := make([]byte, size)
	rand.Read(made)
	made = []byte(base64.RawStdEncoding.EncodeToString(made)) // text, as other settings are
	now, _, err := s.from.Swap(ctx, s.name, "", 0, made)
	switch {
	case err != nil:
		return nil, err
	case len(now.Value) < size:
		return nil, fmt.Errorf("the setting %s is damaged; remove it", s.name)
	}
	return now.Value, nil
}
