package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/backup"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/stores"
	"github.com/taskengine/taskengine/internal/units"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// files describes a store in files that is not in use.
type files struct {
	damage   error            // the first error in its records
	manifest *backup.Manifest // nil if it is no backup
	size     int64
	free     uint64 // bytes of its disk
	total    uint64
	rows     survey
}

// survey describes the rows of a store.
type survey struct {
	now      time.Time
	counts   map[storage.StateType]int64
	dueLate  int64 // waiting, and due for some time
	expired  int64 // submitted, and too late
	future   int64 // changed at a time in the future
	oldest   *task.Task
	pastKeep int64 // ended, and past their retention
	pastMore bool  // pastKeep is a lower bound
}

// pastKeepMost is the number of rows past their retention that are counted.
const pastKeepMost = 100_000

// examineFiles reads all of a store in files; manifest is nil if it is no backup.
func examineFiles(ctx context.Context, found *Findings, p stores.Location, s stores.Store, manifest *backup.Manifest, progress func(read, total int64)) error {
	f := files{manifest: manifest, rows: survey{now: time.Now()}}
	f.damage = check(ctx, s, progress)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := f.measure(p.Path); err != nil {
		return err
	}
	if warning := stores.WarnOfTwo(p.Path); warning != "" {
		found.add(Warning, "driver", warning, "only the store of the driver that is named is examined, backed up and run",
			"examine the other one, too, before it is moved")
	}
	if err := f.rows.take(ctx, s); err != nil && f.damage == nil {
		f.damage = err
	}
	judgeFiles(found, &f)
	return ctx.Err()
}

// check returns the damages of a store that checks itself.
func check(ctx context.Context, s stores.Store, progress func(read, total int64)) error {
	checker, ok := s.(interface {
		CheckWith(ctx context.Context, progress func(rows int64) error) error
	})
	if !ok {
		return nil
	}
	var total int64
	if progress != nil {
		counts, err := s.Count(ctx, storage.Filter{}) // an error is one of the check, too
		for _, n := range counts {
			total += n
		}
		if err != nil {
			total = 0
		}
	}
	return checker.CheckWith(ctx, func(rows int64) error {
		if progress != nil {
			progress(rows, total)
		}
		return ctx.Err()
	})
}

// measure reads the size of the store and the free space of its disk.
func (f *files) measure(folder string) error {
	err := filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			f.size += info.Size()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("measure the store: %w", err)
	}
	usage, err := vfs.Default.GetDiskUsage(folder)
	if err != nil {
		return fmt.Errorf("look at the disk of the store: %w", err)
	}
	f.free, f.total = usage.AvailBytes, usage.TotalBytes
	return nil
}

// take reads the rows that have not ended, and counts the others.
func (v *survey) take(ctx context.Context, s stores.Store) (err error) {
	if v.counts, err = s.Count(ctx, storage.Filter{}); err != nil {
		return err
	}
	open := storage.ListQuery{Limit: 1000, Scan: 1 << 30}
	open.States = []task.State{task.Waiting, task.Submitted, task.Processing, task.Error}
	for more := true; more; more = !open.Before.IsZero() {
		page, err := s.List(ctx, open)
		if err != nil {
			return err
		}
		for _, t := range page.Tasks {
			v.see(t)
		}
		open.Before = page.Next
	}
	for _, state := range []task.State{task.Done, task.Failed, task.Cancelled} {
		past, err := s.Due(ctx, storage.DueQuery{State: state, Before: v.now.Add(-time.Hour), Limit: pastKeepMost})
		if err != nil {
			return err
		}
		v.pastKeep += int64(len(past))
		v.pastMore = v.pastMore || len(past) == pastKeepMost
	}
	return nil
}

func (v *survey) see(t *task.Task) {
	late := !t.NextEventAt.IsZero() && v.now.Sub(t.NextEventAt) > time.Minute
	switch {
	case t.State == task.Waiting && late:
		v.dueLate++
	case t.State == task.Submitted && late:
		v.expired++
	}
	if t.State == task.Submitted && (v.oldest == nil || t.ReadyAt.Before(v.oldest.ReadyAt)) {
		v.oldest = t
	}
	if t.UpdatedAt.Sub(v.now) > time.Minute {
		v.future++
	}
}

func (v *survey) in(s task.State) (n int64) {
	for st, rows := range v.counts {
		if st.State == s {
			n += rows
		}
	}
	return n
}

// The free space below which a disk is reported.
const (
	leastFree    = 1 << 30 // bytes
	leastFreePer = 5       // percent
)

// judgeFiles reports the state of a store in files.
func judgeFiles(found *Findings, f *files) {
	judgeRecords(found, f.damage)
	found.info("size", "%s, of a disk with %s free of %s", units.WholeBytes(f.size), units.WholeBytes(int64(f.free)), units.WholeBytes(int64(f.total)))
	if f.free < leastFree || f.total > 0 && f.free*100/f.total < leastFreePer {
		s := Warning
		if f.free < leastFree/10 {
			s = Error
		}
		found.add(s, "disk", fmt.Sprintf("%s are free", units.WholeBytes(int64(f.free))),
			"a store stops at the first write that fails; acknowledged tasks are safe then, and no more are accepted",
			"make room, or move the store with `taskengine copy`")
	}
	judgeRows(found, &f.rows, f.manifest)
}

func judgeRecords(found *Findings, damage error) {
	if damage == nil {
		found.info("records", "every task has its index entries, and there are no others")
		return
	}
	places := []error{damage}
	if several, ok := damage.(interface{ Unwrap() []error }); ok {
		places = several.Unwrap()
	}
	for _, place := range places {
		found.add(Error, "records", place.Error(),
			"the records of this store do not agree or cannot be read: tasks may be overlooked, not found by their key, or fail when they are touched",
			"keep this folder as it is, and restore a backup; without one, `taskengine copy` to a new store takes over all tasks if only "+
				"entries and keys are wrong, and stops at a task that cannot be read")
	}
}

func judgeRows(found *Findings, v *survey, manifest *backup.Manifest) {
	if v.counts == nil {
		return // it could not be read
	}
	var all int64
	for _, n := range v.counts {
		all += n
	}
	if manifest != nil && all != manifest.Tasks {
		found.add(Error, "backup", fmt.Sprintf("there are %d tasks in it, and %d were backed up", all, manifest.Tasks),
			"a restore refuses it", "use another backup")
	}
	found.info("tasks", "%d: %d are ready, %d wait, %d have ended", all, v.in(task.Submitted), v.in(task.Waiting),
		v.in(task.Done)+v.in(task.Failed)+v.in(task.Cancelled))
	judgeErrors(found, v.in(task.Error))
	if n := v.in(task.Processing); n > 0 {
		found.info("running", "%d tasks were running when the node ended; at its next start `delivery` of their type decides about them", n)
	}
	if v.dueLate > 0 {
		found.info("due", "%d tasks have been due for more than a minute: no node runs", v.dueLate)
	}
	if v.expired > 0 {
		found.info("expired", "%d tasks have not begun in time; they become errors when a node runs", v.expired)
	}
	if v.oldest != nil {
		found.info("oldest", "the task that has been ready for longest has been so for %s: %v, of the type %q", ago(v.now, v.oldest.ReadyAt), v.oldest.ID, v.oldest.Type)
	}
	if v.future > 0 {
		judgeFuture(found, fmt.Sprintf("%d tasks were changed at a time that is to come", v.future))
	}
	if v.pastKeep > 0 {
		more := ""
		if v.pastMore {
			more = "at least "
		}
		found.info("retention", "%s%d tasks that have ended are kept longer than wanted; a node removes them", more, v.pastKeep)
	}
}

func judgeErrors(found *Findings, n int64) {
	if n > 0 {
		found.add(Warning, "errors", fmt.Sprintf("%d tasks are in the state error", n),
			"their attempts or their time are over; they are kept until a person decides",
			"see `taskengine task list --state error`, and then `task resume` or `task fail`")
	}
}

func judgeFuture(found *Findings, what string) {
	found.add(Warning, "clock", what, "retries, delays and time limits go by the clock of the node: it was wrong, or the clock of this machine is",
		"have the clocks of all machines set by NTP")
}
