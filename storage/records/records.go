// Package records makes a [storage.Store] of any ordered key-value store with transactions. Such a store brings a [Backend],
// which moves bytes and knows nothing of tasks: this package has the layout of keys, the encoding of rows, the verbs of
// [storage.Tasks], and the life of a store. A store in SQLite, which is a module of its own, is in examples/sqlite.
//
// A store belongs to one process at a time, because this package caches its last writes in memory. A backend refuses a
// second process with an error that wraps [storage.ErrLocked].
//
//	records.go  the port
//	store.go    the store: its transactions, its views and its end
//	cursor.go   positions in a scan
//
// The suite of package storage/storagetest examines the result.
package records

import (
	"context"

	"github.com/taskengine/taskengine/storage/internal/kv"
)

// ErrDamaged says that the store has bytes that this package did not write. Errors of a [Backend] that finds damage by
// itself should wrap it.
var ErrDamaged = kv.ErrDamaged

// Backend is an ordered key-value store. Keys are ordered byte by byte, have 1 to some 2000 bytes, and a value has 0 bytes or
// more. The caller owns the slices that it passes, and the backend owns the slices that it returns.
type Backend interface {
	// Begin begins the transaction that may write. It sees all that was committed before. No other such transaction is in
	// progress. ctx bounds the call, and not the transaction.
	Begin(ctx context.Context) (Transaction, error)

	// View returns a view of all that was committed before the call, which no later commit changes. There may be several
	// views at a time, beside a transaction. ctx bounds the call, and not the view.
	View(ctx context.Context) (View, error)

	// Close closes the backend, which has no transaction and no view then. It is called once.
	Close() error
}

// Reader reads keys. One goroutine uses it at a time.
type Reader interface {
	// Get returns the value of key, and whether there is one. The value is valid until the next call of the reader or of
	// one of its cursors.
	Get(key []byte) (value []byte, found bool, err error)

	// Scan returns a cursor before the first key of the range [lower, upper), or if backward is true, before its last key,
	// from where it goes to lower keys. A nil upper is no bound. There may be several cursors at a time. All are closed before
	// the next write, and before the reader ends.
	Scan(lower, upper []byte, backward bool) (Cursor, error)
}

// Cursor moves over the keys of a scan.
type Cursor interface {
	// Next moves to the next key and reports whether there is one. It reports false at the end, and after an error, which
	// Close returns.
	Next() bool

	// Key returns the key. It is valid until the next call of Next or Close.
	Key() []byte

	// Value returns the value, which is valid until the next call of Next, Close or of the reader, and an error if this one
	// cannot be read. Others may be readable.
	Value() ([]byte, error)

	// Close ends the cursor, and returns the error by which it ended early.
	Close() error
}

// View is a consistent view of the keys.
type View interface {
	Reader
	Close() error
}

// Transaction is a transaction that may write. Its reads see its own writes.
type Transaction interface {
	Reader

	// Put sets the value of key.
	Put(key, value []byte) error

	// Delete removes key, if it is there.
	Delete(key []byte) error

	// Commit ends the transaction, and returns when its writes are durable: they survive a crash of the machine. After an
	// error they may have been made or not, all or none, and the store accepts nothing more until it is opened again.
	Commit() error

	// Rollback ends the transaction without its writes. It is not called after Commit.
	Rollback() error
}
