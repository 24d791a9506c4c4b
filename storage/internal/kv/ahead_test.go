package kv

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/taskengine/taskengine/task"
)

// forgotten returns a store with n submitted rows that are not in its cache.
func forgotten(t *testing.T, n int) (*sorted, *DB, []task.Ref) {
	t.Helper()
	s, db := filled(t, 0)
	refs := make([]task.Ref, n)
	tx := db.Begin(s)
	for i := range refs {
		r := &task.Task{ID: task.ID{14: byte(i >> 8), 15: byte(i)}, Version: 1, State: task.Submitted, Type: "a", Payload: []byte{byte(i)}}
		if _, err := tx.Insert(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		refs[i] = r.Ref()
	}
	tx.Committed()
	db.recent = newRecent(1)
	if err := db.findNewest(s); err != nil {
		t.Fatal(err)
	}
	return s, db, refs
}

func grabs(refs []task.Ref) []task.Change {
	cs := make([]task.Change, len(refs))
	for i, ref := range refs {
		cs[i] = task.Change{Ref: ref, To: task.Processing, At: moment, NextEventAt: moment}
	}
	return cs
}

func TestManyRowsAreReadInOneWalk(t *testing.T) {
	for _, n := range []int{1, few - 1, few, 256, 600} { // the last of 256 ends with 0xff
		s, db, refs := forgotten(t, n)
		rand.Shuffle(len(refs), func(i, j int) { refs[i], refs[j] = refs[j], refs[i] })
		s.gets, s.seen = 0, 0
		tx := db.Begin(s)
		got, err := tx.Swap(t.Context(), grabs(refs[:n])...)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range got {
			if r == nil || r.ID != refs[i].ID || r.State != task.Processing || r.Version != 2 || len(r.Payload) != 1 {
				t.Fatalf("change %d of %d gave %+v", i, n, r)
			}
		}
		if walked := n >= few; walked && (s.gets != 0 || s.seen != n) || !walked && s.gets != n {
			t.Errorf("%d rows took %d gets and %d steps", n, s.gets, s.seen)
		}
		tx.Committed()
	}
}

func TestWhatIsReadAheadIsWhatTheTransactionSees(t *testing.T) {
	s, db, refs := forgotten(t, 40)
	ctx := t.Context()
	tx := db.Begin(s)
	stale := refs[3]
	stale.Version = 7
	gone := task.Ref{ID: task.ID{9}, Version: 1}                // there is none
	if _, err := tx.Swap(ctx, grabs(refs[:2])...); err != nil { // changed before
		t.Fatal(err)
	}
	if ok, err := tx.Delete(ctx, refs[2]); err != nil || !ok[0] { // deleted before
		t.Fatal(ok, err)
	}
	twice := refs[20]
	changed, err := tx.Swap(ctx, grabs(slices.Concat(refs[:3], []task.Ref{stale, gone}, refs[4:30], []task.Ref{twice}))...)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range changed {
		if want := i >= 5 && i < len(changed)-1; (r != nil) != want {
			t.Errorf("change %d gave %v", i, r)
		}
	}
	tx.Committed()
	tx = db.Begin(s) // the next one sees the writes of this one
	again, err := tx.Swap(ctx, grabs(refs)...)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range again {
		if want := i == 3 || i >= 30; (r != nil) != want {
			t.Errorf("change %d after it gave %v", i, r)
		}
	}
	tx.Committed()
}

func TestADamagedRowReadAheadEndsTheTransaction(t *testing.T) {
	s, db, refs := forgotten(t, 40)
	s.keys[string(appendIDKey(nil, prefixRecord, refs[30].ID))] = []byte{1}
	tx := db.Begin(s)
	if _, err := tx.Swap(t.Context(), grabs(refs)...); !errors.Is(err, ErrDamaged) || !errors.Is(tx.Err(), ErrDamaged) {
		t.Errorf("the error is %v, that of the transaction %v", err, tx.Err())
	}
	tx.RolledBack()
}
