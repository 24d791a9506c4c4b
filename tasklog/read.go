package tasklog

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/taskengine/taskengine/task"
)

// slack is how far clocks may be set back without a line being missed: a segment is skipped if it
// was last written longer than that before the task was created.
const slack = time.Hour

// ErrBadCursor is returned for text that is not a [Cursor].
var ErrBadCursor = errors.New("not a cursor of a task's log")

// Cursor is a position in a log: the end of the lines read so far. The zero Cursor is the beginning. In a store, segment is the time of a
// piece, and offset how many bytes of it were read; 0 is all.
type Cursor struct{ segment, offset int64 }

// String formats a cursor, "" for the zero one.
func (c Cursor) String() string {
	if c == (Cursor{}) {
		return ""
	}
	return fmt.Sprintf("%d-%d", c.segment, c.offset)
}

// ParseCursor parses the result of [Cursor.String].
func ParseCursor(s string) (Cursor, error) {
	if s == "" {
		return Cursor{}, nil
	}
	segment, offset, _ := strings.Cut(s, "-")
	c := Cursor{}
	var errs [2]error
	c.segment, errs[0] = strconv.ParseInt(segment, 10, 64)
	c.offset, errs[1] = strconv.ParseInt(offset, 10, 64)
	if errs != [2]error{} || c.segment < 0 || c.offset < 0 {
		return Cursor{}, fmt.Errorf("%.40q: %w", s, ErrBadCursor)
	}
	return c, nil
}

// Reader reads the log of one task. It is used by one goroutine at a time.
type Reader struct {
	log   *Log    // nil: no lines are written here
	store *Stored // nil: the lines are in files
	id    task.ID
	since time.Time
	at    Cursor
}

// Reader returns a reader of a task's log that begins at a cursor. since is when the task was
// created, or zero if that is unknown. Segments that were written before since are skipped.
func (l *Log) Reader(id task.ID, since time.Time, at Cursor) *Reader {
	if l.store != nil {
		return &Reader{log: l, store: l.store, id: id, at: at}
	}
	if !since.IsZero() {
		since = since.Add(-slack)
	}
	return &Reader{log: l, id: id, since: since, at: at}
}

// Cursor returns the place after the last line that was read.
func (r *Reader) Cursor() Cursor { return r.at }

// Lines returns the unread lines in the order of logging: at least all kept lines that were logged
// before the call. The next call continues after the last line. The sequence ends after an error.
func (r *Reader) Lines(ctx context.Context) iter.Seq2[Line, error] {
	if r.store != nil {
		return r.stored(ctx)
	}
	return func(yield func(Line, error) bool) {
		if err := r.log.Flush(ctx); err != nil {
			yield(Line{}, err)
			return
		}
		parts, err := r.log.shelf.parts(r.at.segment, r.since)
		if err != nil {
			yield(Line{}, fmt.Errorf("read the task log: %w", err))
			return
		}
		for _, p := range parts {
			if p.segment.number != r.at.segment {
				r.at = Cursor{segment: p.segment.number}
			}
			more, err := r.part(ctx, p, yield)
			if err != nil {
				yield(Line{}, fmt.Errorf("read the task log: %w", err))
				return
			}
			if !more {
				return
			}
		}
	}
}

// part reads the rest of a segment. It reports whether to read on.
func (r *Reader) part(ctx context.Context, p part, yield func(Line, error) bool) (bool, error) {
	if r.at.offset >= p.size {
		return true, nil
	}
	f, err := r.log.shelf.disk.open(p.segment.number)
	if errors.Is(err, fs.ErrNotExist) { // it was removed since
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	if has, err := r.log.shelf.mayHave(ctx, f, p.segment, r.id); err != nil {
		return false, err
	} else if !has {
		r.at.offset = p.size
		return true, nil
	}
	prefix, _ := r.id.AppendText([]byte(linePrefix))
	prefix = append(prefix, '"')
	more := true
	end, err := eachLine(ctx, f, r.at.offset, p.size, func(line []byte, end int64) bool {
		if !bytes.HasPrefix(line, prefix) {
			return true
		}
		l, err := decode(line)
		if err != nil { // it was cut by a crash
			return true
		}
		r.at.offset = end
		more = yield(l, nil)
		return more
	})
	if err != nil || !more {
		return more, err
	}
	r.at.offset = max(r.at.offset, end)
	return true, nil
}

// part is the part of a segment that is written.
type part struct {
	segment *segment
	size    int64
}

// parts returns the segments from one on that were written to after a time.
func (s *shelf) parts(from int64, since time.Time) ([]part, error) {
	if err := s.load(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []part
	for _, seg := range s.segments {
		if seg.number >= from && !seg.changed.Before(since) {
			all = append(all, part{seg, seg.size})
		}
	}
	return all, nil
}

// mayHave reports false only if a segment has no lines of a task.
func (s *shelf) mayHave(ctx context.Context, f file, seg *segment, id task.ID) (bool, error) {
	for {
		s.mu.Lock()
		from, to := seg.indexed, seg.size
		if from == to {
			has := seg.filter != nil && seg.filter.mayHave(id)
			s.mu.Unlock()
			return has, nil
		}
		s.mu.Unlock()
		found := newFilter(s.maxSegment, s.seed)
		_, err := eachLine(ctx, f, from, to, func(line []byte, _ int64) bool {
			if id, ok := lineID(line); ok {
				found.add(id)
			}
			return true
		})
		if err != nil {
			return false, err
		}
		s.mu.Lock()
		if seg.indexed == from { // else another reader has indexed it
			if seg.filter == nil {
				seg.filter = found
			} else {
				seg.filter.join(found)
			}
			seg.indexed = to
		}
		s.mu.Unlock()
	}
}

// checkEvery is how many lines are read between two checks of a context.
const checkEvery = 1 << 10

// eachLine calls fn with each complete line of a file between two offsets and the offset after
// it, until fn returns false. It skips a line that begins before from, and one that is longer
// than a line can be. It returns the offset after the last line that it has read.
func eachLine(ctx context.Context, f file, from, to int64, fn func(line []byte, end int64) bool) (int64, error) {
	at := max(0, from-1) // where the line before ends, if from is right
	in := bufio.NewReaderSize(io.NewSectionReader(f, at, to-at), 4*MaxLine)
	whole := from == 0
	for n := 0; ; n++ {
		if n%checkEvery == 0 && ctx.Err() != nil {
			return at, context.Cause(ctx)
		}
		line, err := in.ReadSlice('\n')
		at += int64(len(line))
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			whole = false
			continue
		case errors.Is(err, io.EOF): // the rest is an incomplete line
			return at, nil
		case err != nil:
			return at, err
		}
		if whole && !fn(line, at) {
			return at, nil
		}
		whole = true
	}
}
