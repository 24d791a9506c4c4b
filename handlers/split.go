package handlers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/taskengine/taskengine/engine/task"
)

// HandlerHeader is the header of a task that names which of the handlers of a [Split] it
// is for.
const HandlerHeader = "taskengine-handler"

// Share is one of the handlers that tasks are divided among.
type Share struct {
	Handler task.Handler
	Weight  int // its part of the tasks, of the sum of all weights; 0 is none but those that ask for it
}

// Split divides tasks among handlers: two versions of a program, say, of which the new one
// gets a few. A task stays with its handler for all attempts, unless the weights change.
type Split struct {
	name   string
	names  []string // in order
	shares map[string]Share
	total  uint64
}

var _ task.Handler = (*Split)(nil)

// NewSplit returns a handler of a name that divides tasks among others, by their names.
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

// Handle has the task handled by the handler whose turn it is.
func (s *Split) Handle(ctx context.Context, t *task.Task) ([]byte, error) {
	name := s.choose(t)
	share, found := s.shares[name]
	if !found {
		return nil, task.Permanent(fmt.Errorf("the header %s asks for the handler %q, and there are only %v", HandlerHeader, name, s.names))
	}
	return share.Handler.Handle(ctx, t)
}

// choose returns the name of the handler of a task: the one that it asks for, or the one
// in whose share of all numbers that of the task lies. The last eight bytes of an id are
// left to chance.
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

// mix spreads what is in a few bits of n over all of them (the finalizer of SplitMix64, by
// Sebastiano Vigna).
func mix(n uint64) uint64 {
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}
