package handlers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/taskengine/taskengine/task"
)

// HandlerHeader is the header of a task that names the handler of a [Split] that is to run it.
const HandlerHeader = "taskengine-handler"

// Share is one handler of a [Split].
type Share struct {
	Handler task.Handler
	Weight  int // its part of the tasks, relative to the sum of all weights; 0: only tasks that ask for it by HandlerHeader
}

// Split is a [task.Handler] that divides tasks among other handlers, such as two versions of a program of which the new
// one gets few tasks. All attempts of a task go to the same handler unless the weights change.
type Split struct {
	name   string
	names  []string // of the handlers, sorted
	shares map[string]Share
	total  uint64 // of the weights
}

var _ task.Handler = (*Split)(nil)

// NewSplit returns a Split with the given name. The keys of shares are the names of its handlers.
func NewSplit(name string, shares map[string]Share) (*Split, error) {
	s := &Split{name: name, names: slices.Sorted(maps.Keys(shares)), shares: maps.Clone(shares)}
	for _, name := range s.names {
		if shares[name].Weight < 0 {
			return nil, fmt.Errorf("split: the weight of %s is %d; give 0 or more", name, shares[name].Weight)
		}
		s.total += uint64(shares[name].Weight)
	}
	if s.total == 0 {
		return nil, errors.New("split: no handler has a weight")
	}
	return s, nil
}

// Handle implements [task.Handler].
func (s *Split) Handle(ctx context.Context, t *task.Task) ([]byte, error) {
	name := s.choose(t)
	share, found := s.shares[name]
	if !found {
		return nil, task.Permanent(fmt.Errorf("the header %s asks for the handler %q, and there are only %v", HandlerHeader, name, s.names))
	}
	return share.Handler.Handle(ctx, t)
}

// choose returns the name of the handler of a task: the one that its header names, or one chosen by a hash of the last
// eight bytes of its id, which are random.
func (s *Split) choose(t *task.Task) string {
	if name := t.Headers[HandlerHeader]; name != "" {
		return name
	}
	n := mix(binary.BigEndian.Uint64(t.ID[8:])) % s.total
	for _, name := range s.names {
		w := uint64(s.shares[name].Weight)
		if n < w {
			return name
		}
		n -= w
	}
	return "" // not reached: n is below the sum
}

// mix is the finalizer of SplitMix64, by Sebastiano Vigna: each bit of n changes half of the bits of the result.
func mix(n uint64) uint64 {
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}
