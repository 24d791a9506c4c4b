package zk

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/taskengine/taskengine/coord/cells"
)

// A server ends the connection of a client that sends more bytes in a request than it takes (jute.maxbuffer, 1 MiB by
// default), without an answer. So a request of more than smallRequest bytes is sent only after a server has answered one of
// that size on a connection of its own that changes nothing.
const (
	smallRequest  = 4 << 10
	usualRequest  = 256 << 10
	largeRequest  = 1_000_000 // the default limit of servers, less the part that the library adds
	maxChanges    = 1000      // in one transaction
	valueOverhead = 2 << 10   // bytes of a request with one change beside its value
)

// sizes is how large requests may be, as far as is known.
type sizes struct {
	mu     sync.Mutex
	proved int // guarded by mu: a server has answered a request with so many bytes; 0: see smallRequest
	failed int // guarded by mu: a server has ended the connection twice after one with so many bytes; 0: none did
}

func (s *sizes) get() (proved, failed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.proved, smallRequest), s.failed
}

// reset forgets the known limits: the servers may have been started with another configuration.
func (s *sizes) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proved, s.failed = 0, 0
}

func (s *sizes) note(bytes int, taken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if taken {
		s.proved = max(s.proved, bytes)
	} else {
		s.failed = bytes
	}
}

// MaxValue implements [cells.Store].
func (s *store) MaxValue() int {
	proved, failed := s.sizes.get()
	if failed == 0 {
		return largeRequest - valueOverhead
	}
	return proved - valueOverhead
}

// partSize returns into parts of how many bytes changes are cut.
func (s *store) partSize() int {
	proved, failed := s.sizes.get()
	if failed == 0 {
		return usualRequest
	}
	return min(proved, usualRequest)
}

// sizeOf returns how many bytes a request with changes has, rounded up.
func (s *store) sizeOf(changes []cells.Change) (size int) {
	for i := range changes {
		size += changes[i].Size() + s.more()
	}
	return size
}

// more returns how many bytes a change takes up because of the prefix.
func (s *store) more() int { return 2 * len(s.options.Prefix) }

// admit makes certain that the servers take a request with changes, and reports false if they take only smaller ones.
func (s *store) admit(ctx context.Context, changes []cells.Change) (bool, error) {
	size := s.sizeOf(changes)
	proved, failed := s.sizes.get()
	if size > proved && failed == 0 {
		next := usualRequest
		if size > next {
			next = largeRequest
		}
		if err := s.prove(ctx, next); err != nil {
			return false, err
		}
		proved, _ = s.sizes.get()
	}
	if size <= proved {
		return true, nil
	}
	if len(changes) == 1 {
		return false, &cells.TooLargeError{Key: changes[0].Was.Key, Size: len(changes[0].Value), Most: min(s.MaxValue(), len(changes[0].Value)-1)}
	}
	return false, nil
}

// prove finds out whether the servers take requests of a size, and if not, of which smaller one.
func (s *store) prove(ctx context.Context, size int) error {
	for ; size > smallRequest; size /= 2 {
		taken, err := s.takes(ctx, size)
		if err != nil {
			return err
		}
		s.sizes.note(size, taken)
		if taken {
			return nil
		}
	}
	return nil
}

// takes reports whether a server takes a request of a size. It does not if it ends the connection after the request twice,
// and not after a small one.
func (s *store) takes(ctx context.Context, size int) (bool, error) {
	for range 2 {
		taken, err := s.sends(ctx, size)
		if taken || err != nil {
			return taken, err
		}
	}
	return false, nil
}

// sends sends a small request and one of a size on a connection of its own, and reports whether both were answered. The
// error is that of the small one.
func (s *store) sends(ctx context.Context, size int) (bool, error) {
	c, err := dial(s.options, s.servers, nil)
	if err != nil {
		return false, err
	}
	defer c.close()
	if _, err := c.await(ctx); err != nil {
		return false, s.explain(err)
	}
	ask := func(path string) error {
		_, err := do(ctx, func() (bool, error) {
			exists, _, err := c.Exists(path)
			return exists, err
		})
		return err
	}
	if err := ask(s.path(clockNode)); err != nil {
		return false, s.explain(err)
	}
	err = ask("/" + strings.Repeat("x", size-100))
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case isLost(err) && !errors.Is(err, errSilent):
		return false, nil
	case errors.Is(err, zk.ErrNoAuth):
		return true, nil
	case err != nil:
		return false, s.explain(err)
	}
	return true, nil
}
