package sharded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var _ storage.LogKeeper = (*Store)(nil)

// keeper returns a database as a [storage.LogKeeper].
func (s *Store) keeper(database int) (storage.LogKeeper, error) {
	of, ok := s.databases[database].Store.(storage.LogKeeper)
	if !ok {
		return nil, fmt.Errorf("the store keeps no logs: %w", errors.ErrUnsupported)
	}
	return of, nil
}

// AppendLogs implements [storage.LogKeeper]. A piece goes to the database that holds the shard of its task, as far as is known. Pieces that were appended
// before the shard came there stay where they are. If one database fails, the others may have appended their pieces.
func (s *Store) AppendLogs(ctx context.Context, most int64, pieces ...storage.LogPiece) error {
	if err := storage.CheckLogPieces(pieces); err != nil {
		return fmt.Errorf("sharded: append to logs: %w", err)
	}
	known, parts := s.routes.Load(), make([][]storage.LogPiece, len(s.databases))
	for _, p := range pieces {
		database := max(0, known.of(p.Task.Shard()))
		parts[database] = append(parts[database], p)
	}
	_, err := ask(ctx, &s.verbs, "append to logs", func(database int, _ storage.Tasks) (none struct{}, err error) {
		if len(parts[database]) == 0 {
			return none, nil
		}
		of, err := s.keeper(database)
		if err != nil {
			return none, err
		}
		return none, of.AppendLogs(ctx, most, parts[database]...)
	})
	return err
}

// ReadLog implements [storage.LogKeeper]. It asks all databases.
func (s *Store) ReadLog(ctx context.Context, id task.ID, after int64, size int) ([]storage.LogPiece, bool, error) {
	type page struct {
		pieces []storage.LogPiece
		more   bool
	}
	pages, err := ask(ctx, &s.verbs, "read a log", func(database int, _ storage.Tasks) (p page, err error) {
		of, err := s.keeper(database)
		if err == nil {
			p.pieces, p.more, err = of.ReadLog(ctx, id, after, size)
		}
		return p, err
	})
	if err != nil {
		return nil, false, err
	}
	var all []storage.LogPiece
	more, end := false, int64(0) // behind end, a database may have pieces that are not in its page
	for _, p := range pages {
		all = append(all, p.pieces...)
		if p.more {
			if last := p.pieces[len(p.pieces)-1].At; !more || last < end {
				end = last
			}
			more = true
		}
	}
	slices.SortFunc(all, func(a, b storage.LogPiece) int { return cmp.Compare(a.At, b.At) })
	sum := 0
	for i, p := range all {
		if sum += len(p.Data); i > 0 && (more && p.At > end || sum > size && p.At > all[i-1].At) {
			return all[:i], true, nil
		}
	}
	return all, more, nil
}

// LoggedTasks implements [storage.LogKeeper]. It asks all databases.
func (s *Store) LoggedTasks(ctx context.Context, after task.ID, limit int) ([]task.ID, error) {
	pages, err := ask(ctx, &s.verbs, "look for logs", func(database int, _ storage.Tasks) ([]task.ID, error) {
		of, err := s.keeper(database)
		if err != nil {
			return nil, err
		}
		return of.LoggedTasks(ctx, after, limit)
	})
	if err != nil {
		return nil, err
	}
	all := slices.Concat(pages...)
	slices.SortFunc(all, task.ID.Compare)
	return first(slices.Compact(all), limit), nil
}

// RemoveLogs implements [storage.LogKeeper]. It asks all databases: parts of a log may be where the shard of its task was.
func (s *Store) RemoveLogs(ctx context.Context, ids ...task.ID) error {
	_, err := ask(ctx, &s.verbs, "remove logs", func(database int, _ storage.Tasks) (none struct{}, err error) {
		of, err := s.keeper(database)
		if err != nil {
			return none, err
		}
		return none, of.RemoveLogs(ctx, ids...)
	})
	return err
}

// TrimLogs implements [storage.LogKeeper]. If the databases have too many bytes together, each removes the same part of its own.
func (s *Store) TrimLogs(ctx context.Context, most int64, limit int) (sum int64, err error) {
	left, err := s.trim(ctx, func(int) int64 { return math.MaxInt64 }, 0)
	for _, n := range left {
		sum += n
	}
	if err != nil || sum <= most {
		return sum, err
	}
	part := float64(most) / float64(sum)
	if left, err = s.trim(ctx, func(database int) int64 { return int64(part * float64(left[database])) }, limit); err != nil {
		return 0, err
	}
	sum = 0
	for _, n := range left {
		sum += n
	}
	return sum, nil
}

// trim calls TrimLogs of each database, and returns how many bytes are left in each of them.
func (s *Store) trim(ctx context.Context, most func(database int) int64, limit int) ([]int64, error) {
	return ask(ctx, &s.verbs, "trim logs", func(database int, _ storage.Tasks) (int64, error) {
		of, err := s.keeper(database)
		if err != nil {
			return 0, err
		}
		return of.TrimLogs(ctx, most(database), limit)
	})
}
