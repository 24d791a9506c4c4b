package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/taskengine/taskengine/task"
)

// Kind is a kind of difference between source and destination.
type Kind string

// The kinds.
const (
	Missing   Kind = "missing"   // it is not in the destination
	Taken     Kind = "taken"     // likewise, since another task has its key there
	Different Kind = "different" // it is not the same in the destination
	Extra     Kind = "extra"     // it is not in the source
	Order     Kind = "order"     // it was inserted earlier in the source than the row before it
	Setting   Kind = "setting"   // a setting is missing or not the same
)

// Difference is one difference between the destination and the source.
type Difference struct {
	Kind   Kind
	ID     task.ID // zero for a setting
	Detail string  // more detail; may be ""
}

// String returns the difference in words.
func (d Difference) String() string {
	switch d.Kind {
	case Missing:
		return fmt.Sprintf("task %v is not in the destination", d.ID)
	case Taken:
		return fmt.Sprintf("task %v is not in the destination, where its key belongs to %s", d.ID, d.Detail)
	case Different:
		return fmt.Sprintf("task %v is not the same in the destination: %s", d.ID, d.Detail)
	case Extra:
		return fmt.Sprintf("task %v is not in the source", d.ID)
	case Order:
		return fmt.Sprintf("task %v is out of order in the destination", d.ID)
	}
	return fmt.Sprintf("the setting %q is not the same in the destination", d.Detail)
}

// maxDifferences is how many differences are reported one by one.
const maxDifferences = 100

func (c *copier) differs(kind Kind, id task.ID, detail string) {
	if len(c.report.Differences) == maxDifferences {
		c.report.More++
		return
	}
	c.report.Differences = append(c.report.Differences, Difference{kind, id, detail})
}

// index has the rows of the source.
type index struct {
	rows []entry
	buf  []byte
}

type entry struct {
	id    task.ID
	sum   [16]byte // the beginning of the SHA-256 of the row
	place int      // in the order of insertion
	old   bool     // not copied this time: the destination had it, or another row in its place
	found bool     // in the destination
}

// add adds a row and returns its SHA-256.
func (x *index) add(t *task.Task) [sha256.Size]byte {
	sum := x.sum(t)
	x.rows = append(x.rows, entry{id: t.ID, sum: [16]byte(sum[:]), place: len(x.rows)})
	return sum
}

func (x *index) sum(t *task.Task) [sha256.Size]byte {
	x.buf = appendRow(x.buf[:0], t)
	return sha256.Sum256(x.buf)
}

// sort sorts the rows by id, for find.
func (x *index) sort() { slices.SortFunc(x.rows, func(a, b entry) int { return a.id.Compare(b.id) }) }

// find returns the row with this id, or nil if the source has none.
func (x *index) find(id task.ID) *entry {
	at, ok := slices.BinarySearchFunc(x.rows, id, func(e entry, id task.ID) int { return e.id.Compare(id) })
	if !ok {
		return nil
	}
	return &x.rows[at]
}

// verify reads the destination and compares it with the source.
func (c *copier) verify(ctx context.Context) error {
	c.index.sort()
	var changed []task.ID
	read, place := int64(0), -1
	err := c.to.Export(ctx, func(string, []byte) error { return nil }, func(t *task.Task) error {
		if read++; read%batchRows == 0 {
			c.Progress(true, read)
		}
		e, sum := c.index.find(t.ID), c.index.sum(t)
		if e == nil && c.Merge {
			return nil
		}
		c.report.Target.add(sum)
		switch {
		case e == nil:
			c.differs(Extra, t.ID, "")
			return nil
		case e.sum != [16]byte(sum[:]):
			c.broken = c.broken || !e.old
			if changed = append(changed, t.ID); len(changed) > maxDifferences {
				changed = changed[:maxDifferences]
				c.differs(Different, t.ID, "")
			}
		case e.place < place && !c.Merge:
			c.differs(Order, t.ID, "")
		}
		e.found, place = true, max(place, e.place)
		return nil
	})
	if err != nil {
		return err
	}
	for _, e := range c.index.rows {
		switch holder, taken := c.taken[e.id]; {
		case e.found:
		case taken:
			c.differs(Taken, e.id, holder.String())
		default:
			c.broken = true
			c.differs(Missing, e.id, "")
		}
	}
	return errors.Join(c.explain(ctx, changed), c.verifySettings(ctx))
}

// explain reads the changed rows again and reports the fields in which they differ.
func (c *copier) explain(ctx context.Context, changed []task.ID) error {
	for _, id := range changed {
		is, err := c.to.Get(ctx, id)
		if err != nil {
			return err
		}
		want, err := c.from.Get(ctx, id)
		if errors.Is(err, task.ErrNotFound) {
			c.differs(Different, id, "it was removed from the source during the copy")
			continue
		}
		if err != nil {
			return err
		}
		c.differs(Different, id, fieldsThatDiffer(is, want))
	}
	return nil
}

func (c *copier) verifySettings(ctx context.Context) error {
	for _, s := range c.settings {
		value, err := c.to.Setting(ctx, s.name)
		if err != nil {
			return err
		}
		if value == nil || !bytes.Equal(value, s.value) {
			c.differs(Setting, task.ID{}, s.name)
		}
	}
	return nil
}
