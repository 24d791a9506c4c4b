package pebble

import (
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// mark ends every batch. It is written to the log only and has the number of the batch, and the
// number of the newest batch that was known to be durable when this one was made. The numbers
// begin with 1 when the store is opened, and a log has batches of one opening, in the order of
// their numbers. So a log tells which batches it must have: see [logScan.damaged]. The library's
// own records of synced offsets leave out data that fills whole blocks of 32 KiB, and miss most
// damage after batches of that size.
type mark struct {
	number  uint64
	durable uint64 // zero is no batch
}

const (
	markMagic  = "tskm"
	markSize   = len(markMagic) + 8 + 8
	markRecord = 1 + 1 + markSize // as the last entry of a batch: kind, length and mark
)

// append appends m, encoded as the data of a log entry, to b.
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

// putMark adds the mark at the end of a batch. The caller holds write.
func (s *Store) putMark(b *pebble.Batch) error {
	var buf [markSize]byte
	return b.LogData(mark{s.applied + 1, s.synced.Load()}.append(buf[:0]), nil)
}

// putLastMarks records in the log, before it is closed, that all batches are durable: nothing
// else follows the last batches that would record it. The caller holds life exclusively.
func (s *Store) putLastMarks() error {
	s.write.Lock()
	defer s.write.Unlock()
	for range 2 { // the second mark says that the first one is durable
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
