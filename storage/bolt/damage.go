package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"runtime/debug"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/taskengine/taskengine/storage/internal/kv"
)

// ErrDamaged means that the file is not as this package wrote it: bytes of it have changed or are
// missing. The rest of the file can still be read.
var ErrDamaged = kv.ErrDamaged

func damaged(what any) error { return fmt.Errorf("%w: %v; restore a backup", ErrDamaged, what) }

// catch, when deferred, turns a panic of bbolt into an error: bbolt trusts the file, and panics where
// the file is impossible. It is deferred around calls of bbolt only, so that panics of callers of this
// package pass.
func catch(err *error) {
	if r := recover(); r != nil {
		*err = damaged(r)
	}
}

// faultsPanic makes a memory fault panic in this goroutine instead of ending the process, until the
// function that it returns is called. bbolt maps the file, and follows whatever a damaged page
// contains.
func faultsPanic() (restore func()) {
	before := debug.SetPanicOnFault(true)
	return func() { debug.SetPanicOnFault(before) }
}

// begin begins a transaction, and returns it with the bucket of the store.
func (s *Store) begin(writable bool) (btx *bbolt.Tx, b *bbolt.Bucket, err error) {
	if btx, err = s.beginIn(writable); err != nil {
		return nil, nil, err
	}
	if b, err = bucketOf(btx); err == nil && b == nil {
		err = damaged("the bucket of the tasks is gone")
	}
	if err != nil {
		s.end(btx, &err)
		return nil, nil, err
	}
	return btx, b, nil
}

// beginIn begins a transaction of bbolt, which keeps its locks forever if that panics.
func (s *Store) beginIn(writable bool) (btx *bbolt.Tx, err error) {
	known := s.newest.Load()
	if btx, err = s.beginAny(writable); err != nil {
		return nil, err
	}
	before := int64(btx.ID())
	if writable {
		before-- // its own number is the next one
	}
	if before < known || writable && known > 0 && before != known {
		err := s.fail(fmt.Errorf("%s was overwritten while the store was open: it is at transaction %d, after %d; stop the node before files are put back or restored",
			s.path, before, known))
		s.end(btx, &err)
		return nil, err
	}
	return btx, nil
}

func (s *Store) beginAny(writable bool) (btx *bbolt.Tx, err error) {
	defer s.breakIfDamaged(&err)
	defer catch(&err)
	return s.db.Begin(writable)
}

// bucketOf returns the bucket of the store, nil if there is none.
func bucketOf(btx *bbolt.Tx) (b *bbolt.Bucket, err error) {
	defer catch(&err)
	return btx.Bucket(bucketName), nil
}

// newBucket makes the bucket of the store.
func newBucket(btx *bbolt.Tx) (b *bbolt.Bucket, err error) {
	defer catch(&err)
	if first, _ := btx.Cursor().First(); first != nil && len(first) == 0 {
		return nil, damaged("the names of its buckets are gone")
	}
	if b, err = btx.CreateBucket(bucketName); err != nil {
		return nil, err
	}
	return b, b.SetSequence(formatValues)
}

func commit(btx *bbolt.Tx) (err error) {
	defer catch(&err)
	return btx.Commit()
}

// end rolls back a transaction that is not over. It adds its own error, if any, to *err.
func (s *Store) end(btx *bbolt.Tx, err *error) {
	if failed := s.rollback(btx); failed != nil {
		*err = errors.Join(*err, failed)
	}
}

func (s *Store) rollback(btx *bbolt.Tx) (err error) {
	defer s.breakIfDamaged(&err)
	defer catch(&err)
	if err := btx.Rollback(); !errors.Is(err, bolterrors.ErrTxClosed) {
		return err
	}
	return nil
}

// breakIfDamaged, when deferred, makes the store fail all further calls if bbolt has panicked with
// its locks held: the next call would block forever.
func (s *Store) breakIfDamaged(err *error) {
	if errors.Is(*err, ErrDamaged) {
		s.stuck.Store(true)
		s.fail(*err)
	}
}

// fail makes the store fail all further calls, and returns their error.
func (s *Store) fail(err error) error {
	cause := kv.Broken(err)
	s.broken.CompareAndSwap(nil, &cause)
	return cause
}

// Offsets in a meta page, which has the length of the file. There are two such pages, and each
// begins with a header.
const (
	metaHeader   = 16
	metaMagic    = 0xED0CDAED
	metaPageSize = metaHeader + 8
	metaPages    = metaHeader + 40 // the number of pages in use, which only grows
	metaChecksum = metaHeader + 56
	metaEnd      = metaChecksum + 8
)

// checkLength returns an error if a file is shorter than its meta pages say. bbolt does not check,
// and would read memory beyond the end of the file.
func checkLength(f *os.File) error {
	length := neededLength(f)
	info, err := f.Stat() // after the meta pages were read: a writer extends the file before it writes them
	if err != nil {
		return err
	}
	if info.Size() < length {
		return damaged(fmt.Sprintf("the file ends after %d of %d bytes", info.Size(), length))
	}
	return nil
}

// neededLength returns the least length of the file, or zero if no meta page can be read.
func neededLength(f io.ReaderAt) int64 {
	first, pageSize := readMeta(f, 0)
	if pageSize > 0 {
		second, _ := readMeta(f, pageSize)
		return max(first, second)
	}
	for at := int64(1 << 10); at <= 1<<24; at <<= 1 { // where bbolt looks for the second one
		if length, pageSize := readMeta(f, at); pageSize == at {
			return length
		}
	}
	return 0
}

// readMeta reads the meta page at an offset. A page size of zero means that there is no valid one.
func readMeta(f io.ReaderAt, at int64) (length, pageSize int64) {
	var page [metaEnd]byte
	if _, err := f.ReadAt(page[:], at); err != nil {
		return 0, 0
	}
	sum := fnv.New64a()
	_, _ = sum.Write(page[metaHeader:metaChecksum]) // never fails
	native := binary.NativeEndian
	if native.Uint32(page[metaHeader:]) != metaMagic || native.Uint64(page[metaChecksum:]) != sum.Sum64() {
		return 0, 0
	}
	pageSize = int64(native.Uint32(page[metaPageSize:]))
	return int64(native.Uint64(page[metaPages:])) * pageSize, pageSize
}
