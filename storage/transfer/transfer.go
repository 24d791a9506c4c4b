// Package transfer copies all that one store keeps to another one of any kind, and proves
// that it is there: every row with its payload, result, checkpoint and history, in the
// order of insertion, and the settings.
//
// A copy may be killed at any moment and begun again: rows that are there are left alone,
// and what is missing is added behind them. Until a copy is complete and verified the
// destination has a mark, which keeps nodes and other copies away: see [Unfinished].
package transfer

import (
	"context"
	"errors"
	"fmt"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

// Errors that callers match with [errors.Is].
var (
	// ErrNotEmpty says that the destination has tasks that are not those of the source.
	ErrNotEmpty = errors.New("the destination has other tasks")
	// ErrUnfinished says that a store is the destination of a copy that is not complete.
	ErrUnfinished = errors.New("a copy to this store is not complete")
)

// Source is what is copied. Nobody else changes it meanwhile, or what was in it when the
// copy began is copied.
type Source interface {
	storage.Tasks
	storage.Exporter
}

// Target is where it is copied to. Nobody else changes it meanwhile.
type Target interface {
	storage.Store
	storage.Exporter
	storage.Inspector
	storage.Settings
}

// Options say how to copy.
type Options struct {
	// From names the source, the same for each try.
	From string
	// Merge adds to a destination that has other tasks. What it has is kept: a task whose
	// id or key is taken there by another one is not copied, nor is a setting that is set.
	Merge bool
	// Progress is told how many rows were copied, or read again to verify them; nil is
	// nobody.
	Progress func(verifying bool, rows int64)
}

// Report is what came of a copy.
type Report struct {
	Rows     int64 // of the source
	Added    int64 // of these, those that were not there before
	Settings int   // of the source
	Counts   map[storage.StateType]int64
	Nothing  bool // there was nothing to do: all of it was there, and nothing else

	// The checksums of the rows of the source, and of those of the destination that it
	// should have from there. They are equal if the rows are, in any order.
	Source, Target Checksum

	Differences []Difference // the first of them
	More        int64        // how many there are beyond those
	Complete    bool         // nothing of what should be copied is missing or different
}

// What a call of Insert is given at most, but for the last row.
const (
	batchRows  = 1000
	batchBytes = 4 << 20
)

// Copy copies all of from to an empty destination, or goes on with a copy, and verifies
// it. Differences are no error: see [Report.Differences]. The report is of use even if
// there is an error, which wraps [ErrNotEmpty] or [ErrUnfinished] if nothing was done
// because of what the destination, or the source, is.
func Copy(ctx context.Context, from Source, to Target, o Options) (*Report, error) {
	if o.Progress == nil {
		o.Progress = func(bool, int64) {}
	}
	c := &copier{from: from, to: to, Options: o, taken: make(map[task.ID]task.ID)}
	c.report.Counts = make(map[storage.StateType]int64)
	err := c.run(ctx)
	return &c.report, err
}

type copier struct {
	Options
	from   Source
	to     Target
	report Report

	index    index
	settings []setting
	batch    []*task.Task
	bytes    int
	taken    map[task.ID]task.ID // rows whose key another one has, and which
	broken   bool                // something that was copied is not there, or not the same
}

type setting struct {
	name  string
	value []byte
}

func (c *copier) run(ctx context.Context) error {
	old, err := readMark(ctx, c.to)
	switch {
	case err != nil:
		return err
	case old != nil && old.From != c.From:
		return fmt.Errorf("%w: it came from %s, and this one is from %s; copy from there again, or empty the destination", ErrUnfinished, old.From, c.From)
	case old != nil && old.Merge != c.Merge:
		return fmt.Errorf("%w: it was begun with merge %t; go on with that, or empty the destination", ErrUnfinished, old.Merge)
	case old == nil && !c.Merge:
		empty, err := isEmpty(ctx, c.to)
		if err != nil {
			return err
		}
		if !empty {
			return c.compare(ctx)
		}
	}
	if err := writeMark(ctx, c.to, mark{c.From, c.Merge}); err != nil {
		return err
	}
	if err := c.read(ctx, c.add); err != nil {
		return err
	}
	if err := c.flush(ctx); err != nil {
		return err
	}
	if err := c.set(ctx); err != nil {
		return err
	}
	if err := c.verify(ctx); err != nil {
		return err
	}
	c.report.Complete = !c.broken && (c.Merge || len(c.report.Differences) == 0)
	if !c.report.Complete {
		return nil
	}
	return c.to.SetSetting(ctx, markName, nil)
}

// compare looks whether everything is there already.
func (c *copier) compare(ctx context.Context) error {
	if err := c.read(ctx, func(context.Context, *task.Task) error { return nil }); err != nil {
		return err
	}
	if err := c.verify(ctx); err != nil {
		return err
	}
	if len(c.report.Differences) > 0 {
		return ErrNotEmpty
	}
	c.report.Nothing, c.report.Complete = true, true
	return nil
}

func isEmpty(ctx context.Context, to storage.Inspector) (bool, error) {
	ts, next, err := to.List(ctx, storage.Filter{}, task.ID{}, 1, 1)
	return len(ts) == 0 && next.IsZero(), err
}

// read goes through the source and notes what is in it. It hands each row to use.
func (c *copier) read(ctx context.Context, use func(context.Context, *task.Task) error) error {
	err := c.from.Export(ctx, func(name string, value []byte) error {
		if name == markName {
			return fmt.Errorf("%w: it is no source; complete that copy first", ErrUnfinished)
		}
		c.settings = append(c.settings, setting{name, value})
		return nil
	}, func(t *task.Task) error {
		c.report.Rows++
		c.report.Counts[storage.StateType{State: t.State, Type: t.Type}]++
		c.report.Source.add(c.index.add(t))
		return use(ctx, t)
	})
	c.report.Settings = len(c.settings)
	return err
}

// add copies a row, together with others.
func (c *copier) add(ctx context.Context, t *task.Task) error {
	c.batch = append(c.batch, t)
	c.bytes += len(t.Payload) + len(t.Result) + len(t.Checkpoint())
	if len(c.batch) < batchRows && c.bytes < batchBytes {
		return nil
	}
	return c.flush(ctx)
}

// flush copies the rows of the batch. Those that are there may be those of a try before,
// or others with the same id: to verify tells which.
func (c *copier) flush(ctx context.Context) error {
	if len(c.batch) == 0 {
		return nil
	}
	done, err := c.to.Insert(ctx, c.batch...)
	if err != nil {
		return err
	}
	entries := c.index.rows[len(c.index.rows)-len(c.batch):]
	for i, d := range done {
		if d.Created() {
			c.report.Added++
			continue
		}
		entries[i].old = true
		if id := c.batch[i].ID; d.Existing != id {
			c.taken[id] = d.Existing
		}
	}
	c.batch, c.bytes = c.batch[:0], 0
	c.Progress(false, c.report.Rows)
	return nil
}

// set copies the settings.
func (c *copier) set(ctx context.Context) error {
	for _, s := range c.settings {
		if c.Merge {
			if old, err := c.to.Setting(ctx, s.name); err != nil || old != nil {
				if err != nil {
					return err
				}
				continue
			}
		}
		if err := c.to.SetSetting(ctx, s.name, s.value); err != nil {
			return err
		}
	}
	return nil
}
