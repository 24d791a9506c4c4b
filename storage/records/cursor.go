package records

import (
	"bytes"

	"github.com/taskengine/taskengine/storage/internal/kv"
)

// reader is a [kv.Reader] on that of a backend.
type reader struct{ Reader }

func (r reader) Scan(lower, upper []byte) (kv.Cursor, error) {
	return &cursor{reader: r.Reader, lower: bytes.Clone(lower), upper: bytes.Clone(upper)}, nil
}

func (r reader) ScanCommitted(lower, upper []byte) (kv.Cursor, error) { return r.Scan(lower, upper) }

// writer is a [kv.ReadWriter] on a transaction of a backend.
type writer struct {
	reader
	Transaction
}

func newWriter(t Transaction) writer { return writer{reader{t}, t} }

func (w writer) Get(key []byte) ([]byte, bool, error) { return w.Transaction.Get(key) }

func (w writer) Scan(lower, upper []byte) (kv.Cursor, error) { return w.reader.Scan(lower, upper) }

func (w writer) DeleteOnce(key []byte) error { return w.Delete(key) }

// cursor is a [kv.Cursor], which has a position in a range. It begins a new scan whenever it does not go on in its direction.
type cursor struct {
	reader       Reader
	lower, upper []byte // a nil upper is no bound
	scan         Cursor // at a key; nil: the cursor has no position
	isBackward   bool   // the direction of scan
	err          error  // that ended a scan early
}

func (c *cursor) First() bool { return c.begin(c.lower, c.upper, false) }
func (c *cursor) Last() bool  { return c.begin(c.lower, c.upper, true) }

func (c *cursor) Seek(key []byte) bool {
	if bytes.Compare(key, c.lower) < 0 {
		key = c.lower
	}
	return c.begin(key, c.upper, false)
}

func (c *cursor) Next() bool {
	if c.scan != nil && c.isBackward {
		return c.begin(append(bytes.Clone(c.scan.Key()), 0), c.upper, false)
	}
	return c.step()
}

func (c *cursor) Prev() bool {
	if c.scan != nil && !c.isBackward {
		return c.begin(c.lower, bytes.Clone(c.scan.Key()), true)
	}
	return c.step()
}

// begin moves to the first key of a scan.
func (c *cursor) begin(lower, upper []byte, backward bool) bool {
	c.end()
	if c.err != nil || upper != nil && bytes.Compare(lower, upper) >= 0 {
		return false
	}
	if c.scan, c.err = c.reader.Scan(lower, upper, backward); c.err != nil {
		c.scan = nil
		return false
	}
	c.isBackward = backward
	return c.step()
}

// step moves to the next key of the scan.
func (c *cursor) step() bool {
	if c.scan == nil {
		return false
	}
	if c.scan.Next() {
		return true
	}
	c.end()
	return false
}

// end ends the scan.
func (c *cursor) end() {
	if c.scan == nil {
		return
	}
	if err := c.scan.Close(); c.err == nil {
		c.err = err
	}
	c.scan = nil
}

func (c *cursor) Key() []byte            { return c.scan.Key() }
func (c *cursor) Value() ([]byte, error) { return c.scan.Value() }
func (c *cursor) Err() error             { return c.err }

func (c *cursor) Close() error {
	c.end()
	return c.err
}
