// Package storecopy copies the tasks of one store to another. It opens both, refuses a source or a
// destination that is not fit for it, and leaves the copying to the package storage/transfer.
package storecopy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/backup"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/coordination"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/database"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/stores"
	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/transfer"
)

// Copy is one copy of a store.
type Copy struct {
	From, To stores.Location
	Merge    bool // add to the tasks of the destination; where both have one, keep that of the destination

	Log      *slog.Logger
	Warn     func(warning string)
	Progress Progress // nil if nothing shows it
}

// Progress shows how far a copy is. Its methods are called one after the other.
type Progress interface {
	Begin(rows int64)                // the rows of the source, once
	Show(verifying bool, rows int64) // how many rows are copied, then how many are verified
	End()                            // once after Begin
}

// Run copies, or goes on with a copy that was interrupted. If the destination is not a copy at the
// end, the report says so; an error means that the copy stopped.
func (c *Copy) Run(ctx context.Context) (report *transfer.Report, err error) {
	if c.From.Driver.InFiles() {
		if err := backup.CheckUndamaged(ctx, c.From.Path); err != nil {
			return nil, fmt.Errorf("the source: %w", err)
		}
	}
	from, err := c.From.Look(ctx, c.Log)
	if err != nil {
		return nil, fmt.Errorf("the source: %w", err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := c.To.Open(ctx, c.Log)
	if err != nil {
		return nil, fmt.Errorf("the destination: %w", err)
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if err := c.checkNodes(ctx); err != nil {
		return nil, err
	}
	o := transfer.Options{
		From: c.From.Name, Merge: c.Merge, Progress: func(bool, int64) {},
		Finish: func(ctx context.Context) error { return c.copyLimits(ctx, from, to) },
	}
	if c.Progress != nil {
		rows, err := rowsOf(ctx, from)
		if err != nil {
			return nil, fmt.Errorf("the source: %w", err)
		}
		c.Progress.Begin(rows)
		defer c.Progress.End()
		o.Progress = c.Progress.Show
	}
	report, err = transfer.Copy(ctx, from, to, o)
	switch {
	case errors.Is(err, transfer.ErrNotEmpty):
		return nil, fmt.Errorf("%w than those of %s, such as: %s; empty it, choose another one, or add to them by --merge",
			err, c.From.Name, firstOf(report.Differences))
	case err != nil:
		return nil, database.OneLine(err)
	}
	return report, nil
}

// copyLimits copies the settings of limits from the coordination of the source to the coordination of
// the destination. A merge keeps the changes of the destination.
func (c *Copy) copyLimits(ctx context.Context, from, to storage.Settings) (err error) {
	source, done, err := coordination.Settings(ctx, c.From, from, c.Log)
	if err != nil {
		return fmt.Errorf("the source: %w", err)
	}
	defer func() { err = errors.Join(err, done()) }()
	all, err := source.Settings(ctx, coord.LimitsSetting)
	if err != nil || len(all) == 0 {
		return err
	}
	target, finished, err := coordination.Settings(ctx, c.To, to, c.Log)
	if err != nil {
		return fmt.Errorf("the destination: %w", err)
	}
	defer func() { err = errors.Join(err, finished()) }()
	for _, s := range all {
		was := coord.Setting{}
		for swapped := false; !swapped; {
			was, swapped, err = target.Swap(ctx, coord.LimitsSetting, s.Scope, was.Version, s.Value)
			if err != nil {
				return fmt.Errorf("copy how the limit %s was changed: %w", s.Scope, err)
			}
			if c.Merge || bytes.Equal(was.Value, s.Value) {
				break
			}
		}
	}
	return nil
}

// checkNodes refuses a destination that nodes use, and warns of a source that they use.
func (c *Copy) checkNodes(ctx context.Context) error {
	names, err := coordination.Alive(ctx, c.To, c.Log)
	if err == nil && len(names) > 0 {
		err = fmt.Errorf("nodes use the destination: %s; stop them first, they would run the tasks that come", strings.Join(names, ", "))
	}
	if err != nil {
		return err
	}
	if names, err = coordination.Alive(ctx, c.From, c.Log); len(names) > 0 {
		c.Warn(fmt.Sprintf("nodes use the source: %s; their later changes are not copied, and they may run copied tasks again",
			strings.Join(names, ", ")))
	}
	return err
}

// rowsOf counts the rows of a store.
func rowsOf(ctx context.Context, s storage.Inspector) (n int64, err error) {
	counts, err := s.Count(ctx, storage.Filter{})
	for _, rows := range counts {
		n += rows
	}
	return n, err
}

func firstOf(ds []transfer.Difference) string {
	if len(ds) == 0 {
		return "none"
	}
	return ds[0].String()
}
