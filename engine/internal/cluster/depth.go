package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Bounds of the reads of the monitor to find the depths, each time.
const (
	mostTypes = 100   // types that are not configured
	mostHeads = 100   // reads to find the oldest task of a type
	mostKeys  = 1_000 // ordering keys with tasks behind their heads
	mostKinds = 1_000 // kinds of errors of a type
	queuePage = 100   // queues that are listed at once

	// For a store that does not count while rows change.
	mostReady   = 10_000 // submitted tasks of a type
	mostPages   = 500    // reads to count them
	mostWaiting = 10_000 // waiting tasks of all types
	mostErrors  = 1_000  // tasks in error of all types, of a store without an index of kinds
	mostBehind  = 1_000  // tasks behind the head of an ordering key
	mostOrdered = 10_000 // tasks behind heads
	mostScanned = 20_000 // rows that are read to find them

	depthsPatience = 10 * time.Second // for all reads together
)

// Depths says how many tasks are waiting, submitted or in error, as the monitor saw last.
type Depths struct {
	At    time.Time // when it looked, by the clock of the tasks
	Types []Depth   // of each type that has such tasks, sorted by type

	// ErrorsCut says that there may be more tasks in error than are counted, also of types that are left out.
	ErrorsCut bool
}

// errors returns how many tasks are in error, as a store counts them.
func (d *Depths) errors() map[storage.StateType]int64 {
	counts := make(map[storage.StateType]int64)
	for _, t := range d.Types {
		if t.Error > 0 {
			counts[storage.StateType{State: task.Error, Type: t.Type}] = t.Error
		}
	}
	return counts
}

// Depth is the part of [Depths] of one type.
type Depth struct {
	Type                      string
	Waiting, Submitted, Error int64     // tasks in these states
	Kinds                     int       // how many kinds of errors its tasks in error have; 0 if the store does not count them
	Oldest                    time.Time // the least Rank.ReadyAt of its submitted tasks; zero if there is none, or it was not looked for
	More                      bool      // a bound was met: there may be more tasks, or an older one
}

// Depths returns the latest depths of Monitor, of the last half minute, unless the store is slow. It
// reports false if the duty of Monitor is another node's, or the store could not be read.
func (k *Cluster) Depths() (Depths, bool) {
	if d := k.depths.Load(); d != nil {
		return Depths{d.At, slices.Clone(d.Types), d.ErrorsCut}, true
	}
	return Depths{}, false
}

// lookForDepths replaces the depths. counts comes from the store; nil if it does not count.
func (k *Cluster) lookForDepths(ctx context.Context, counts map[storage.StateType]int64) {
	bounded, cancel := context.WithTimeout(ctx, depthsPatience)
	defer cancel()
	d := depths{store: k.store, types: make(map[string]*Depth)}
	k.engine.Decide(func(_ *core.Core, now time.Time) { d.at = now })
	var err error
	if counts == nil {
		err = d.count(bounded, k.config.Types)
	} else {
		err = d.complete(bounded, counts, k.config.Types)
	}
	if err != nil {
		k.depths.Store(nil)
		if ctx.Err() == nil && k.depthsLog.Allow() {
			k.log.Warn("how many tasks there are could not be read; metrics and alerts lack it until the next try", "error", err)
		}
		return
	}
	k.depths.Store(&Depths{At: d.at, Types: d.sorted(), ErrorsCut: d.isCut})
}

// depths are found by one goroutine.
type depths struct {
	store storage.Store
	at    time.Time
	types map[string]*Depth
	isCut bool // there may be more tasks in error
	left  int  // how many reads of the type that is being read may follow
}

func (d *depths) of(typ string) *Depth {
	if d.types[typ] == nil {
		d.types[typ] = &Depth{Type: typ}
	}
	return d.types[typ]
}

func (d *depths) sorted() []Depth {
	all := make([]Depth, 0, len(d.types))
	for _, typ := range slices.Sorted(maps.Keys(d.types)) {
		all = append(all, *d.types[typ])
	}
	return all
}

// complete takes the counts of the store, and looks for the oldest task of each configured type, and of
// some others.
func (d *depths) complete(ctx context.Context, counts map[storage.StateType]int64, configured []string) error {
	var others []string
	for of, tasks := range counts {
		switch t := d.of(of.Type); of.State {
		case task.Waiting:
			t.Waiting = tasks
		case task.Submitted:
			t.Submitted = tasks
			if _, ok := slices.BinarySearch(configured, of.Type); !ok {
				others = append(others, of.Type)
			}
		case task.Error:
			t.Error = tasks
		}
	}
	if _, err := d.countErrors(ctx, false); err != nil {
		return err
	}
	if err := d.readBehind(ctx, false); err != nil {
		return err
	}
	slices.Sort(others)
	for i, typ := range slices.Concat(configured, others) {
		t := d.types[typ]
		switch {
		case t == nil || t.Submitted == 0:
		case i >= len(configured)+mostTypes:
			t.More = true
		default:
			if err := d.findOldest(ctx, typ); err != nil {
				return err
			}
		}
	}
	return nil
}

// count counts the tasks of a store that does not count them itself, up to the bounds.
func (d *depths) count(ctx context.Context, configured []string) error {
	if err := d.countReady(ctx, configured); err != nil {
		return err
	}
	if err := d.readBehind(ctx, true); err != nil {
		return err
	}
	waiting, err := d.store.Due(ctx, storage.DueQuery{State: task.Waiting, Before: storage.DistantFuture, Limit: mostWaiting})
	if err != nil {
		return fmt.Errorf("count waiting tasks: %w", err)
	}
	for _, w := range waiting {
		t := d.of(w.Type)
		t.Waiting++
		t.More = t.More || len(waiting) == mostWaiting
	}
	s, ok := d.store.(storage.Inspector)
	if !ok {
		return nil
	}
	page, err := s.List(ctx, storage.ListQuery{Filter: storage.Filter{States: []task.State{task.Error}}, Limit: mostErrors, Scan: mostScanned})
	if err != nil {
		return fmt.Errorf("count tasks in error: %w", err)
	}
	cut := !page.Next.IsZero()
	// The index does not have tasks without the text of an error.
	indexed := cut && !slices.ContainsFunc(page.Tasks, func(t *task.Task) bool { return t.LastError == "" })
	if counted, err := d.countErrors(ctx, indexed); err != nil || counted && indexed {
		return err
	}
	d.isCut = cut
	for _, f := range page.Tasks {
		t := d.of(f.Type)
		t.Error++
		t.More = t.More || cut
	}
	return nil
}

// countErrors counts the kinds of errors of the tasks in error by an index of the store, and with adds also these tasks. It reports false if
// they cannot be counted so.
func (d *depths) countErrors(ctx context.Context, adds bool) (bool, error) {
	s, ok := d.store.(storage.KindCounter)
	if !ok {
		return false, nil
	}
	counts, complete, err := s.CountKinds(ctx, nil, mostKinds)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("count kinds of errors: %w", err)
	case !complete:
		return false, nil
	}
	type kind struct {
		of  task.ErrorKind
		typ string
	}
	seen := make(map[kind]bool)
	for _, c := range counts {
		t := d.of(c.Type)
		if one := (kind{c.Kind, c.Type}); !seen[one] {
			seen[one] = true
			t.Kinds++
		}
		if adds {
			t.Error += c.Rows
		}
	}
	return true, nil
}

// countReady counts the submitted tasks of each configured type, and of some others.
func (d *depths) countReady(ctx context.Context, configured []string) error {
	for _, typ := range configured {
		if err := d.countType(ctx, typ); err != nil {
			return err
		}
	}
	others := 0
	return EachReadyType(ctx, d.store, func(first task.Queue) (bool, error) {
		if _, ok := slices.BinarySearch(configured, first.Type); ok {
			return true, nil
		}
		others++
		return others < mostTypes, d.countType(ctx, first.Type)
	})
}

// countType counts the submitted tasks of a type that are in queues.
func (d *depths) countType(ctx context.Context, typ string) error {
	d.left = mostPages
	return d.eachQueue(ctx, typ, func(q task.Queue) (bool, error) {
		n := 0
		if t := d.types[typ]; t != nil {
			n = int(t.Submitted)
		}
		found, err := d.readQueue(ctx, q, mostReady-n)
		if found > 0 {
			d.of(typ).Submitted += int64(found)
		}
		return n+found < mostReady, err
	})
}

// findOldest finds the oldest submitted task of a type.
func (d *depths) findOldest(ctx context.Context, typ string) error {
	d.left = mostHeads
	return d.eachQueue(ctx, typ, func(q task.Queue) (bool, error) {
		_, err := d.readQueue(ctx, q, 1)
		return true, err
	})
}

// eachQueue calls visit with the queues of a type, and with one that may be empty, until visit returns false
// or an error, or no read is left. If it stops before the end, the type has more.
func (d *depths) eachQueue(ctx context.Context, typ string, visit func(task.Queue) (bool, error)) error {
	queues := []task.Queue{{Type: typ}} // the first one that there may be
	for len(queues) > 0 {
		for _, q := range queues {
			if q.Type != typ {
				return nil
			}
			goesOn, err := visit(q)
			if err != nil {
				return fmt.Errorf("read ready tasks of type %s: %w", typ, err)
			}
			if !goesOn || d.left <= 0 {
				d.of(typ).More = true
				return nil
			}
		}
		var err error
		if queues, err = d.store.Queues(ctx, queues[len(queues)-1], queuePage); err != nil {
			return fmt.Errorf("list the queues of type %s: %w", typ, err)
		}
	}
	return nil
}

// readQueue reads the first tasks of a queue, at most limit, and of each priority below them the first one,
// which is the oldest of its priority.
func (d *depths) readQueue(ctx context.Context, q task.Queue, limit int) (n int, err error) {
	page, err := d.read(ctx, q, nil, limit)
	for n = len(page); err == nil && len(page) == limit; limit = 1 {
		last := task.Rank{Priority: page[len(page)-1].Priority, ReadyAt: math.MaxInt64}
		page, err = d.read(ctx, q, &last, 1)
	}
	return n, err
}

// read reads some tasks of a queue, and notes the oldest.
func (d *depths) read(ctx context.Context, q task.Queue, after *task.Rank, limit int) ([]task.Trigger, error) {
	d.left--
	page, err := d.store.Ready(ctx, storage.ReadyQuery{Queue: q, After: after, Limit: limit})
	for _, tr := range page {
		d.of(q.Type).isReady(time.UnixMicro(tr.ReadyAt))
	}
	return page, err
}

// isReady notes a submitted task that has been ready since at.
func (t *Depth) isReady(at time.Time) {
	if t.Oldest.IsZero() || at.Before(t.Oldest) {
		t.Oldest = at
	}
}
