package kv

import (
	"slices"

	"github.com/taskengine/taskengine/task"
)

// derived finds the keys that a store must have because of its rows.
type derived struct {
	lent  map[string]*lent  // the priorities that the rows of ordering keys lend
	fails map[string]uint64 // the counters of rows in error, by their keys
	e     entries           // scratch, likewise key
	key   []byte
}

func newDerived() derived {
	return derived{lent: make(map[string]*lent), fails: make(map[string]uint64)}
}

// addRow passes the keys of a row to expect, and counts the row. A value of nil may be anything. expect must not keep the slices.
func (d *derived) addRow(r *row, expect func(key, value []byte)) {
	d.e.of(&r.Task)
	if r.Lends() {
		if d.lent[r.OrderingKey] == nil {
			d.lent[r.OrderingKey] = new(lent)
		}
		d.lent[r.OrderingKey].add(&r.Task, 1)
	}
	if len(d.e.failures) > 0 {
		d.fails[string(d.e.failures)]++
	}
	id := r.ID
	if len(d.e.ready) > 0 {
		expect(d.e.ready, d.e.readyValue)
	}
	if len(d.e.seat) > 0 {
		expect(d.e.seat, id[:])
	}
	if r.Turn == task.Head {
		expect(appendHeadKey(nil, r.OrderingKey), id[:])
	}
	for _, entry := range [...][]byte{d.e.due, d.e.kind, d.e.failed} {
		if len(entry) > 0 {
			expect(entry, []byte{})
		}
	}
	for key := range slices.Chunk(d.e.search, searchKeySize) {
		expect(key, []byte{})
	}
	if r.Key != "" {
		expect(appendUniqueKey(nil, &r.Task), id[:])
	}
	for _, bit := range [...]fields{farHistory, farPayload, farResult, farCheckpoint, farSignalData, farChildren} {
		if r.far&bit != 0 {
			d.key = appendIDKey(d.key[:0], partPrefix(bit), id)
			expect(d.key, nil)
		}
	}
}

// counters passes the counters of all rows to expect.
func (d *derived) counters(expect func(key, value []byte)) {
	for key, l := range d.lent {
		expect(appendLentKey(nil, key), appendLent(nil, l))
	}
	for key, n := range d.fails {
		expect([]byte(key), appendNumber(nil, n))
	}
}
