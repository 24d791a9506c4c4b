// Package transfer copies the content of one store to another one of any kind, and verifies the
// copy: every row with its payload, result, checkpoint and history, in the order of insertion,
// and the settings. How the nodes of the source coordinate is not copied: it says nothing about the
// nodes that will use the destination. Nor are the settings that change while nodes run, because nodes
// may keep them elsewhere: see [Options].Finish.
//
// A copy may be killed at any time and started again: it keeps existing rows and adds the missing
// rows after them. Until the copy is complete and verified, the destination has a mark, because of
// which nodes and other copies refuse it: see [Unfinished].
package transfer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Errors that callers match with [errors.Is].
var (
	// ErrNotEmpty says that the destination has tasks that the source does not have.
	ErrNotEmpty = errors.New("the destination has other tasks")
	// ErrUnfinished says that a store is the destination of a copy that is not complete.
	ErrUnfinished = errors.New("a copy to this store is not complete")
)

// Source is a store to copy from. If it changes during a copy, the copy has its content from the begin of the
// copy.
type Source interface {
	storage.Tasks
	storage.Exporter
}

// Target is the destination. Nothing else may change it during the copy.
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
	// Merge allows a destination with other tasks. They are kept: a task whose id or key
	// belongs to another task there is not copied, nor is a setting that exists there.
	Merge bool
	// Finish is called when all rows and settings are copied, before the mark is removed. If the copy is
	// killed after that, Finish is called again by the next try. It may be nil.
	Finish func(context.Context) error
	// Progress is called with the number of rows that were copied, or read again to verify
	// them. It may be nil.
	Progress func(verifying bool, rows int64)
}

// Report is the result of a copy.
type Report struct {
	Rows     int64 // of the source
	Added    int64 // of these, rows that the destination did not have before
	Settings int   // of the source
	Counts   map[storage.StateType]int64
	Nothing  bool // there was nothing to do: the destination had exactly the rows of the source

	// The checksums of the rows of the source, and of the rows of the destination that should
	// be copies of them. They are equal if the rows are equal, in any order.
	Source, Target Checksum

	Differences []Difference // the first of them
	More        int64        // how many more there are
	Complete    bool         // nothing is missing or different that should be copied
}

// The bounds of one call of Insert. The last row may exceed them.
const (
	batchRows  = 1000
	batchBytes = 4 << 20
)

// Copy copies all of from to an empty destination, or continues a copy, and verifies it.
// Differences are not an error: see [Report.Differences]. The report is valid even with an error.
// The error wraps [ErrNotEmpty] or [ErrUnfinished] if the state of the destination or of the source
// does not allow a copy; then nothing was done.
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
	taken    map[task.ID]task.ID // rows with a key that belongs to another row, and the ID of that row
	broken   bool                // a row that was copied is missing or different
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
	if c.Finish != nil {
		if err := c.Finish(ctx); err != nil {
			return err
		}
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

// compare checks whether the destination has everything already.
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
	page, err := to.List(ctx, storage.ListQuery{Limit: 1, Scan: 1})
	return len(page.Tasks) == 0 && page.Next.IsZero(), err
}

// read reads the source into the index. It calls use with each row.
func (c *copier) read(ctx context.Context, use func(context.Context, *task.Task) error) error {
	err := c.from.Export(ctx, func(name string, value []byte) error {
		if name == markName {
			return fmt.Errorf("%w: it is no source; complete that copy first", ErrUnfinished)
		}
		if name != storage.CoordinationSetting && !strings.HasPrefix(name, storage.LiveSettings) && !strings.HasPrefix(name, storage.RatesSettings) {
			c.settings = append(c.settings, setting{name, value})
		}
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

// flush copies the rows of the batch. An existing row may be a copy of an earlier try, or another
// row with the same id: verify finds out which.
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
