package kv

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/taskengine/taskengine/task"
)

// Bounds of the memory of a DB of the rows that are Behind.
const (
	maxUpcoming   = 16             // rows of an ordering key
	upcomingKeys  = 10_000         // ordering keys
	upcomingReads = recentRows / 2 // rows of all keys that are read before they are needed
)

// upcoming is the memory of a DB of the rows of an ordering key that are Behind: the first of them, so that most
// promotions neither scan the index of seats nor read a row alone. It has the view of the transaction in progress, so a
// transaction that is rolled back leaves nothing of it.
type upcoming struct {
	low  task.Seat // no row that is Behind has a seat before
	next []seated  // in the order of seats: the rows that are Behind with a seat up to the last of these
	all  bool      // no row that is Behind has a seat after the last of next
}

// seated is the seat of a row.
type seated struct {
	seat task.Seat
	id   task.ID
}

func (a seated) compare(b seated) int { return a.seat.Compare(b.seat) }

// add notes that a row is Behind now.
func (u *upcoming) add(p seated) {
	if p.seat.Compare(u.low) < 0 {
		u.low = p.seat
	}
	i, known := slices.BinarySearchFunc(u.next, p, seated.compare)
	switch {
	case known && u.next[i].id == p.id:
	case i < len(u.next): // a late row
		u.next, u.all = nil, false
	case u.all && i < maxUpcoming:
		u.next = append(u.next, p)
	default:
		u.all = false
	}
}

// seated notes that a row is Behind now.
func (db *DB) seated(t *task.Task) {
	if u := db.upcoming[t.OrderingKey]; u != nil {
		u.add(seated{t.Seat(), t.ID})
	}
}

// unseated notes that a row is Behind no more, or has another seat now.
func (db *DB) unseated(t *task.Task) {
	u := db.upcoming[t.OrderingKey]
	if u == nil {
		return
	}
	p := seated{t.Seat(), t.ID}
	switch i, known := slices.BinarySearchFunc(u.next, p, seated.compare); {
	case known && i == 0:
		u.low, u.next = p.seat, u.next[1:]
	case known:
		u.next = slices.Delete(u.next, i, i+1)
	}
}

// upcomingOf returns the memory of a key.
func (db *DB) upcomingOf(key string) *upcoming {
	u := db.upcoming[key]
	if u == nil {
		if len(db.upcoming) >= upcomingKeys {
			clear(db.upcoming)
		}
		u = &upcoming{low: task.Seat{ReadyAt: math.MinInt64}}
		db.upcoming[key] = u
	}
	return u
}

// firstBehind returns the row with the first seat among the rows of a key that are Behind, or nil.
func (s *state) firstBehind(key string) (*row, error) {
	u := s.db.upcomingOf(key)
	first, err := s.firstKnown(u)
	if err != nil || first != nil || u.all {
		return first, err
	}
	if err := s.lookAhead(key, u); err != nil {
		return nil, err
	}
	return s.firstKnown(u)
}

// firstKnown returns the first row of u, or nil.
func (s *state) firstKnown(u *upcoming) (*row, error) {
	if len(u.next) == 0 {
		return nil, nil
	}
	r, err := s.row(u.next[0].id)
	if err == nil && r == nil {
		err = fmt.Errorf("task %v has a seat and does not exist: %w", u.next[0].id, ErrDamaged)
	}
	return r, err
}

// lookAhead finds the first rows of a key that are Behind, when u knows none. It looks at the rows of the transaction,
// and at the committed ones that the transaction has not changed: a scan that sees its writes costs much more.
func (s *state) lookAhead(key string, u *upcoming) error {
	next, more, err := s.scanSeats(key, u.low)
	if err != nil {
		return err
	}
	if err := s.readUpcoming(next); err != nil {
		return err
	}
	for _, id := range s.ordered[key] {
		if r := s.rows[id]; r != nil && r.Turn == task.Behind {
			p := seated{r.Seat(), id}
			if i, known := slices.BinarySearchFunc(next, p, seated.compare); !known && (i < len(next) || !more) {
				next = slices.Insert(next, i, p)
			}
		}
	}
	u.next, u.all = next, !more
	return nil
}

// scanSeats returns the first committed rows of a key that are Behind with a seat from low on, without the ones that the
// transaction has changed, and whether there are more.
func (s *state) scanSeats(key string, low task.Seat) (next []seated, more bool, err error) {
	prefix := appendKeyOfSeats(nil, key)
	c, err := s.r.ScanCommitted(appendSeat(bytes.Clone(prefix), low), successor(prefix))
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for ok := c.First(); ok; ok = c.Next() {
		value, err := c.Value()
		if err != nil {
			return nil, false, err
		}
		id, err := idOfValue(c.Key(), value)
		if err != nil {
			return nil, false, err
		}
		if _, touched := s.rows[id]; touched {
			continue
		}
		if len(next) == maxUpcoming {
			return next, true, nil
		}
		seat, err := seatOf(c.Key(), len(prefix))
		if err != nil {
			return nil, false, err
		}
		next = append(next, seated{seat, id})
	}
	return next, false, c.Err()
}

// readUpcoming reads rows that are likely to become heads soon, as many as will not be forgotten before.
func (s *state) readUpcoming(next []seated) error {
	n := min(len(next), max(1, upcomingReads/len(s.db.upcoming)))
	ids := make([]task.ID, 0, n)
	for _, p := range next[:n] {
		if r, maybe := s.db.recent.lookup(p.id); r == nil && maybe {
			ids = append(ids, p.id)
		}
	}
	return s.each(ids, func(i int, r *row) error {
		s.db.recent.put(ids[i], r)
		return nil
	})
}
