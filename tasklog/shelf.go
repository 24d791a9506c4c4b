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
	// segmentShare is into how many segments a log is divided at least.
	segmentShare = 16
	// maxSegment is how many bytes a segment may have.
	maxSegment = 16 << 20
)

// shelf has the segments of a log. One goroutine, the writer, adds to it; any may read.
type shelf struct {
	disk       disk
	maxBytes   int64 // of all segments
	maxSegment int64
	seed       maphash.Seed

	mu       sync.Mutex
	segments []*segment // guarded by mu: the oldest first
	listed   bool       // guarded by mu: segments has those that the disk had already

	newest file // owned by the writer: the last segment, nil when it is not open
}

// segment is a part of a log. What it has up to size never changes. Its fields are
// guarded by the shelf's mutex.
type segment struct {
	number  int64
	size    int64 // bytes, all of them whole lines but for what a crash has left
	changed time.Time

	filter  *filter // of the tasks that lines up to indexed are of; nil if indexed is 0
	indexed int64
}

func newShelf(d disk, most int64) *shelf {
	return &shelf{disk: d, maxBytes: most, maxSegment: min(maxSegment, most/segmentShare), seed: maphash.MakeSeed()}
}

// load finds the segments that the disk had when the log was opened.
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

// append adds lines. It returns those that were not written, and why. Only the writer
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

// fitting returns how many bytes of lines there is room for in a segment that has room for
// the first.
func (s *shelf) fitting(seg *segment, lines []byte) int {
	room := s.maxSegment - seg.size // only the writer changes the size
	if int64(len(lines)) <= room {
		return len(lines)
	}
	return bytes.LastIndexByte(lines[:room], '\n') + 1
}

// grow takes in what was added to a segment.
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

// open returns a segment that has room for a line of so many bytes, and has it open.
func (s *shelf) open(line int) (*segment, error) {
	if err := s.load(); err != nil {
		return nil, err
	}
	seg := s.last()
	// A byte is left for the end of a line that a crash has cut.
	if seg != nil && seg.size+int64(line) < s.maxSegment {
		return seg, s.reopen(seg)
	}
	if err := s.leave(); err != nil {
		return nil, err
	}
	if err := s.trim(s.maxSegment, 0); err != nil {
		return nil, err
	}
	next := &segment{number: time.Now().UnixMilli()} // never that of a segment which was removed
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

// reopen opens the newest segment unless it is open, and takes away what is left of a write
// that failed.
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

// mend makes a file as long as its segment is known to be, and ends the half line that a
// crash has left: nothing else may follow in it.
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
	if size < seg.size { // somebody has cut it
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

// trim removes the oldest segments until there is room for so many bytes more. So many of
// the newest stay.
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
