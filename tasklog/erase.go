package tasklog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/taskengine/taskengine/task"
)

// span is a part of a segment, in bytes.
type span struct{ from, to int64 }

// eraseAtOnce is how many tasks Erase asks about at once.
const eraseAtOnce = 500

// Erase removes all lines of some tasks that were logged before: those among its arguments that erased returns, which is called with the tasks that the log
// has lines of. The lines are overwritten, so the cursors of readers stay right. It returns how many lines it has removed.
func (l *Log) Erase(ctx context.Context, erased func(ctx context.Context, ids []task.ID) ([]task.ID, error)) (lines int, err error) {
	if err := l.Flush(ctx); err != nil {
		return 0, err
	}
	parts, err := l.shelf.parts(0, time.Time{})
	if err != nil {
		return 0, fmt.Errorf("erase lines of the task log: %w", err)
	}
	for _, p := range parts {
		n, err := l.shelf.erase(ctx, p, erased)
		if err != nil {
			return lines, fmt.Errorf("erase lines of the task log: %w", err)
		}
		lines += n
	}
	return lines, nil
}

// erase is Erase for a part of a segment.
func (s *shelf) erase(ctx context.Context, p part, erased func(context.Context, []task.ID) ([]task.ID, error)) (lines int, err error) {
	f, err := s.disk.open(p.segment.number)
	if errors.Is(err, fs.ErrNotExist) { // it was removed since
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	found := make(map[task.ID][]span)
	_, err = eachLine(ctx, f, 0, p.size, func(line []byte, end int64) bool {
		if id, ok := lineID(line); ok {
			found[id] = append(found[id], span{end - int64(len(line)), end - 1})
		}
		return true
	})
	if err != nil {
		return 0, err
	}
	var some []task.ID
	var spans []span
	ask := func() error {
		gone, err := erased(ctx, some)
		for _, id := range gone {
			spans = append(spans, found[id]...)
		}
		some = some[:0]
		return err
	}
	for id := range found {
		if some = append(some, id); len(some) == eraseAtOnce {
			if err := ask(); err != nil {
				return 0, err
			}
		}
	}
	if len(some) > 0 {
		if err := ask(); err != nil {
			return 0, err
		}
	}
	if len(spans) == 0 {
		return 0, nil
	}
	if err := s.disk.blank(p.segment.number, spans); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	return len(spans), nil
}

// blanks returns bytes in place of those of a span. A line of them is no line of a task.
func blanks(of span) []byte { return bytes.Repeat([]byte(" "), int(of.to-of.from)) }
