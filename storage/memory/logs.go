package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// AppendLogs implements [storage.LogKeeper].
func (s *Store) AppendLogs(ctx context.Context, most int64, pieces ...storage.LogPiece) error {
	if err := storage.CheckLogPieces(pieces); err != nil {
		return fmt.Errorf("memory: append to logs: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	for _, p := range pieces {
		log := s.logs[p.Task]
		if n := len(log); n > 0 {
			if log[n-1].Mark == p.Mark {
				continue
			}
			p.At = max(p.At, log[n-1].At+1)
		}
		p.Data = bytes.Clone(p.Data)
		log = append(log, p)
		first, size := len(log)-1, int64(len(p.Data))
		for first > 0 {
			if size += int64(len(log[first-1].Data)); size > most {
				break
			}
			first--
		}
		s.logs[p.Task] = slices.Clone(log[first:])
	}
	return nil
}

// ReadLog implements [storage.LogKeeper].
func (s *Store) ReadLog(ctx context.Context, id task.ID, after int64, size int) (pieces []storage.LogPiece, more bool, err error) {
	_, err = view(ctx, s, func() (none struct{}, _ error) {
		sum := 0
		for _, p := range s.logs[id] {
			if p.At <= after {
				continue
			}
			if sum += len(p.Data); sum > size && len(pieces) > 0 {
				more = true
				break
			}
			p.Data = bytes.Clone(p.Data)
			pieces = append(pieces, p)
		}
		return none, nil
	})
	return pieces, more, err
}

// LoggedTasks implements [storage.LogKeeper].
func (s *Store) LoggedTasks(ctx context.Context, after task.ID, limit int) ([]task.ID, error) {
	return view(ctx, s, func() (ids []task.ID, _ error) {
		for id := range s.logs {
			if id.Compare(after) > 0 {
				ids = append(ids, id)
			}
		}
		slices.SortFunc(ids, task.ID.Compare)
		return ids[:min(len(ids), max(0, limit))], nil
	})
}

// RemoveLogs implements [storage.LogKeeper].
func (s *Store) RemoveLogs(ctx context.Context, ids ...task.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	for _, id := range ids {
		delete(s.logs, id)
	}
	return nil
}

// TrimLogs implements [storage.LogKeeper].
func (s *Store) TrimLogs(ctx context.Context, most int64, limit int) (size int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return 0, err
	}
	var all []storage.LogPiece
	for _, log := range s.logs {
		for _, p := range log {
			all, size = append(all, p), size+int64(len(p.Data))
		}
	}
	if size <= most {
		return size, nil
	}
	slices.SortFunc(all, func(a, b storage.LogPiece) int { return cmp.Or(cmp.Compare(a.At, b.At), a.Task.Compare(b.Task)) })
	for i := 0; i < min(limit, len(all)) && size > most; i++ {
		p := all[i]
		size -= int64(len(p.Data))
		if log := s.logs[p.Task][1:]; len(log) > 0 {
			s.logs[p.Task] = log
		} else {
			delete(s.logs, p.Task)
		}
	}
	return size, nil
}
