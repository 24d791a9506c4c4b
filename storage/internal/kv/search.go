package kv

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// A row with search values has an entry for each of them, by the value and the id. Rows without them have none.

const searchKeySize = 1 + 8 + 16

func appendSearchKey(b []byte, v task.SearchValue, id task.ID) []byte {
	return append(binary.BigEndian.AppendUint64(append(b, prefixSearch), uint64(v)), id[:]...)
}

// withoutCommon removes the keys of the index of search values that are in both lists.
func withoutCommon(was, is *[]byte) {
	if len(*was) == 0 || len(*is) == 0 {
		return
	}
	if bytes.Equal(*was, *is) {
		*was, *is = (*was)[:0], (*is)[:0]
		return
	}
	before := bytes.Clone(*was)
	without := func(list *[]byte, other []byte) {
		left := (*list)[:0]
		for key := range slices.Chunk(*list, searchKeySize) {
			if !isIn(other, key) {
				left = append(left, key...)
			}
		}
		*list = left
	}
	without(was, *is)
	without(is, before)
}

// isIn reports whether key is one of the keys of list.
func isIn(list, key []byte) bool {
	for one := range slices.Chunk(list, searchKeySize) {
		if bytes.Equal(one, key) {
			return true
		}
	}
	return false
}

// appendSearch encodes the search values of a row.
func appendSearch(b []byte, values []task.SearchValue) []byte {
	b = binary.AppendUvarint(b, uint64(len(values)))
	for _, v := range values {
		b = binary.BigEndian.AppendUint64(b, uint64(v))
	}
	return b
}

func (d *decoder) search() []task.SearchValue {
	n := d.number(task.MaxSearchValues)
	if d.bad {
		return nil
	}
	values := make([]task.SearchValue, n)
	for i := range values {
		values[i] = task.SearchValue(binary.BigEndian.Uint64(d.fixed(8)))
		if i > 0 && values[i] <= values[i-1] {
			d.fail()
		}
	}
	return values
}

// parseSearchKey returns the id in a key of the index of search values.
func parseSearchKey(key []byte) (task.ID, error) {
	if len(key) != searchKeySize {
		return task.ID{}, fmt.Errorf("key %x: %w", key, ErrDamaged)
	}
	return task.ID(key[searchKeySize-len(task.ID{}):]), nil
}

// searchRange returns the range of the entries of a search value within the ids of q.
func searchRange(v task.SearchValue, q *storage.ListQuery) span {
	r := span{lower: appendSearchKey(nil, v, q.Above), upper: appendSearchKey(nil, v, q.Before)}
	if !q.Above.IsZero() {
		r.lower = append(r.lower, 0)
	}
	if q.Before.IsZero() {
		r.upper = append(appendSearchKey(nil, v, lastID), 0)
	}
	return r
}

// lastID is the greatest id.
var lastID = task.ID(bytes.Repeat([]byte{0xff}, len(task.ID{})))

// span is a range of keys.
type span struct{ lower, upper []byte }

// plan is a way to read the rows of a list: by the entries in some spans.
type plan struct {
	set   int // the index of the search set; -1 for another index
	spans []span
}

// searchPlan returns the index of the search set by which the fewest rows have to be read, -1 if there are fewer by the kinds or the states of q.
func (v *View) searchPlan(ctx context.Context, q *storage.ListQuery) (int, error) {
	var plans []plan
	for i, set := range q.Search {
		p := plan{set: i}
		for _, value := range set.Values {
			p.spans = append(p.spans, searchRange(value, q))
		}
		plans = append(plans, p)
	}
	switch {
	case q.Kinds != nil:
		kinds, few, err := v.kindsIn(q.Kinds)
		if err != nil {
			return 0, err
		}
		if few {
			plans = append(plans, plan{-1, kindSpans(kinds)})
		}
	case indexed(q.Filter):
		plans = append(plans, plan{-1, stateSpans(q.Filter)})
	}
	if len(plans) == 1 {
		return 0, nil
	}
	return v.smallest(ctx, plans)
}

// Entries are counted until one plan has fewer than fewEntries, than searchStep times as many, and so on up to manyEntries.
const (
	fewEntries  = 1 << 8
	searchStep  = 1 << 3
	manyEntries = 1 << 14
)

// smallest returns the set of the plan with the fewest entries. Of plans with many entries it is the first.
func (v *View) smallest(ctx context.Context, plans []plan) (int, error) {
	for limit := fewEntries; limit <= manyEntries; limit *= searchStep {
		best, least := 0, limit
		for i, p := range plans {
			n, err := v.size(ctx, p.spans, least)
			if err != nil {
				return 0, err
			}
			if n < least {
				best, least = i, n
			}
		}
		if least < limit {
			return plans[best].set, nil
		}
	}
	return plans[0].set, nil
}

// size returns how many keys are in some spans, at most limit.
func (v *View) size(ctx context.Context, spans []span, limit int) (n int, err error) {
	for _, s := range spans {
		err := v.walk(ctx, s.lower, s.upper, func(Cursor) error {
			if n == limit {
				return errTooMany
			}
			n++
			return nil
		})
		if err != nil && !errors.Is(err, errTooMany) {
			return 0, err
		}
		if n == limit {
			break
		}
	}
	return n, nil
}

func kindSpans(kinds []task.ErrorKind) (spans []span) {
	for _, k := range kinds {
		spans = append(spans, span{appendKindKey(nil, k, task.ID{}), append(appendKindKey(nil, k, lastID), 0)})
	}
	return spans
}

func stateSpans(f storage.Filter) (spans []span) {
	if slices.Contains(f.States, task.Submitted) {
		spans = append(spans, span{[]byte{prefixReady}, []byte{prefixReady + 1}}, span{[]byte{prefixSeat}, []byte{prefixSeat + 1}})
	}
	for _, s := range untimedOf(f) {
		for _, prefix := range [...]byte{prefixDue, prefixNever} {
			spans = append(spans, span{[]byte{prefix, byte(s)}, []byte{prefix, byte(s) + 1}})
		}
	}
	return spans
}

// listSearch reads only the records of rows that have a value of a search set of q, and of those the ones that have entries of the others.
func (v *View) listSearch(ctx context.Context, q storage.ListQuery, set int) (page storage.ListPage, err error) {
	of, err := v.othersOf(q, set)
	if err != nil {
		return page, err
	}
	var from newest
	if len(of.sets) > 0 || of.of != nil {
		from.has = of.has
	}
	defer func() { err = errors.Join(err, from.close()) }()
	for _, value := range q.Search[set].Values {
		r := searchRange(value, &q)
		if err := from.addRange(v.r, r.lower, r.upper); err != nil {
			return storage.ListPage{}, err
		}
	}
	page, err = v.listNewest(ctx, q, &from)
	page.Index = q.Search[set].Name
	return page, err
}

// others are the indexes that the rows of a list have entries of, without the one by which they are found.
type others struct {
	v    *View
	sets []task.SearchSet
	of   []task.ErrorKind // nil for any
}

// mostLooked is how many entries of an index are looked up for a row at most. Rows with one of more are read.
const mostLooked = 4

// othersOf returns the indexes of q without a search set, or without that of kinds if set is -1.
func (v *View) othersOf(q storage.ListQuery, set int) (others, error) {
	o := others{v: v}
	for i, other := range q.Search {
		if i != set && len(other.Values) <= mostLooked {
			o.sets = append(o.sets, other)
		}
	}
	if q.Kinds == nil || set < 0 {
		return o, nil
	}
	kinds, few, err := v.kindsIn(q.Kinds)
	if few && len(kinds) <= mostLooked {
		o.of = append([]task.ErrorKind{}, kinds...)
	}
	return o, err
}

// has reports whether a row has an entry of each of the indexes: a look costs much less than to read a row that is far from the others.
func (o others) has(id task.ID) (bool, error) {
	var buf [searchKeySize]byte
	for _, set := range o.sets {
		if ok, err := hasOne(o.v.r, set.Values, func(value task.SearchValue) []byte { return appendSearchKey(buf[:0], value, id) }); !ok || err != nil {
			return false, err
		}
	}
	if o.of == nil {
		return true, nil
	}
	return hasOne(o.v.r, o.of, func(kind task.ErrorKind) []byte { return appendKindKey(buf[:0], kind, id) })
}

// hasOne reports whether one of some keys is there.
func hasOne[T any](r Reader, all []T, key func(T) []byte) (bool, error) {
	for _, one := range all {
		if _, found, err := r.Get(key(one)); found || err != nil {
			return found, err
		}
	}
	return false, nil
}
