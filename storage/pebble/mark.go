package pebble

import (
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// Every batch ends with a mark, which only the log keeps: the number of the batch, and the
// number of the newest one that was known to be durable when this one was made. The numbers
// begin with 1 when the store is opened, and a log has batches of one opening, in the order of
// their numbers. So a log tells what it must have: see checkLog. The library's own records of
// what was synced leave out what fills whole blocks of 32 KiB, and miss most damage
// behind batches of that size.
type mark struct {
	number  uint64
	durable uint64 // zero is none
}

const (
	markMagic  = "tskm"
	markSize   = len(markMagic) + 8 + 8
	markRecord = 1 + 1 + markSize // as the last entry of a batch: its kind, its length, and itself
)

// append appends m as the data of a log entry.
func (m mark) append(b []byte) []byte {
	b = append(b, markMagic...)
	b = binary.LittleEndian.AppendUint64(b, m.number)
	return binary.LittleEndian.AppendUint64(b, m.durable)
}

// markOf reads the mark from the last bytes of a batch.
func markOf(tail []byte) (m mark, ok bool) {
	if len(tail) < markRecord {
		return m, false
	}
	entry := tail[len(tail)-markRecord:]
	if entry[0] != byte(pebble.InternalKeyKindLogData) || int(entry[1]) != markSize || string(entry[2:2+len(markMagic)]) != markMagic {
		return m, false
	}
	numbers := entry[2+len(markMagic):]
	return mark{binary.LittleEndian.Uint64(numbers), binary.LittleEndian.Uint64(numbers[8:])}, true
}

// putMark ends a batch with its mark. The caller holds write.
func (s *Store) putMark(b *pebble.Batch) error {
	var buf [markSize]byte
	return b.LogData(mark{s.applied + 1, s.synced.Load()}.append(buf[:0]), nil)
}

// putLastMarks has the log say that all of it is durable, before it is closed: without them
// nothing follows the last batches that would say so. The caller holds life alone.
func (s *Store) putLastMarks() error {
	s.write.Lock()
	defer s.write.Unlock()
	for range 2 { // the second one says that the first one is
		b := s.db.NewBatch()
		err := s.putMark(b)
		if err == nil {
			err = s.db.Apply(b, pebble.Sync)
		}
		if err := errors.Join(err, b.Close()); err != nil {
			return err
		}
		s.applied++
		s.synced.Store(s.applied)
	}
	return nil
}
