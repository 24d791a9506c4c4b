package pebble

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"path"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A log ends where it cannot be read any more: after a power cut or a kill what was written
// last may be there in part, in any part. The library takes everything that it cannot read for
// such an end, unless something behind it tells otherwise. What tells here is a mark of a batch
// behind that place which says that a batch that cannot be read was durable.

// How the library writes logs: in chunks, none of which crosses the end of a block. The header
// of a chunk is a checksum (4 bytes) of what follows the length, the length of the payload (2),
// the kind (1), the number of the log (4), and for the newer kinds an offset (8).
const (
	logBlock      = 32 << 10
	chunkShort    = 11 // the header of the older kinds, of which is the one that ends a log
	chunkLong     = 19
	firstShort    = 5 // the kinds: whole, first, middle, last
	firstLong     = 9
	afterLong     = 13
	chunkLogIndex = 7 // where the number of the log is in the header
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// chunk is a part of a record.
type chunk struct {
	begins, ends bool // the record
	payload      []byte
	size         int   // with its header
	synced       int64 // the library knew that the log was durable up to there, or beyond
}

// chunkAt returns the chunk that b begins with, if it is whole and of the log with this number.
// What the library writes at the end of a log is none.
func chunkAt(b []byte, log uint32) (c chunk, ok bool) {
	if len(b) < chunkShort {
		return c, false
	}
	kind, header := b[6], chunkShort
	switch {
	case kind >= firstShort && kind < firstLong:
		kind -= firstShort
	case kind >= firstLong && kind < afterLong:
		kind, header = kind-firstLong, chunkLong
	default:
		return c, false
	}
	c.size = header + int(binary.LittleEndian.Uint16(b[4:]))
	if c.size > len(b) || binary.LittleEndian.Uint32(b[chunkLogIndex:]) != log {
		return c, false
	}
	sum := crc32.Checksum(b[6:c.size], castagnoli)
	if binary.LittleEndian.Uint32(b) != (sum>>15|sum<<17)+0xa282ead8 { // as the library masks it
		return c, false
	}
	c.begins, c.ends = kind == 0 || kind == 1, kind == 0 || kind == 3
	c.payload = b[header:c.size]
	if header == chunkLong {
		c.synced = int64(min(binary.LittleEndian.Uint64(b[chunkShort:]), math.MaxInt64))
	}
	return c, true
}

// logScan is what is known of a log up to some place.
type logScan struct {
	log  uint32
	tail []byte // the end of the record that is being read

	broken int64 // the first place that cannot be read; -1 is none yet
	closed bool  // there, the library has ended the log
	whole  int64 // the end of the last whole record before broken

	before mark  // of the last record before broken; a number of zero is none
	behind mark  // the number of the first one behind it, and the most that any of them says to be durable
	synced int64 // the most that a chunk behind it says
}

// scanLog reads a log up to its end, beyond what cannot be read.
func scanLog(r io.ReaderAt, log uint32) (*logScan, error) {
	s := &logScan{log: log, broken: -1}
	block := make([]byte, logBlock)
	for start := int64(0); ; start += logBlock {
		n, err := r.ReadAt(block, start)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		s.readBlock(block[:n], start)
		if n < logBlock {
			return s, nil
		}
	}
}

// readBlock reads the chunks of a block.
func (s *logScan) readBlock(block []byte, start int64) {
	for at := 0; at < len(block); {
		rest := block[at:]
		if len(rest) < chunkLong && len(bytes.Trim(rest, "\x00")) == 0 {
			return // too little for a chunk
		}
		if c, ok := chunkAt(rest, s.log); ok {
			at += c.size
			s.take(c, start+int64(at))
			continue
		}
		if s.broken < 0 {
			s.broken, s.closed = start+int64(at), isEnd(rest, s.log)
		}
		s.tail = s.tail[:0]
		at += s.nextChunk(rest)
	}
}

// isEnd reports whether b begins with what the library writes at the end of a log: a header
// without a checksum, and with the number of the next log.
func isEnd(b []byte, log uint32) bool {
	end := binary.LittleEndian.AppendUint32([]byte{6: firstShort}, log+1)
	return bytes.HasPrefix(b, end)
}

// nextChunk returns how far behind the beginning of b the next chunk of the log begins.
func (s *logScan) nextChunk(b []byte) int {
	number := binary.LittleEndian.AppendUint32(nil, s.log)
	for at := 1; at+chunkShort <= len(b); at++ {
		next := bytes.Index(b[at+chunkLogIndex:], number)
		if next < 0 {
			break
		}
		at += next
		if _, ok := chunkAt(b[at:], s.log); ok {
			return at
		}
	}
	return len(b)
}

// take notes a chunk that ends at some place.
func (s *logScan) take(c chunk, end int64) {
	if s.broken >= 0 {
		s.synced = max(s.synced, c.synced)
	}
	if c.begins {
		s.tail = s.tail[:0]
	}
	s.tail = append(s.tail, c.payload[max(0, len(c.payload)-markRecord):]...)
	s.tail = s.tail[max(0, len(s.tail)-markRecord):]
	if !c.ends {
		return
	}
	m, marked := markOf(s.tail)
	switch {
	case s.broken < 0:
		s.whole = end
		if marked {
			s.before = m
		}
	case marked:
		if s.behind.number == 0 {
			s.behind.number = m.number
		}
		s.behind.durable = max(s.behind.durable, m.durable)
	}
}

// damaged reports whether something that cannot be read was durable.
func (s *logScan) damaged() bool {
	if s.broken >= 0 && s.synced > s.broken {
		return true
	}
	if s.behind.number == 0 {
		return false
	}
	lost := s.behind.number // what is before it may be a part of it
	if s.before.number > 0 {
		lost = s.before.number + 1
	}
	return s.behind.durable >= lost
}

// logNumber returns the number of a log, and whether a file is one.
func logNumber(name string) (uint32, bool) {
	digits, ok := strings.CutSuffix(path.Base(name), ".log")
	n, err := strconv.ParseUint(digits, 10, 64)
	return uint32(n), ok && err == nil // the library, too, has the lower half only
}

// replay looks at the logs that the library reads when it is opened. It is used by one
// goroutine, the one that opens it.
type replay struct {
	salvage bool // hand out damaged logs, as far as they go
	damage  error
	unclean string // the log that was read last, if it ends with what is neither a record nor its end
}

// open returns the file for the library to read, which is one that was opened, if it is a log.
func (r *replay) open(name string, file vfs.File) (vfs.File, error) {
	number, isLog := logNumber(name)
	if !isLog {
		return file, nil
	}
	s, err := scanLog(file, number)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the log %s: %w", name, err), file.Close())
	}
	switch {
	case r.damage != nil: // and what is left goes no further
		return &shortFile{File: file}, nil
	case r.salvage && r.unclean != "": // what the library says, who would not go on
		r.damage, s.whole = fmt.Errorf("its log %s has no end: %w", path.Base(r.unclean), ErrDamaged), 0
	case s.damaged():
		r.damage = fmt.Errorf("its log %s cannot be read at byte %d, and changes that were acknowledged are behind that: %w",
			path.Base(name), s.broken, ErrDamaged)
	case s.broken >= 0 && !s.closed:
		r.unclean = name
	}
	switch {
	case r.damage == nil:
		return file, nil
	case r.salvage:
		return &shortFile{File: file, left: s.whole}, nil
	}
	return nil, errors.Join(r.damage, file.Close())
}

// shortFile is a file of which only the beginning is read.
type shortFile struct {
	vfs.File
	left int64
}

func (f *shortFile) Read(p []byte) (int, error) {
	if f.left <= 0 {
		return 0, io.EOF
	}
	n, err := f.File.Read(p[:min(int64(len(p)), f.left)])
	f.left -= int64(n)
	return n, err
}
