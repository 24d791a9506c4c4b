package etcd

import (
	"errors"
	"strings"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/taskengine/taskengine/coord/cells"
)

const (
	// maxRequest is how many bytes of changes are in one transaction. etcd takes 1.5 MiB by default (--max-request-bytes).
	maxRequest = 512 << 10
	// maxValue is the largest size of a value in bytes: the default limit of etcd for a request, less the rest of a request.
	maxValue = 1500 << 10
	// minSize is less than any etcd takes.
	minSize = 4 << 10
)

// sizes are the known limits of etcd: a server may be configured to take less.
type sizes struct {
	request, value atomic.Int64
}

// reset expects that etcd is configured as it is by default.
func (s *sizes) reset() {
	s.request.Store(maxRequest)
	s.value.Store(maxValue)
}

// comparable returns how many bytes of values a request may compare in all.
func (s *sizes) comparable() int { return int(s.request.Load() / 2) }

// compares reports whether a request compares a value, of room bytes that it may still compare. Values that are compared
// make requests larger, so large ones are compared by their revisions alone.
func (s *sizes) compares(value []byte, room *int) bool {
	if len(value) > int(s.request.Load()/16) || len(value) > *room {
		return false
	}
	*room -= len(value)
	return true
}

// refuse notes that etcd did not take a request with some changes. It returns an error if there is only one of them, and
// otherwise nil: smaller requests are to be tried.
func (s *sizes) refuse(changes []cells.Change) error {
	size := 0
	for i := range changes {
		size += changes[i].Size()
	}
	if len(changes) > 1 {
		s.request.Store(int64(max(size/2, minSize)))
		return nil
	}
	value := len(changes[0].Value)
	most := min(int64(value-value/8-1), s.value.Load())
	s.value.Store(max(most, 0))
	s.request.Store(min(s.request.Load(), max(most, minSize)))
	return &cells.TooLargeError{Key: changes[0].Was.Key, Size: value, Most: int(most)}
}

// isTooLarge reports whether etcd, or gRPC here or there, has refused a request because of its size, so that nothing was
// changed.
func isTooLarge(err error) bool {
	return errors.Is(err, rpctypes.ErrRequestTooLarge) ||
		status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "larger than max")
}
