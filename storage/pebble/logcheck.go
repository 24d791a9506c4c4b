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

// A log ends where it cannot be read any more: after a power cut or a kill, any part of the last
// writes may be missing. The library takes every place that it cannot read for such an end, unless
// a later chunk contradicts it. This file finds more: a log is damaged if the mark of a later batch
// says that a batch that cannot be read was durable.

// The library writes logs in chunks, none of which crosses the end of a block. The header
// of a chunk is a checksum (4 bytes) of everything after the length, the length of the payload (2),
// the kind (1), the number of the log (4), and for the newer kinds an offset (8).
const (
	logBlock      = 32 << 10
	chunkShort    = 11 // the header of the older kinds; a log ends with one of these
	chunkLong     = 19
	firstShort    = 5 // the kinds: whole, first, middle, last
	firstLong     = 9
	afterLong     = 13
	chunkLogIndex = 7 // the offset of the number of the log in the header
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// chunk is a part of a record.
type chunk struct {
	begins, ends bool // the record
	payload      []byte
	size         int   // with its header
	synced       int64 // the log was durable at least up to this offset when the chunk was written
}

// chunkAt returns the chunk at the start of b, if it is whole and belongs to the log with this
// number. The end of a log that the library writes is not a chunk.
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
	if binary.LittleEndian.Uint32(b) != (sum>>15|sum<<17)+0xa282ead8 { // masked as in the library
		return c, false
	}
	c.begins, c.ends = kind == 0 || kind == 1, kind == 0 || kind == 3
	c.payload = b[header:c.size]
	if header == chunkLong {
		c.synced = int64(min(binary.LittleEndian.Uint64(b[chunkShort:]), math.MaxInt64))
	}
	return c, true
}

// logScan is the state of reading a log.
type logScan struct {
	log  uint32
	tail []byte // the last bytes of the record that is being read

	broken int64 // the first offset that cannot be read; -1 is none yet
	closed bool  // the library has ended the log at broken
	whole  int64 // the end of the last whole record before broken

	before mark  // of the last record before broken; a number of zero is none
	after  mark  // the number of the first mark after broken, and the greatest durable of all after it
	synced int64 // the greatest synced of the chunks after broken
}

// scanLog reads a log to the end of the file, past places that cannot be read.
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
			return // padding: no chunk fits
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

// isEnd reports whether b begins with the end of a log, as the library writes it: a header
// without a checksum and with the number of the next log.
func isEnd(b []byte, log uint32) bool {
	end := binary.LittleEndian.AppendUint32([]byte{6: firstShort}, log+1)
	return bytes.HasPrefix(b, end)
}

// nextChunk returns the offset in b, after its first byte, of the next chunk of the log.
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

// take adds a chunk that ends at offset end.
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
		if s.after.number == 0 {
			s.after.number = m.number
		}
		s.after.durable = max(s.after.durable, m.durable)
	}
}

// damaged reports whether a batch that cannot be read was durable.
func (s *logScan) damaged() bool {
	if s.broken >= 0 && s.synced > s.broken {
		return true
	}
	if s.after.number == 0 {
		return false
	}
	lost := s.after.number // its beginning may be the unreadable part
	if s.before.number > 0 {
		lost = s.before.number + 1
	}
	return s.after.durable >= lost
}

// logNumber returns the number of a log, and whether name is that of a log.
func logNumber(name string) (uint32, bool) {
	digits, ok := strings.CutSuffix(path.Base(name), ".log")
	n, err := strconv.ParseUint(digits, 10, 64)
	return uint32(n), ok && err == nil // the library, too, writes the lower half only
}

// replay examines the logs that the library reads when it is opened. It is owned by the goroutine
// that opens the library.
type replay struct {
	salvage bool // return damaged logs, up to the damage
	damage  error
	unclean string // the log that was read last, if it ends with neither a record nor the mark of its end
}

// open returns the file from which the library is to read: file itself, or if it is a damaged log, a
// part of it.
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
	case r.damage != nil: // nothing after the damage is read
		return &shortFile{File: file}, nil
	case r.salvage && r.unclean != "": // the library would refuse to go on
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

// shortFile is a file of which only the first bytes are read.
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
