package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// behindPage is how many ordering keys, or rows behind a head, are read at once.
const behindPage = 100

// behind reads the tasks that are behind the heads of their ordering keys. No queue has them.
type behind struct {
	depths *depths
	store  storage.KeyInspector
	counts bool            // whether they are added up, or only the oldest are looked for
	most   int             // how many are read of each key
	left   int             // how many may still be read
	types  map[string]bool // of the tasks read
	isCut  bool            // whether a bound was met
}

// readBehind notes the oldest of the submitted tasks that are behind others, and adds them up if counts is set. If
// it meets a bound, there may be more tasks of each type that it has seen.
func (d *depths) readBehind(ctx context.Context, counts bool) error {
	s, ok := d.store.(storage.KeyInspector)
	if !ok {
		return nil
	}
	b := behind{depths: d, store: s, counts: counts, most: behindPage, left: mostOrdered, types: make(map[string]bool)}
	if counts {
		b.most = mostBehind
	}
	err := b.readKeys(ctx)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil
	case err != nil:
		return fmt.Errorf("read the tasks of ordering keys: %w", err)
	}
	for typ := range b.types {
		t := d.of(typ)
		t.More = t.More || b.isCut
	}
	return nil
}

// readKeys reads the keys that have tasks behind their heads.
func (b *behind) readKeys(ctx context.Context) error {
	q := storage.KeyQuery{Behind: true, Limit: behindPage, Scan: behindPage}
	for range mostKeys / behindPage {
		page, err := b.store.ListKeys(ctx, q)
		if err != nil {
			return err
		}
		for _, k := range page.Keys {
			if b.left <= 0 {
				b.isCut = true
				return nil
			}
			if err := b.readKey(ctx, k.Key); err != nil {
				return err
			}
		}
		if q.After = page.Next; q.After == "" {
			return nil
		}
	}
	b.isCut = true
	return nil
}

// readKey reads the first tasks behind the head of a key.
func (b *behind) readKey(ctx context.Context, key string) error {
	var after *task.Seat
	for n := 0; ; {
		limit := min(behindPage, b.most-n, b.left)
		if limit <= 0 {
			b.isCut = b.isCut || b.counts
			return nil
		}
		rows, err := b.store.ListKey(ctx, key, after, limit)
		if err != nil {
			return err
		}
		for _, t := range rows.Behind {
			b.add(t)
		}
		n, b.left = n+len(rows.Behind), b.left-len(rows.Behind)
		if !rows.More || len(rows.Behind) == 0 {
			return nil
		}
		seat := rows.Behind[len(rows.Behind)-1].Seat()
		after = &seat
	}
}

func (b *behind) add(t *task.Task) {
	if t.State != task.Submitted {
		return
	}
	d := b.depths.of(t.Type)
	d.isReady(t.ReadyAt)
	if b.types[t.Type] = true; b.counts {
		d.Submitted++
	}
}
