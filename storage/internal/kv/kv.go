// Package kv keeps tasks in an ordered key-value store: it holds the layout of keys,
// the encoding of rows and the verbs of [storage.Tasks], so that a backend only has to
// bring transactions over bytes.
//
// A row is one record under its ID. What is too large for it lies under keys of its
// own, which a change of the row does not touch. Beside the record a row has the index
// entries that entries computes from it and nothing else, and its unique key.
package kv

import (
	"errors"
	"fmt"

	"github.com/taskengine/taskengine/storage"
)

// ErrDamaged says that stored bytes are not what this package wrote.
var ErrDamaged = errors.New("the store is damaged")

// ErrDone says that a transaction was used after its function had returned.
var ErrDone = errors.New("the transaction is over")

// Reader is a view of the keys that does not change while it is used, but for what its
// own transaction writes.
type Reader interface {
	// Get returns the value under key and whether there is one. The value is valid until
	// the next call. A transaction need not show what it wrote itself: [Tx] does not ask
	// for keys that it has written.
	Get(key []byte) (value []byte, found bool, err error)

	// Scan returns a cursor over the keys in [lower, upper), the transaction's own writes
	// included. It is closed before the next write.
	Scan(lower, upper []byte) (Cursor, error)

	// ScanCommitted is Scan for who has no interest in what the transaction wrote itself:
	// that need not be shown.
	ScanCommitted(lower, upper []byte) (Cursor, error)
}

// ReadWriter is a transaction in progress. Keys and values handed in are not kept.
type ReadWriter interface {
	Reader

	// Put sets the value under key.
	Put(key, value []byte) error

	// Delete removes key.
	Delete(key []byte) error

	// DeleteOnce removes a key that was put exactly once since it last was absent, which
	// some stores do for less.
	DeleteOnce(key []byte) error
}

// Cursor walks over keys in their order. It starts nowhere: First, Last and Seek place
// it, and each method reports whether it stands on a key. Key and value
// are valid until it moves.
//
// A method that reports false has met the end, or an error: Err tells which. After an error
// every method reports false and Err and Close return that error, wherever the cursor is
// placed. Code that takes false for an absence asks Err first; code that only walks and then
// closes the cursor need not.
type Cursor interface {
	First() bool
	Last() bool
	Seek(key []byte) bool // the first key at or after key
	Next() bool
	Prev() bool
	Key() []byte
	// Value returns an error if that of this key cannot be read; others may be.
	Value() ([]byte, error)
	// Err returns the error that stopped the cursor, nil if there was none.
	Err() error
	// Close releases the cursor and returns what Err does, or why it could not be released.
	Close() error
}

// formatStore is the newest layout of keys and records that this program reads, and the one
// it writes. It grows with every change that a program of the format before would read wrongly
// or leave incomplete, be it a new table or a new field of a record: a store of an older format
// gets this one when it is opened for writing, and an older program refuses it from then on.
//
//	1: the first
//	2: entries of rows without a time; progress and checkpoints
const formatStore = 2

// seqBlock is how many sequence numbers are set aside by one write; a restart skips the
// rest of a block.
const seqBlock = 1 << 16

// DB is what the transactions of one open store share. Its owner sees to it that at
// most one [Tx] is in progress at a time; a [View] may be used at any time.
type DB struct {
	name   string
	intern interner

	// Owned by the transaction in progress.
	recent  recent
	seq     uint64 // the newest number given out
	ceiling uint64 // the newest number set aside
	free    *state // buffers of the last transaction
}

// Open checks that the store was written by this version or an older one, and has it bear the
// mark of this one. The name starts the errors of this DB. The caller commits rw if Open
// succeeds. If readOnly is true, Open writes nothing, and an empty store is an error.
func Open(name string, rw ReadWriter, readOnly bool) (*DB, error) {
	db := &DB{name: name, recent: newRecent(recentRows)}
	format, err := getFormat(rw)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: read the format: %w", name, err)
	case format > formatStore:
		return nil, fmt.Errorf("%s: its format is %d, this program reads up to %d, use the program that wrote it or a newer one: %w",
			name, format, formatStore, storage.ErrFormat)
	case format == 0:
		if err := checkEmpty(rw); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if readOnly {
			return nil, fmt.Errorf("%s: there are no tasks in it", name)
		}
	}
	if format < formatStore && !readOnly {
		if err := rw.Put(keyFormat, appendNumber(nil, formatStore)); err != nil {
			return nil, fmt.Errorf("%s: write the format: %w", name, err)
		}
	}
	if db.ceiling, _, err = getNumber(rw, keySeq); err != nil {
		return nil, fmt.Errorf("%s: read the sequence: %w", name, err)
	}
	db.seq = db.ceiling
	if err := db.findNewest(rw); err != nil {
		return nil, fmt.Errorf("%s: find the newest task: %w", name, err)
	}
	return db, nil
}

// getFormat returns the format of the store, zero if it does not say. Behind the number a newer
// program may have written more.
func getFormat(r Reader) (format uint64, err error) {
	value, found, err := r.Get(keyFormat)
	if err != nil || !found {
		return 0, err
	}
	d := decoder{rest: value}
	format = d.uvarint()
	if d.bad || format == 0 || format <= formatStore && len(d.rest) > 0 {
		return 0, fmt.Errorf("value of key %q: %w", keyFormat, ErrDamaged)
	}
	return format, nil
}

// checkEmpty returns an error if a store that does not say its format has anything in it.
func checkEmpty(r Reader) error {
	c, err := r.Scan(nil, nil)
	if err != nil {
		return err
	}
	if c.First() {
		return errors.Join(fmt.Errorf("its format is missing: %w", ErrDamaged), c.Close())
	}
	return c.Close()
}

// findNewest notes that every row there is has an ID up to that of the newest.
func (db *DB) findNewest(r Reader) error {
	c, err := r.Scan([]byte{prefixRecord}, []byte{prefixRecord + 1})
	if err != nil {
		return err
	}
	if c.Last() {
		if db.recent.floor, err = idOf(c.Key()); err != nil {
			return errors.Join(err, c.Close())
		}
	}
	return c.Close()
}

// fail wraps an error with what was being done.
func (db *DB) fail(doing string, err error) error {
	return fmt.Errorf("%s: %s: %w", db.name, doing, err)
}
