package kv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/taskengine/taskengine/task"
)

// Export implements [storage.Exporter].
func (c *Calls) Export(ctx context.Context, setting func(string, []byte) error, row func(*task.Task) error) error {
	return c.view(ctx, "export", func(v *View) error { return v.Export(ctx, setting, row) })
}

// Export implements the contract of [storage.Exporter]. Records are stored in the order of their
// IDs: Export reads them twice, and keeps in memory the position of each in the order of Seq.
func (v *View) Export(ctx context.Context, setting func(string, []byte) error, row func(*task.Task) error) error {
	settings, err := v.settings()
	if err != nil {
		return v.db.fail("export", err)
	}
	for _, s := range settings {
		if err := setting(s.name, s.value); err != nil {
			return err
		}
	}
	order, err := v.order(ctx)
	if err != nil {
		return v.db.fail("export", err)
	}
	for seen, at := range order {
		if err := pause(ctx, seen); err != nil {
			return v.db.fail("export", err)
		}
		t, err := v.exported(at.id)
		if err != nil {
			return v.db.fail("export", err)
		}
		if err := row(t); err != nil {
			return err
		}
	}
	return nil
}

func (v *View) exported(id task.ID) (*task.Task, error) {
	r, err := v.row(id)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, fmt.Errorf("task %v is gone from a view: %w", id, ErrDamaged)
	}
	return v.whole(r)
}

// place is a row in the order of insertion.
type place struct {
	seq uint64
	id  task.ID
}

// order returns all rows in the order of Seq.
func (v *View) order(ctx context.Context) (order []place, err error) {
	c, err := v.r.Scan([]byte{prefixRecord}, []byte{prefixRecord + 1})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for seen, ok := 0, c.First(); ok; seen, ok = seen+1, c.Next() {
		if err := pause(ctx, seen); err != nil {
			return nil, err
		}
		id, err := idOf(c.Key())
		if err != nil {
			return nil, err
		}
		r, err := v.rowAt(c, id)
		if err != nil {
			return nil, err
		}
		order = append(order, place{r.Seq, id})
	}
	slices.SortFunc(order, func(a, b place) int { return cmp.Or(cmp.Compare(a.seq, b.seq), a.id.Compare(b.id)) })
	return order, nil
}

type namedSetting struct {
	name  string
	value []byte
}

// settings returns all settings in the order of their names.
func (v *View) settings() (all []namedSetting, err error) {
	prefix := []byte(settingPrefix)
	c, err := v.r.Scan(prefix, successor(prefix))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for ok := c.First(); ok; ok = c.Next() {
		value, err := c.Value()
		if err != nil {
			return nil, err
		}
		all = append(all, namedSetting{string(c.Key()[len(prefix):]), append([]byte{}, value...)})
	}
	return all, nil
}
