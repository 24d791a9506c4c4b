package bolt

import (
	"bytes"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/taskengine/taskengine/storage/internal/kv"
)

// adapter is a [kv.ReadWriter] over the bucket of the store in one transaction.
type adapter struct {
	b     *bbolt.Bucket
	arena []byte // holds values until the commit: bbolt does not copy them
}

var _ kv.ReadWriter = (*adapter)(nil)

// arenaSize is the number of bytes that are allocated at a time.
const arenaSize = 64 << 10

func (a *adapter) Get(key []byte) (value []byte, found bool, err error) {
	defer catchAt(key, &err)
	stored := a.b.Get(key)
	if stored == nil {
		return nil, false, nil
	}
	value, err = checked(key, stored)
	return value, err == nil, err
}

func (a *adapter) Put(key, value []byte) (err error) {
	defer catchAt(key, &err)
	return a.b.Put(key, a.keep(key, value))
}

// keep returns value with its checksum, in memory that is valid as long as the transaction.
func (a *adapter) keep(key, value []byte) []byte {
	size := len(value) + sumSize
	if size > arenaSize/4 {
		return appendSummed(make([]byte, 0, size), key, value)
	}
	if cap(a.arena)-len(a.arena) < size {
		a.arena = make([]byte, 0, arenaSize)
	}
	start := len(a.arena)
	a.arena = appendSummed(a.arena, key, value)
	return a.arena[start:len(a.arena):len(a.arena)]
}

func (a *adapter) Delete(key []byte) (err error) {
	defer catchAt(key, &err)
	return a.b.Delete(key)
}

func (a *adapter) DeleteOnce(key []byte) error { return a.Delete(key) }

// catchAt is catch for a call that concerns one key.
func catchAt(key []byte, err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%s: %w", kv.NameOf(key), damaged(r))
	}
}

func (a *adapter) Scan(lower, upper []byte) (c kv.Cursor, err error) {
	defer catch(&err)
	return &cursor{c: a.b.Cursor(), lower: lower, upper: upper}, nil
}

func (a *adapter) ScanCommitted(lower, upper []byte) (kv.Cursor, error) { return a.Scan(lower, upper) }

// cursor is a [kv.Cursor]. A page that cannot be read ends the iteration.
type cursor struct {
	c            *bbolt.Cursor
	lower, upper []byte // a nil upper is no bound
	key, stored  []byte
	edges        byte  // the first and last byte of the key combined: reading them faults if the key cannot be read
	err          error // the cause of an early end of the iteration, or nil
}

// stand sets the key and value, at which the cursor of bbolt is, if they are within the bounds.
func (c *cursor) stand(key, stored []byte) bool {
	c.key, c.stored = nil, nil
	if key == nil || c.err != nil {
		return false
	}
	if len(key) == 0 || len(key) > bbolt.MaxKeySize {
		c.err = damaged(fmt.Sprintf("there is a key of %d bytes", len(key)))
		return false
	}
	c.edges = key[0] ^ key[len(key)-1]
	if bytes.Compare(key, c.lower) < 0 || c.upper != nil && bytes.Compare(key, c.upper) >= 0 {
		return false
	}
	c.key, c.stored = key, stored
	return true
}

func (c *cursor) First() bool { return c.Seek(c.lower) }

func (c *cursor) Last() bool {
	defer catch(&c.err)
	if c.upper == nil {
		return c.stand(c.c.Last())
	}
	if key, _ := c.c.Seek(c.upper); key == nil {
		return c.stand(c.c.Last())
	}
	return c.stand(c.c.Prev())
}

func (c *cursor) Seek(key []byte) bool {
	defer catch(&c.err)
	if bytes.Compare(key, c.lower) < 0 {
		key = c.lower
	}
	return c.stand(c.c.Seek(key))
}

func (c *cursor) Next() bool {
	defer catch(&c.err)
	return c.stand(c.c.Next())
}

func (c *cursor) Prev() bool {
	defer catch(&c.err)
	return c.stand(c.c.Prev())
}

func (c *cursor) Key() []byte { return c.key }

func (c *cursor) Value() (value []byte, err error) {
	defer catchAt(c.key, &err)
	return checked(c.key, c.stored)
}

func (c *cursor) Err() error { return c.err }

func (c *cursor) Close() error { return c.err }
