package tasklog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"slices"
	"sync"
	"time"
)

const (
	// segmentShare is the least number of segments that a log is divided into.
	segmentShare = 16
	// maxSegment is how many bytes a segment may have.
	maxSegment = 16 << 20
)

// shelf has the segments of a log. One goroutine, the writer, appends; any goroutine may read.
type shelf struct {
	disk       disk
	maxBytes   int64 // of all segments
	maxSegment int64
	seed       maphash.Seed

	mu       sync.Mutex
	segments []*segment // guarded by mu: the oldest first
	listed   bool       // guarded by mu: segments has the existing files of the disk

	newest file // owned by the writer: the last segment, nil when it is not open
}

// segment is a part of a log. Its content up to size never changes, but for lines that are overwritten, see [Log.Erase]. Its fields are
// guarded by the shelf's mutex.
type segment struct {
	number  int64
	size    int64 // bytes, all of them complete lines but for one that a crash has cut
	changed time.Time

	filter  *filter // of the tasks that lines up to indexed are of; nil if indexed is 0
	indexed int64
}

func newShelf(d disk, most int64) *shelf {
	return &shelf{disk: d, maxBytes: most, maxSegment: min(maxSegment, most/segmentShare), seed: maphash.MakeSeed()}
}

// load lists the segments that were on the disk when the log was opened.
func (s *shelf) load() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listed {
		return nil
	}
	entries, err := s.disk.list()
	if err != nil {
		return fmt.Errorf("list the segments: %w", err)
	}
	for _, e := range entries {
		s.segments = append(s.segments, &segment{number: e.number, size: e.size, changed: e.changed})
	}
	slices.SortFunc(s.segments, func(a, b *segment) int { return cmp.Compare(a.number, b.number) })
	s.listed = true
	return nil
}

// append appends lines. It returns the lines that were not written, and the error. Only the writer
// calls it.
func (s *shelf) append(lines []byte) (rest []byte, err error) {
	for len(lines) > 0 {
		seg, err := s.open(bytes.IndexByte(lines, '\n') + 1)
		if err != nil {
			return lines, err
		}
		part := lines[:s.fitting(seg, lines)]
		if _, err := s.newest.Write(part); err != nil {
			return lines, errors.Join(fmt.Errorf("write lines: %w", err), s.leave())
		}
		s.grow(seg, part)
		lines = lines[len(part):]
	}
	return nil, nil
}

// fitting returns how many bytes of lines fit into a segment that has room for the first line.
func (s *shelf) fitting(seg *segment, lines []byte) int {
	room := s.maxSegment - seg.size // only the writer changes the size
	if int64(len(lines)) <= room {
		return len(lines)
	}
	return bytes.LastIndexByte(lines[:room], '\n') + 1
}

// grow updates a segment after lines were appended to it.
func (s *shelf) grow(seg *segment, part []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seg.indexed == seg.size {
		if seg.filter == nil {
			seg.filter = newFilter(s.maxSegment, s.seed)
		}
		for line := range bytes.Lines(part) {
			if id, ok := lineID(line); ok {
				seg.filter.add(id)
			}
		}
		seg.indexed += int64(len(part))
	}
	seg.size += int64(len(part))
	seg.changed = time.Now()
}

// open opens a segment with room for a line of the given size, and returns it.
func (s *shelf) open(line int) (*segment, error) {
	if err := s.load(); err != nil {
		return nil, err
	}
	seg := s.last()
	// One byte is reserved to end a line that a crash has cut.
	if seg != nil && seg.size+int64(line) < s.maxSegment {
		return seg, s.reopen(seg)
	}
	if err := s.leave(); err != nil {
		return nil, err
	}
	if err := s.trim(s.maxSegment, 0); err != nil {
		return nil, err
	}
	next := &segment{number: time.Now().UnixMilli()} // never the number of a removed segment
	if seg != nil {
		next.number = max(next.number, seg.number+1)
	}
	f, err := s.disk.append(next.number)
	if err != nil {
		return nil, fmt.Errorf("begin a segment: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.segments = append(s.segments, next)
	s.newest = f
	return next, nil
}

// reopen opens the newest segment unless it is open, and removes the rest of a write that
// failed.
func (s *shelf) reopen(seg *segment) error {
	if s.newest != nil {
		return nil
	}
	if err := s.trim(s.maxSegment-seg.size, 1); err != nil {
		return err
	}
	f, err := s.disk.append(seg.number)
	if err != nil {
		return fmt.Errorf("open a segment: %w", err)
	}
	if err := s.mend(f, seg); err != nil {
		return errors.Join(fmt.Errorf("mend a segment: %w", err), f.Close())
	}
	s.newest = f
	return nil
}

// mend truncates a file to the size of its segment, and ends a line that a crash has cut, so that
// no other line is appended to that.
func (s *shelf) mend(f file, seg *segment) error {
	size, err := f.size()
	if err != nil {
		return err
	}
	if size > seg.size {
		if err := f.truncate(seg.size); err != nil {
			return err
		}
	}
	if size < seg.size { // it was truncated by another program
		s.mu.Lock()
		seg.size, seg.indexed = size, min(seg.indexed, size)
		s.mu.Unlock()
	}
	if seg.size == 0 {
		return nil
	}
	end := make([]byte, 1)
	if _, err := f.ReadAt(end, seg.size-1); err != nil {
		return err
	}
	if end[0] == '\n' {
		return nil
	}
	if _, err := f.Write([]byte("\n")); err != nil {
		return err
	}
	s.grow(seg, []byte("\n"))
	return nil
}

// leave closes the newest segment.
func (s *shelf) leave() error {
	if s.newest == nil {
		return nil
	}
	f := s.newest
	s.newest = nil
	if err := f.Close(); err != nil {
		return fmt.Errorf("close a segment: %w", err)
	}
	return nil
}

// trim removes the oldest segments until room more bytes fit, but keeps at least the stay newest
// segments.
func (s *shelf) trim(room int64, stay int) error {
	for {
		s.mu.Lock()
		var total int64
		for _, seg := range s.segments {
			total += seg.size
		}
		if total+room <= s.maxBytes || len(s.segments) <= stay {
			s.mu.Unlock()
			return nil
		}
		oldest := s.segments[0]
		s.mu.Unlock()
		if err := s.disk.remove(oldest.number); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the oldest segment: %w", err)
		}
		s.mu.Lock()
		s.segments = s.segments[1:]
		s.mu.Unlock()
	}
}

func (s *shelf) last() *segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.segments) == 0 {
		return nil
	}
	return s.segments[len(s.segments)-1]
}
