package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/taskengine/taskengine/internal/pglocks"
	"github.com/taskengine/taskengine/storage/postgres/internal/ended"
	"github.com/taskengine/taskengine/task"
)

// shutFor is how long a table counts as locked after a lock on it was seen.
const shutFor = 10 * time.Second

// avoid routes rows to [ended.Spare] while their own table is locked.
func (s *partitions) avoid(ends []ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.shut) == 0 {
		return
	}
	for i := range ends {
		p := ends[i].partition()
		if at, ok := s.shut[p]; ok && time.Since(at) < shutFor {
			ends[i].spare()
		} else if ok {
			delete(s.shut, p)
		}
	}
}

// noteShut records the locked tables, and reports whether this changes the destination of any row.
func (s *partitions) noteShut(names []string) (isNew bool) {
	if slices.Contains(names, ended.Spare.Name()) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, t := range s.known {
		if !slices.Contains(names, t.name) {
			continue
		}
		at, ok := s.shut[p]
		isNew = isNew || !ok || time.Since(at) >= shutFor
		s.shut[p] = time.Now()
	}
	return isNew
}

// isSpared reports whether a commit that failed with a lock timeout should run again, because its ended rows now go to the
// spare table.
func (s *Store) isSpared(ctx context.Context, cs []task.Change, err error) bool {
	if !pglocks.IsTimeout(err) || !slices.ContainsFunc(cs, func(c task.Change) bool { return finished(c.To) }) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, holdersPatience)
	defer cancel()
	names, err := pglocks.Unwritable(ctx, s.pool, s.partitions.quoted("ended"))
	return err == nil && s.partitions.noteShut(names)
}
