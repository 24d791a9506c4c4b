package kv

import (
	"errors"
	"slices"

	"github.com/taskengine/taskengine/task"
)

// few rows are read faster one by one.
const few = 8

// each reads the rows with these ids and calls fn with each row, nil if there is none, and its
// index in ids. It reads in the order of the keys: tasks that are due one after the other were
// mostly created so, and their records are adjacent.
func (v *View) each(ids []task.ID, fn func(i int, r *row) error) (err error) {
	if len(ids) < few {
		for i, id := range ids {
			r, err := v.row(id)
			if err != nil {
				return err
			}
			if err := fn(i, r); err != nil {
				return err
			}
		}
		return nil
	}
	places := make([]int, len(ids))
	for i := range places {
		places[i] = i
	}
	slices.SortFunc(places, func(i, j int) int { return ids[i].Compare(ids[j]) })
	first, last := ids[places[0]], ids[places[len(places)-1]]
	end := append(appendIDKey(nil, prefixRecord, last), 0) // the first key after it
	c, err := v.r.ScanCommitted(appendIDKey(nil, prefixRecord, first), end)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for _, i := range places {
		r, touched := v.rows[ids[i]]
		if !touched {
			if r, err = v.seek(c, ids[i]); err != nil {
				return err
			}
		}
		if err := fn(i, r); err != nil {
			return err
		}
	}
	return nil
}

// seek reads the row with this id from a cursor over records; nil is none.
func (v *View) seek(c Cursor, id task.ID) (*row, error) {
	var buf [idKeySize]byte
	if !c.Seek(appendIDKey(buf[:0], prefixRecord, id)) {
		return nil, c.Err()
	}
	if found, err := idOf(c.Key()); err != nil || found != id {
		return nil, err
	}
	return v.rowAt(c, id)
}

// readAhead reads the rows that are about to be changed and are not cached.
func (s *state) readAhead(cs []task.Change) error {
	ids := s.ahead[:0]
	for i := range cs {
		id := cs[i].ID
		if r, maybe := s.db.recent.lookup(id); r != nil || !maybe {
			continue
		}
		if _, touched := s.rows[id]; !touched {
			ids = append(ids, id)
		}
	}
	s.ahead = ids
	if len(ids) < few {
		return nil
	}
	return s.each(ids, func(i int, r *row) error {
		s.old[ids[i]] = r
		return nil
	})
}
