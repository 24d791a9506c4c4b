package pebble

import (
	"errors"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"github.com/taskengine/taskengine/storage/internal/kv"
)

// reader is a [kv.Reader] over a reader of the library.
type reader struct {
	from pebble.Reader
	held io.Closer // keeps the value that Get returned last valid; nil is none
}

func (r *reader) Get(key []byte) ([]byte, bool, error) {
	if err := r.release(); err != nil {
		return nil, false, err
	}
	value, closer, err := r.from.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	r.held = closer
	return value, true, nil
}

func (r *reader) release() error {
	if r.held == nil {
		return nil
	}
	err := r.held.Close()
	r.held = nil
	return err
}

func (r *reader) close() {
	_ = r.release()
	_ = r.from.Close()
}

func (r *reader) ScanCommitted(lower, upper []byte) (kv.Cursor, error) { return r.Scan(lower, upper) }

func (r *reader) Scan(lower, upper []byte) (kv.Cursor, error) {
	it, err := r.from.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, err
	}
	return &cursor{it: it}, nil
}

// cursor is a [kv.Cursor]. It keeps the first error, which the library's iterator forgets when it
// is positioned again.
type cursor struct {
	it  *pebble.Iterator
	err error
}

// moved returns ok, the result of a move, and keeps the error of a move that failed.
func (c *cursor) moved(ok bool) bool {
	if !ok {
		c.err = c.it.Error()
	}
	return ok
}

func (c *cursor) First() bool            { return c.err == nil && c.moved(c.it.First()) }
func (c *cursor) Last() bool             { return c.err == nil && c.moved(c.it.Last()) }
func (c *cursor) Seek(key []byte) bool   { return c.err == nil && c.moved(c.it.SeekGE(key)) }
func (c *cursor) Next() bool             { return c.err == nil && c.moved(c.it.Next()) }
func (c *cursor) Prev() bool             { return c.err == nil && c.moved(c.it.Prev()) }
func (c *cursor) Key() []byte            { return c.it.Key() }
func (c *cursor) Value() ([]byte, error) { return c.it.ValueAndErr() }
func (c *cursor) Err() error             { return c.err }

func (c *cursor) Close() error {
	if err := c.it.Close(); c.err == nil {
		return err
	}
	return c.err
}

// writer is a [kv.ReadWriter] that collects writes in a batch. Get reads the store without the
// batch, as kv demands, which is much faster than an indexed batch. Only a scan in a transaction
// that has written needs the index, which is then built.
//
// The entries of each index are collected apart, and follow the records: the library inserts a key
// at once that follows the key before it, and has to search for the place of any other.
type writer struct {
	db      *pebble.DB
	batch   *pebble.Batch
	indexes []index // the indexes that are collected apart
	indexed bool
	held    reader
}

// index has the writes to an index.
type index struct {
	prefix byte
	batch  *pebble.Batch
}

func (w *writer) Get(key []byte) ([]byte, bool, error) {
	w.held.from = w.db
	return w.held.Get(key)
}

func (w *writer) Scan(lower, upper []byte) (kv.Cursor, error) {
	if !w.indexed && w.batch.Empty() && len(w.indexes) == 0 {
		return (&reader{from: w.db}).Scan(lower, upper)
	}
	if err := w.join(); err != nil {
		return nil, err
	}
	if !w.indexed {
		b := w.db.NewIndexedBatch()
		if err := b.Apply(w.batch, nil); err != nil {
			return nil, errors.Join(err, b.Close())
		}
		if err := w.batch.Close(); err != nil {
			return nil, errors.Join(err, b.Close())
		}
		w.batch, w.indexed = b, true
	}
	return (&reader{from: w.batch}).Scan(lower, upper)
}

func (w *writer) ScanCommitted(lower, upper []byte) (kv.Cursor, error) {
	return (&reader{from: w.db}).Scan(lower, upper)
}

func (w *writer) Put(key, value []byte) error { return w.of(key).Set(key, value, nil) }
func (w *writer) Delete(key []byte) error     { return w.of(key).Delete(key, nil) }
func (w *writer) DeleteOnce(key []byte) error { return w.of(key).SingleDelete(key, nil) }

// of returns the batch that collects the writes of a key. The writes of one key are always in order.
func (w *writer) of(key []byte) *pebble.Batch {
	if w.indexed || !kv.IsEntry(key) {
		return w.batch
	}
	for _, x := range w.indexes {
		if x.prefix == key[0] {
			return x.batch
		}
	}
	b := w.db.NewBatch()
	w.indexes = append(w.indexes, index{key[0], b})
	return b
}

// join moves all writes to one batch.
func (w *writer) join() error {
	for len(w.indexes) > 0 {
		b := w.indexes[0].batch
		w.indexes = w.indexes[1:]
		if err := errors.Join(w.batch.Apply(b, nil), b.Close()); err != nil {
			return err
		}
	}
	return nil
}

// close releases the resources of the writer, and the batch unless keepBatch.
func (w *writer) close(keepBatch bool) {
	_ = w.held.release()
	for _, x := range w.indexes {
		_ = x.batch.Close()
	}
	if !keepBatch {
		_ = w.batch.Close()
	}
}
