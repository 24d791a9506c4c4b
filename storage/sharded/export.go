package sharded

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/taskengine/taskengine/task"
)

var (
	// ErrMoved is wrapped by the error of an export during which shards were moved.
	ErrMoved = errors.New("shards were moved during the export: export again")

	errEnough = errors.New("no more rows are wanted")
)

// Export implements [storage.Exporter], except that each database is read as it was at another moment,
// all of them close to the beginning. If it may have missed rows because of that, it fails with
// [ErrMoved] or [ErrMoving], after it has called row for others.
func (s *Store) Export(ctx context.Context, setting func(name string, value []byte) error, row func(*task.Task) error) error {
	before, err := s.still(ctx)
	if err != nil {
		return err
	}
	parts := make([]*part, len(s.databases))
	for i := range s.databases {
		parts[i] = s.export(ctx, i)
		defer parts[i].stop()
		if err := parts[i].err; err != nil {
			return fmt.Errorf("sharded: export: %w", s.failed(i, err))
		}
	}
	settings := make(map[string][]byte)
	for i := len(parts) - 1; i >= 0; i-- { // as Setting prefers them
		maps.Copy(settings, parts[i].settings)
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if err := setting(name, settings[name]); err != nil {
			return err
		}
	}
	for i, p := range parts {
		for ; p.row != nil; p.row = p.next() {
			p.row.Seq = outward(i, p.row.Seq)
			if err := row(p.row); err != nil {
				return err
			}
		}
		if p.err != nil {
			return fmt.Errorf("sharded: export: %w", s.failed(i, p.err))
		}
	}
	after, err := s.still(ctx)
	if err == nil && !slices.Equal(after.homes, before.homes) {
		err = fmt.Errorf("sharded: export: %w", ErrMoved)
	}
	return err
}

// still returns where the shards are, or an error if one of them is on its way.
func (s *Store) still(ctx context.Context) (*routes, error) {
	r, err := s.look(ctx)
	if err == nil {
		err = r.why(task.AllShards())
	}
	if err != nil {
		return nil, fmt.Errorf("sharded: export: %w", err)
	}
	return r, nil
}

// part is the export of a database, of which the first row was read.
type part struct {
	settings map[string][]byte
	row      *task.Task // nil at the end
	err      error      // of the database
	next     func() *task.Task
	stop     func()
}

func (s *Store) export(ctx context.Context, database int) *part {
	p := &part{settings: make(map[string][]byte)}
	next, stop := iter.Pull(func(yield func(*task.Task) bool) {
		err := s.databases[database].Store.Export(ctx, func(name string, value []byte) error {
			p.settings[name] = value
			return nil
		}, func(t *task.Task) error {
			if !yield(t) {
				return errEnough
			}
			return nil
		})
		if !errors.Is(err, errEnough) {
			p.err = err
		}
	})
	p.next = func() *task.Task {
		t, _ := next()
		return t
	}
	p.stop, p.row = stop, p.next()
	return p
}
