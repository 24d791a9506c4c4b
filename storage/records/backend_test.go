package records_test

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/google/btree"

	"github.com/taskengine/taskengine/storage/records"
)

// pair is a key with its value.
type pair struct{ key, value []byte }

func less(a, b pair) bool { return bytes.Compare(a.key, b.key) < 0 }

// memory is a backend in memory.
type memory struct {
	mu      sync.Mutex
	pairs   *btree.BTreeG[pair] // guarded by mu: committed; replaced, never changed
	open    int                 // guarded by mu: readers and cursors that were not closed
	refused error               // guarded by mu: the error of Commit
	broken  error               // guarded by mu: the error of cursors
}

func newMemory() *memory { return &memory{pairs: btree.NewG(8, less)} }

var errUse = errors.New("the backend is used in a way that its contract does not have")

func (m *memory) begin() *reader {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open++
	return &reader{memory: m, pairs: m.pairs.Clone()}
}

func (m *memory) Begin(context.Context) (records.Transaction, error) {
	return &transaction{m.begin()}, nil
}
func (m *memory) View(context.Context) (records.View, error) { return &view{m.begin()}, nil }

func (m *memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open != 0 {
		return errUse
	}
	return nil
}

type reader struct {
	memory  *memory
	pairs   *btree.BTreeG[pair]
	cursors int
}

func (r *reader) Get(key []byte) ([]byte, bool, error) {
	p, found := r.pairs.Get(pair{key: key})
	return p.value, found, nil
}

func (r *reader) Scan(lower, upper []byte, backward bool) (records.Cursor, error) {
	r.cursors++
	return &cursor{r: r, lower: bytes.Clone(lower), upper: bytes.Clone(upper), isBackward: backward}, nil
}

// end ends the reader, after which pairs replace the memory unless they are nil.
func (r *reader) end(pairs *btree.BTreeG[pair]) error {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	r.memory.open--
	if r.cursors != 0 {
		return errUse
	}
	if pairs != nil {
		r.memory.pairs = pairs
	}
	return nil
}

type view struct{ *reader }

func (v *view) Close() error { return v.end(nil) }

type transaction struct{ *reader }

func (t *transaction) Put(key, value []byte) error {
	if t.cursors != 0 {
		return errUse
	}
	t.pairs.ReplaceOrInsert(pair{bytes.Clone(key), append([]byte{}, value...)})
	return nil
}

func (t *transaction) Delete(key []byte) error {
	if t.cursors != 0 {
		return errUse
	}
	t.pairs.Delete(pair{key: key})
	return nil
}

func (t *transaction) Commit() error {
	t.memory.mu.Lock()
	refused := t.memory.refused
	t.memory.mu.Unlock()
	return errors.Join(refused, t.end(t.pairs))
}

func (t *transaction) Rollback() error { return t.end(nil) }

// cursor looks for the next key each time.
type cursor struct {
	r            *reader
	lower, upper []byte
	isBackward   bool
	at           pair
	begun        bool
}

func (c *cursor) Next() (found bool) {
	take := func(p pair) bool {
		c.at, found = p, true
		return false
	}
	begun := c.begun
	c.begun = true
	switch {
	case !c.isBackward:
		from := c.lower
		if begun {
			from = append(bytes.Clone(c.at.key), 0)
		}
		c.r.pairs.AscendGreaterOrEqual(pair{key: from}, take)
		return found && (c.upper == nil || bytes.Compare(c.at.key, c.upper) < 0)
	case begun:
		c.r.pairs.DescendLessOrEqual(pair{key: c.at.key}, func(p pair) bool { return bytes.Equal(p.key, c.at.key) || take(p) })
	case c.upper == nil:
		c.r.pairs.Descend(take)
	default:
		c.r.pairs.DescendLessOrEqual(pair{key: c.upper}, func(p pair) bool { return bytes.Equal(p.key, c.upper) || take(p) })
	}
	return found && bytes.Compare(c.at.key, c.lower) >= 0
}

func (c *cursor) Key() []byte            { return c.at.key }
func (c *cursor) Value() ([]byte, error) { return c.at.value, nil }

func (c *cursor) Close() error {
	c.r.cursors--
	c.r.memory.mu.Lock()
	defer c.r.memory.mu.Unlock()
	return c.r.memory.broken
}
