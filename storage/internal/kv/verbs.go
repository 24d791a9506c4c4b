package kv

import (
	"context"
	"slices"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Insert implements [storage.Tasks].
func (tx *Tx) Insert(ctx context.Context, ts ...*task.Task) ([]storage.Inserted, error) {
	return tx.insertAll(ctx, ts, false)
}

// InsertWithTurns implements [storage.TurnInserter].
func (tx *Tx) InsertWithTurns(ctx context.Context, ts ...*task.Task) ([]storage.Inserted, error) {
	return tx.insertAll(ctx, ts, true)
}

func (tx *Tx) insertAll(ctx context.Context, ts []*task.Task, placed bool) (out []storage.Inserted, err error) {
	err = tx.do(ctx, "insert", func() error {
		out = make([]storage.Inserted, len(ts))
		for i, t := range ts {
			if out[i].Existing, err = tx.insert(t, placed); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// insert adds one row. If a row has its ID or unique key, insert returns the ID of that row. If placed is set, the record
// has the turn that Promote would give the row.
func (s *state) insert(t *task.Task, placed bool) (existing task.ID, err error) {
	if old, err := s.row(t.ID); err != nil || old != nil {
		return t.ID, err
	}
	if t.Key != "" {
		if existing, err = s.takeKey(t); err != nil || !existing.IsZero() {
			return existing, err
		}
	}
	t.Boost = 0
	if t.Turn == task.Head {
		isFree, err := s.yieldHead(t.OrderingKey)
		if err != nil {
			return task.ID{}, err
		}
		if !isFree {
			t.Turn = task.Behind
		}
	}
	if t.Seq, err = s.nextSeq(); err != nil {
		return task.ID{}, err
	}
	r := s.db.newRow(t, 0)
	r.Type = s.db.intern.share(t.Type)
	stamp(&r.Task)
	if placed {
		if err := s.place(&r.Task); err != nil {
			return task.ID{}, err
		}
	}
	if len(t.Headers) > 0 {
		r.Headers = cloneHeaders(t.Headers)
	}
	if len(t.Search) > 0 {
		r.Search = slices.Clone(t.Search)
	}
	if err := s.putHistory(r, t.History); err != nil {
		return task.ID{}, err
	}
	if err := s.putPart(r, farPayload, &r.Payload); err != nil {
		return task.ID{}, err
	}
	if err := s.putPart(r, farResult, &r.Result); err != nil {
		return task.ID{}, err
	}
	if r.Notes != nil {
		if err := s.putCheckpoint(r); err != nil {
			return task.ID{}, err
		}
	}
	if r.Signals != nil {
		if err := s.putSignals(r, t.Signals); err != nil {
			return task.ID{}, err
		}
	}
	if r.Parent != nil {
		r.Parent = new(*t.Parent)
	}
	if r.Children != nil {
		if err := s.putChildren(r, t.Children); err != nil {
			return task.ID{}, err
		}
	}
	if err := s.putRecord(r); err != nil {
		return task.ID{}, err
	}
	s.is.of(&r.Task)
	if err := s.putEntries(); err != nil {
		return task.ID{}, err
	}
	s.note(r.ID, r)
	return task.ID{}, s.moveTurn(new(task.Task), &r.Task)
}

// takeKey records the unique key of t, or returns the ID of the task that has it.
func (s *state) takeKey(t *task.Task) (holder task.ID, err error) {
	s.key = appendUniqueKey(s.key[:0], t)
	if holder, err = s.keyHolder(s.key); err != nil || !holder.IsZero() {
		return holder, err
	}
	s.keys[string(s.key)] = t.ID
	return task.ID{}, s.rw.Put(s.key, t.ID[:])
}

// giveKeyBack removes the unique key of a row.
func (s *state) giveKeyBack(old *task.Task) error {
	s.key = appendUniqueKey(s.key[:0], old)
	s.keys[string(s.key)] = task.ID{}
	return s.rw.Delete(s.key)
}

// nextSeq returns the next sequence number. It reserves a block of them when none is left.
func (s *state) nextSeq() (uint64, error) {
	db := s.db
	db.seq++
	if db.seq > db.ceiling {
		db.ceiling = db.seq + seqBlock
		s.value = appendNumber(s.value[:0], db.ceiling)
		if err := s.rw.Put(keySeq, s.value); err != nil {
			return 0, err
		}
	}
	return db.seq, nil
}

// Swap implements [storage.Tasks].
func (tx *Tx) Swap(ctx context.Context, cs ...task.Change) (out []*task.Task, err error) {
	err = tx.do(ctx, "swap", func() error {
		if err := tx.readAhead(cs); err != nil {
			return err
		}
		out = make([]*task.Task, len(cs))
		for i := range cs {
			if out[i], err = tx.swap(&cs[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// swap makes one change and returns the caller's copy of the row.
func (s *state) swap(c *task.Change) (*task.Task, error) {
	old, err := s.row(c.ID)
	if err != nil || old == nil || old.Version != c.Version && c.Signal == nil && c.Ends == nil && c.More == nil {
		return nil, err
	}
	out := new(task.Task)
	*out = old.Task
	if old.far&farHistory != 0 {
		if out.History, err = s.farHistory(old); err != nil {
			return nil, err
		}
	}
	if out.Signals, err = s.allSignals(old); err != nil {
		return nil, err
	}
	if out.Children, err = s.allChildren(old); err != nil {
		return nil, err
	}
	before, signals, children := out.History, out.Signals, out.Children
	if !c.Apply(out) {
		return nil, nil
	}
	if old.Key != "" && out.Key == "" {
		if err := s.giveKeyBack(&old.Task); err != nil {
			return nil, err
		}
	}
	now := s.db.newRow(out, old.far)
	now.History, now.Signals, now.Children = old.History, old.Signals, old.Children
	if !slices.Equal(before, out.History) {
		if err := s.putHistory(now, out.History); err != nil {
			return nil, err
		}
	}
	forgets := c.Forgets()
	if forgets || c.Completes(old.State) {
		if err := s.recall(now, farCheckpoint); err != nil {
			return nil, err
		}
		if err := s.putPart(now, farResult, &now.Result); err != nil {
			return nil, err
		}
	}
	if forgets || c.Payload != nil {
		if err := s.putPart(now, farPayload, &now.Payload); err != nil {
			return nil, err
		}
	}
	if forgets || c.Checkpoint != nil {
		if err := s.putCheckpoint(now); err != nil {
			return nil, err
		}
	}
	if out.Signals != signals {
		if err := s.putSignals(now, out.Signals); err != nil {
			return nil, err
		}
	}
	if out.Children != children {
		if err := s.putChildren(now, out.Children); err != nil {
			return nil, err
		}
	}
	if err := s.putRecord(now); err != nil {
		return nil, err
	}
	s.note(now.ID, now)
	if now.Version == old.Version { // it has kept a signal, or the end of a child
		return out, s.handOut(out, now)
	}
	s.was.of(&old.Task)
	s.is.of(&now.Task)
	if s.was.never() && !s.is.never() && (now.State == task.Submitted || untimed(now.State)) {
		s.db.pages.move(now.ID)
	}
	if err := s.moveEntries(); err != nil {
		return nil, err
	}
	if err := s.moveTurn(&old.Task, &now.Task); err != nil {
		return nil, err
	}
	return out, s.handOut(out, now)
}

// handOut makes t, which shares memory with r, a copy that the caller owns: with the payload and
// the checkpoint if it was grabbed now, and without a result.
func (s *state) handOut(t *task.Task, r *row) (err error) {
	t.Result, t.Payload, t.Notes = nil, nil, task.NewNotes(r.Progress(), nil)
	if t.State == task.Processing {
		if t.Payload, err = s.part(r, farPayload, r.Payload); err != nil {
			return err
		}
		if t.Notes, err = s.notes(r); err != nil {
			return err
		}
	}
	t.Headers = cloneHeaders(t.Headers)
	t.History = slices.Clone(t.History)
	t.Search = slices.Clone(t.Search)
	t.Signals, t.Children = t.Signals.Clone(), t.Children.Clone()
	if t.Parent != nil {
		t.Parent = new(*t.Parent)
	}
	return nil
}

// Note implements [storage.Tasks].
func (tx *Tx) Note(ctx context.Context, ns ...task.Note) (out []bool, err error) {
	err = tx.do(ctx, "note", func() error {
		out = make([]bool, len(ns))
		for i := range ns {
			if out[i], err = tx.jot(&ns[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// jot writes one note to its row.
func (s *state) jot(n *task.Note) (bool, error) {
	old, err := s.row(n.ID)
	if err != nil || old == nil {
		return false, err
	}
	now := s.db.newRow(&old.Task, old.far)
	if !n.Apply(&now.Task) {
		return false, nil
	}
	if n.Checkpoint != nil {
		if err := s.putCheckpoint(now); err != nil {
			return false, err
		}
	}
	s.note(now.ID, now)
	return true, s.putRecord(now)
}

// Delete implements [storage.Tasks].
func (tx *Tx) Delete(ctx context.Context, rs ...task.Ref) (out []bool, err error) {
	err = tx.do(ctx, "delete", func() error {
		out = make([]bool, len(rs))
		for i, ref := range rs {
			if out[i], err = tx.remove(ref); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// remove deletes one row with its parts, its entries and its unique key.
func (s *state) remove(ref task.Ref) (bool, error) {
	old, err := s.row(ref.ID)
	if err != nil || old == nil || old.Version != ref.Version {
		return false, err
	}
	s.was.of(&old.Task)
	if err := s.dropEntries(); err != nil {
		return false, err
	}
	for _, bit := range [...]fields{farHistory, farPayload, farResult, farCheckpoint, farSignalData, farChildren} {
		if old.far&bit != 0 {
			if err := s.dropPart(old, bit); err != nil {
				return false, err
			}
		}
	}
	if old.Key != "" {
		if err := s.giveKeyBack(&old.Task); err != nil {
			return false, err
		}
	}
	s.note(ref.ID, nil)
	if err := s.moveTurn(&old.Task, new(task.Task)); err != nil {
		return false, err
	}
	s.key = appendIDKey(s.key[:0], prefixRecord, ref.ID)
	return true, s.rw.Delete(s.key)
}
