package kv

import (
	"context"
	"errors"
	"fmt"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// A row of an ordering key that is Behind has an entry in the index of seats, and the head of a key has one in the
// table of heads.

// Promote implements [storage.Tasks].
func (tx *Tx) Promote(ctx context.Context, keys ...string) (heads []task.Hint, err error) {
	err = tx.do(ctx, "promote", func() error {
		for _, key := range keys {
			r, err := tx.promote(key)
			if err != nil {
				return err
			}
			if r != nil && r.State == task.Submitted {
				heads = append(heads, r.Hint())
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return heads, nil
}

// promote gives a key the head that it is to have, and returns that row; nil if there is none.
func (s *state) promote(key string) (*row, error) {
	head, err := s.headOf(key)
	if err != nil {
		return nil, err
	}
	if head == nil || head.State == task.Submitted && !head.HasBegun() { // else it stays, whatever is behind it
		if head, err = s.nextHead(key, head); err != nil {
			return nil, err
		}
	}
	if head == nil {
		return nil, nil
	}
	return s.boost(head)
}

// nextHead returns the head that a key is to have, given the one that it has; nil for none.
func (s *state) nextHead(key string, head *row) (*row, error) {
	first, err := s.firstBehind(key)
	if err != nil || first == nil {
		return head, err
	}
	if id, isPlaced := s.placed[key]; isPlaced {
		delete(s.placed, key)
		// A row that was inserted later has an earlier seat: it is chosen as if the key had no head yet.
		if head != nil && head.ID == id && first.Seat().Compare(head.Seat()) < 0 {
			if _, err := s.setTurn(head, task.Behind); err != nil {
				return nil, err
			}
			head = nil
		}
	}
	demote, promote := task.NextHead(head.task(), &first.Task)
	if demote {
		if _, err := s.setTurn(head, task.Behind); err != nil {
			return nil, err
		}
	}
	if !promote {
		return head, nil
	}
	return s.setTurn(first, task.Head)
}

// place makes a row that is about to be inserted the head of its ordering key if Promote would, so that its record and its
// index entries are written once.
func (s *state) place(t *task.Task) error {
	if t.Turn != task.Behind || t.State != task.Submitted {
		return nil
	}
	if head, err := s.headID(t.OrderingKey); err != nil || !head.IsZero() {
		return err
	}
	first, err := s.firstBehind(t.OrderingKey)
	if err != nil || first != nil && first.Seat().Compare(t.Seat()) < 0 {
		return err
	}
	if _, promote := task.NextHead(nil, t); !promote {
		return nil
	}
	t.Turn, s.placed[t.OrderingKey] = task.Head, t.ID
	t.Boost, err = s.inherited(t)
	return err
}

// yieldHead reports whether a key has no head. One that place has made the head gives that up: Promote has not been called yet.
func (s *state) yieldHead(key string) (isFree bool, err error) {
	head, err := s.headID(key)
	if err != nil || head.IsZero() {
		return err == nil, err
	}
	if s.placed[key] != head {
		return false, nil
	}
	delete(s.placed, key)
	r, err := s.row(head)
	if err != nil {
		return false, err
	}
	_, err = s.setTurn(r, task.Behind)
	return err == nil, err
}

// task returns the task of a row; nil for none.
func (r *row) task() *task.Task {
	if r == nil {
		return nil
	}
	return &r.Task
}

// setTurn gives a row another turn, and one that becomes the head the priority that it inherits.
func (s *state) setTurn(old *row, to task.Turn) (*row, error) {
	now := s.db.newRow(&old.Task, old.far)
	now.Turn, now.Boost = to, 0
	if err := s.moveTurn(&old.Task, &now.Task); err != nil {
		return nil, err
	}
	boost, err := s.inherited(&now.Task)
	if err != nil {
		return nil, err
	}
	now.Boost = boost
	return now, s.rewrite(old, now)
}

// boost gives the head of a key the priority that it inherits.
func (s *state) boost(head *row) (*row, error) {
	boost, err := s.inherited(&head.Task)
	if err != nil || boost == head.Boost {
		return head, err
	}
	now := s.db.newRow(&head.Task, head.far)
	now.Boost = boost
	return now, s.rewrite(head, now)
}

// rewrite writes a row that has another turn or boost.
func (s *state) rewrite(old, now *row) error {
	if err := s.putRecord(now); err != nil {
		return err
	}
	s.was.of(&old.Task)
	s.is.of(&now.Task)
	if err := s.moveEntries(); err != nil {
		return err
	}
	s.note(now.ID, now)
	return nil
}

// moveTurn updates the table of heads after a change of a row, and the memory of the rows that are Behind.
func (s *state) moveTurn(old, now *task.Task) error {
	if err := s.moveLoan(old, now); err != nil {
		return err
	}
	if old.Turn == task.Behind && (now.Turn != task.Behind || now.Seat() != old.Seat()) {
		s.db.unseated(old)
	}
	switch {
	case now.Turn == task.Head && old.Turn != task.Head:
		return s.setHead(now.OrderingKey, now.ID)
	case old.Turn == task.Head && now.Turn != task.Head:
		return s.setHead(old.OrderingKey, task.ID{})
	}
	return nil
}

// setHead records which row is the head of a key; the zero ID is none.
func (s *state) setHead(key string, id task.ID) error {
	s.heads[key] = id
	s.key = appendHeadKey(s.key[:0], key)
	if id.IsZero() {
		return s.rw.Delete(s.key)
	}
	return s.rw.Put(s.key, id[:])
}

// headOf returns the head of a key, or nil.
func (s *state) headOf(key string) (*row, error) {
	id, err := s.headID(key)
	if err != nil || id.IsZero() {
		return nil, err
	}
	return s.row(id)
}

// headID is [View.headID]. It remembers the answer, because a batch may add many rows of one key.
func (s *state) headID(key string) (task.ID, error) {
	id, err := s.View.headID(key)
	if err == nil {
		s.heads[key] = id
	}
	return id, err
}

// headID returns the ID of the head of a key; zero if there is none.
func (v *View) headID(key string) (task.ID, error) {
	if id, touched := v.heads[key]; touched {
		return id, nil
	}
	name := appendHeadKey(nil, key)
	value, found, err := v.r.Get(name)
	if err != nil || !found {
		return task.ID{}, err
	}
	return idOfValue(name, value)
}

// headlessScan is how many keys one call of Headless reads at most.
const headlessScan = 10_000

// Headless implements [storage.Tasks].
func (v *View) Headless(ctx context.Context, after string, limit int) (storage.HeadlessPage, error) {
	page, err := v.headless(ctx, after, limit)
	if err != nil {
		return storage.HeadlessPage{}, v.db.fail("headless", err)
	}
	return page, nil
}

func (v *View) headless(ctx context.Context, after string, limit int) (page storage.HeadlessPage, err error) {
	if err := ctx.Err(); err != nil || limit < 1 {
		return page, err
	}
	lower := []byte{prefixSeat}
	if after != "" {
		lower = successor(appendKeyOfSeats(nil, after))
	}
	c, err := v.r.Scan(lower, []byte{prefixSeat + 1})
	if err != nil {
		return page, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	next := after
	for n, ok := 0, c.First(); ok; n++ {
		if len(page.Keys) == limit || n == headlessScan {
			page.Next = next
			return page, nil
		}
		key, _, err := cutText(c.Key()[1:])
		if err != nil {
			return page, err
		}
		lacks, err := v.lacksHead(c, key)
		if err != nil {
			return page, err
		}
		if lacks {
			page.Keys = append(page.Keys, key)
		}
		next, ok = key, c.Seek(successor(appendKeyOfSeats(nil, key)))
	}
	return page, c.Err()
}

// lacksHead reports whether Promote would give a key another head, or its head another priority. The cursor is at the first seat of the key.
func (v *View) lacksHead(c Cursor, key string) (bool, error) {
	value, err := c.Value()
	if err != nil {
		return false, err
	}
	id, err := idOfValue(c.Key(), value)
	if err != nil {
		return false, err
	}
	first, err := v.row(id)
	if err != nil {
		return false, err
	}
	if first == nil {
		return false, fmt.Errorf("task %v has a seat and does not exist: %w", id, ErrDamaged)
	}
	headID, err := v.headID(key)
	if err != nil {
		return false, err
	}
	var head *row
	if !headID.IsZero() {
		if head, err = v.row(headID); err != nil {
			return false, err
		}
	}
	if _, promote := task.NextHead(head.task(), &first.Task); promote || head == nil || !head.Inherits {
		return promote, nil
	}
	l, err := v.readLent(key)
	return err == nil && head.Inherit(l.highest()) != head.Boost, err
}

// Headless implements [storage.Tasks].
func (tx *Tx) Headless(ctx context.Context, after string, limit int) (storage.HeadlessPage, error) {
	return read(tx, func(v *View) (storage.HeadlessPage, error) { return v.Headless(ctx, after, limit) })
}

// Promote implements [storage.Tasks].
func (c *Calls) Promote(ctx context.Context, keys ...string) ([]task.Hint, error) {
	return change(ctx, c, func(tx storage.Tx) ([]task.Hint, error) { return tx.Promote(ctx, keys...) })
}

// Headless implements [storage.Tasks].
func (c *Calls) Headless(ctx context.Context, after string, limit int) (storage.HeadlessPage, error) {
	return query(ctx, c, "headless", func(v *View) (storage.HeadlessPage, error) { return v.Headless(ctx, after, limit) })
}
