// Package kv keeps tasks in an ordered key-value store. It has the layout of keys, the encoding
// of rows and the verbs of [storage.Tasks], so that a backend only has to provide transactions
// over bytes.
//
// A row is one record under its ID. Parts that are too large for the record have keys of their
// own, which a change of the row does not rewrite. Besides, a row has its unique key and its
// index entries, which type entries computes from the row alone.
package kv

import (
	"errors"
	"fmt"

	"github.com/taskengine/taskengine/storage"
)

// ErrDamaged is returned for stored bytes that this package did not write.
var ErrDamaged = errors.New("the store is damaged")

// ErrDone is returned by a transaction that is used after its function has returned.
var ErrDone = errors.New("the transaction is over")

// Reader is a consistent view of the keys. It changes only by the writes of its own
// transaction.
type Reader interface {
	// Get returns the value of key and whether there is one. The value is valid until the
	// next call. The writes of the transaction itself need not be visible: [Tx] does not get
	// keys that it has written.
	Get(key []byte) (value []byte, found bool, err error)

	// Scan returns a cursor over the keys in [lower, upper), including the transaction's own
	// writes. It is closed before the next write.
	Scan(lower, upper []byte) (Cursor, error)

	// ScanCommitted is like Scan, but the writes of the transaction itself need not be
	// visible.
	ScanCommitted(lower, upper []byte) (Cursor, error)
}

// ReadWriter is a transaction in progress. It does not keep the keys and values it is given.
type ReadWriter interface {
	Reader

	// Put sets the value under key.
	Put(key, value []byte) error

	// Delete removes key.
	Delete(key []byte) error

	// DeleteOnce removes a key that was put exactly once since it was last absent. Some
	// stores do that at lower cost.
	DeleteOnce(key []byte) error
}

// Cursor iterates over keys in their order. A new cursor has no position: First, Last and Seek
// set it. Each of the methods that move the cursor reports whether it is at a key. Key and value
// are valid until it moves.
//
// A method that reports false has reached the end or an error: Err tells which. After an error
// every method reports false, and Err and Close return that error, whatever the position. Code
// that concludes from false that a key is absent must check Err first; code that only iterates
// and then closes the cursor need not.
type Cursor interface {
	First() bool
	Last() bool
	Seek(key []byte) bool // the first key at or after key
	Next() bool
	Prev() bool
	Key() []byte
	// Value returns an error if the value of this key cannot be read. Others may be readable.
	Value() ([]byte, error)
	// Err returns the error that stopped the cursor, or nil.
	Err() error
	// Close releases the cursor. It returns the error of Err, or its own.
	Close() error
}

// formatStore is the layout of keys and records that this program writes, and the newest that it
// reads. A release increments it with every change that a program of the previous format would read
// wrongly or leave incomplete, such as a new table or a new field of a record. A store of an
// older format gets this format when it is opened for writing; older programs refuse it then.
const formatStore = 1

// seqBlock is how many sequence numbers are reserved by one write. A restart skips the rest of
// a block.
const seqBlock = 1 << 16

// DB is the state that the transactions of one open store share. Its owner ensures that at most
// one [Tx] is in progress at a time. A [View] may be used at any time.
type DB struct {
	name   string
	format uint64 // of the store
	intern interner
	pages  pages

	// Owned by the transaction in progress.
	recent   recent
	upcoming map[string]*upcoming // by ordering key; at most upcomingKeys
	seq      uint64               // the newest number in use
	ceiling  uint64               // the newest number reserved
	free     *state               // buffers of the last transaction
	spare    []*row               // ended rows, for reuse
}

// Open checks that the store has the format of this program or an older one, and writes the
// format of this program. The errors of the DB begin with name. The caller commits rw if Open
// succeeds. If readOnly is true, Open writes nothing, and an empty store is an error.
func Open(name string, rw ReadWriter, readOnly bool) (*DB, error) {
	db := &DB{name: name, recent: newRecent(recentRows), upcoming: make(map[string]*upcoming)}
	var err error
	if db.format, err = openFormat(rw, formatStore, readOnly); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
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

// Format returns the format of the store, and the one that this program writes. They differ only if an earlier program has written
// the store, and it was opened to be read.
func (db *DB) Format() (is, own uint64) { return db.format, formatStore }

// openFormat checks that the store has the format own or an older one, and writes own unless readOnly is true. It returns the format
// that the store has then.
func openFormat(rw ReadWriter, own uint64, readOnly bool) (is uint64, err error) {
	format, err := getFormat(rw, own)
	switch {
	case err != nil:
		return 0, fmt.Errorf("read the format: %w", err)
	case format > own:
		return 0, fmt.Errorf("its format is %d, this program reads up to %d, use the program that wrote it or a newer one: %w",
			format, own, storage.ErrFormat)
	case format == 0:
		if err := checkEmpty(rw); err != nil {
			return 0, err
		}
		if readOnly {
			return 0, errors.New("there are no tasks in it")
		}
	}
	if format == own || readOnly {
		return format, nil
	}
	if err := rw.Put(keyFormat, appendNumber(nil, own)); err != nil {
		return 0, fmt.Errorf("write the format: %w", err)
	}
	return own, nil
}

// getFormat returns the format of the store, zero if it has none. A program newer than the one of format own may have
// written more after the number.
func getFormat(r Reader, own uint64) (format uint64, err error) {
	value, found, err := r.Get(keyFormat)
	if err != nil || !found {
		return 0, err
	}
	d := decoder{rest: value}
	format = d.uvarint()
	if d.bad || format == 0 || format <= own && len(d.rest) > 0 {
		return 0, fmt.Errorf("value of key %q: %w", keyFormat, ErrDamaged)
	}
	return format, nil
}

// checkEmpty returns an error if a store without a format is not empty.
func checkEmpty(r Reader) error {
	if _, found, err := r.Get(keyDevelopment); err != nil {
		return err
	} else if found {
		return storage.ErrUnreleased
	}
	c, err := r.Scan(nil, nil)
	if err != nil {
		return err
	}
	if c.First() {
		return errors.Join(fmt.Errorf("its format is missing: %w", ErrDamaged), c.Close())
	}
	return c.Close()
}

// findNewest finds the largest ID of a row, above which no row has to be looked for.
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

// fail wraps an error with the operation.
func (db *DB) fail(doing string, err error) error {
	return fmt.Errorf("%s: %s: %w", db.name, doing, err)
}
