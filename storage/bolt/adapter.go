package bolt

import (
	"bytes"

	"go.etcd.io/bbolt"

	"github.com/taskengine/taskengine/storage/internal/kv"
)

// adapter is a [kv.ReadWriter] over the store's bucket in one transaction.
type adapter struct {
	b     *bbolt.Bucket
	arena []byte // where values wait for the commit: bbolt does not copy them
}

var _ kv.ReadWriter = (*adapter)(nil)

// arenaSize is how much memory is asked for at a time.
const arenaSize = 64 << 10

func (a *adapter) Get(key []byte) ([]byte, bool, error) {
	value := a.b.Get(key)
	return value, value != nil, nil
}

func (a *adapter) Put(key, value []byte) error { return a.b.Put(key, a.keep(value)) }

// keep returns a copy of value that lives as long as the transaction.
func (a *adapter) keep(value []byte) []byte {
	if len(value) > arenaSize/4 {
		return bytes.Clone(value)
	}
	if cap(a.arena)-len(a.arena) < len(value) {
		a.arena = make([]byte, 0, arenaSize)
	}
	start := len(a.arena)
	a.arena = append(a.arena, value...)
	return a.arena[start:len(a.arena):len(a.arena)]
}

func (a *adapter) Delete(key []byte) error     { return a.b.Delete(key) }
func (a *adapter) DeleteOnce(key []byte) error { return a.b.Delete(key) }

func (a *adapter) Scan(lower, upper []byte) (kv.Cursor, error) {
	return &cursor{c: a.b.Cursor(), lower: lower, upper: upper}, nil
}

func (a *adapter) ScanCommitted(lower, upper []byte) (kv.Cursor, error) { return a.Scan(lower, upper) }

// cursor is a [kv.Cursor].
type cursor struct {
	c            *bbolt.Cursor
	lower, upper []byte // nil upper is the end
	key, value   []byte
}

// stand takes the key that bbolt's cursor is on, if it is within the bounds.
func (c *cursor) stand(key, value []byte) bool {
	if key == nil || bytes.Compare(key, c.lower) < 0 || c.upper != nil && bytes.Compare(key, c.upper) >= 0 {
		c.key, c.value = nil, nil
		return false
	}
	c.key, c.value = key, value
	return true
}

func (c *cursor) First() bool { return c.Seek(c.lower) }

func (c *cursor) Last() bool {
	if c.upper == nil {
		return c.stand(c.c.Last())
	}
	if key, _ := c.c.Seek(c.upper); key == nil {
		return c.stand(c.c.Last())
	}
	return c.stand(c.c.Prev())
}

func (c *cursor) Seek(key []byte) bool {
	if bytes.Compare(key, c.lower) < 0 {
		key = c.lower
	}
	return c.stand(c.c.Seek(key))
}

func (c *cursor) Next() bool    { return c.stand(c.c.Next()) }
func (c *cursor) Prev() bool    { return c.stand(c.c.Prev()) }
func (c *cursor) Key() []byte   { return c.key }
func (c *cursor) Value() []byte { return c.value }
func (c *cursor) Close() error  { return nil }
