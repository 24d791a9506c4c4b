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

// ErrDamaged says that the file is not as this package left it: bytes of it have changed,
// or are missing. What else is in the file can still be read.
var ErrDamaged = kv.ErrDamaged

func damaged(what any) error { return fmt.Errorf("%w: %v; restore a backup", ErrDamaged, what) }

// catch, deferred, makes an error of a panic of bbolt, which trusts the file and panics
// where that cannot be so. It is deferred around nothing but calls of bbolt: what a caller
// of this package panics with is no business of it.
func catch(err *error) {
	if r := recover(); r != nil {
		*err = damaged(r)
	}
}

// faultsPanic has memory that cannot be read panic in this goroutine, where it would end
// the process, until the function that it returns is called: bbolt maps the file, and goes
// wherever a damaged page sends it.
func faultsPanic() (restore func()) {
	before := debug.SetPanicOnFault(true)
	return func() { debug.SetPanicOnFault(before) }
}

// begin begins a transaction of the file.
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

// beginIn is begin in bbolt, which keeps its locks for ever if it panics there.
func (s *Store) beginIn(writable bool) (btx *bbolt.Tx, err error) {
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

// end rolls a transaction back, if it is not over. The error of what was done in it stays as
// it is.
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

// breakIfDamaged, deferred, has the store accept nothing more if bbolt has panicked with
// its locks held: whoever came next would wait for ever.
func (s *Store) breakIfDamaged(err *error) {
	if errors.Is(*err, ErrDamaged) {
		s.stuck.Store(true)
		s.fail(*err)
	}
}

// fail has the store accept nothing more, and returns why.
func (s *Store) fail(err error) error {
	cause := kv.Broken(err)
	s.broken.CompareAndSwap(nil, &cause)
	return cause
}

// What is where in the page that tells how far the file goes, of which there are two. Such
// a page begins with a header.
const (
	metaHeader   = 16
	metaMagic    = 0xED0CDAED
	metaPageSize = metaHeader + 8
	metaPages    = metaHeader + 40 // how many pages are in use: a number that only grows
	metaChecksum = metaHeader + 56
	metaEnd      = metaChecksum + 8
)

// checkLength returns an error if a file is shorter than it says. bbolt does not look, and
// would read memory behind its end.
func checkLength(f *os.File) error {
	length := neededLength(f)
	info, err := f.Stat() // after the pages were read: whoever uses the file lets it grow first
	if err != nil {
		return err
	}
	if info.Size() < length {
		return damaged(fmt.Sprintf("the file ends after %d of %d bytes", info.Size(), length))
	}
	return nil
}

// neededLength returns how long the file must be, zero if no page of it says so.
func neededLength(f io.ReaderAt) int64 {
	first, pageSize := readMeta(f, 0)
	if pageSize > 0 {
		second, _ := readMeta(f, pageSize)
		return max(first, second)
	}
	for at := int64(1 << 10); at <= 1<<24; at <<= 1 { // where bbolt looks for the other one
		if length, pageSize := readMeta(f, at); pageSize == at {
			return length
		}
	}
	return 0
}

// readMeta reads the page at some place; a page size of zero is none that is whole.
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
