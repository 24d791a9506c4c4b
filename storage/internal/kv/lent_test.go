package kv

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/task"
)

// heir returns a row that lends its priority.
func heir(n, priority byte) *task.Task {
	return &task.Task{
		ID: task.ID{n}, Version: 1, State: task.Submitted, Type: "x", OrderingKey: "k", Turn: task.Behind, Inherits: true, Priority: priority,
	}
}

// insert adds rows in one transaction.
func insert(t *testing.T, s *sorted, db *DB, rows ...*task.Task) {
	t.Helper()
	tx := db.Begin(s)
	if _, err := tx.Insert(t.Context(), rows...); err != nil {
		t.Fatal(err)
	}
	tx.Committed()
}

func TestARowThatDoesNotInheritLendsNothing(t *testing.T) {
	s, db := filled(t, 0)
	plain := heir(1, 5)
	plain.Inherits = false
	insert(t, s, db, plain)
	if _, found := s.keys[string(appendLentKey(nil, "k"))]; found {
		t.Error("a row that does not inherit is counted")
	}
}

func TestWhatIsLentIsCountedForEachPriority(t *testing.T) {
	s, db := filled(t, 0)
	insert(t, s, db, heir(1, 5), heir(2, 2), heir(3, 5), heir(4, 200))
	v := db.Read(s)
	got, err := v.readLent("k")
	if want := (lent{2: 1, 5: 2, 9: 1}); err != nil || got != want {
		t.Errorf("lent is %v, %v; want %v", got, err, want)
	}
	for _, gone := range []byte{2, 1, 3, 4} {
		tx := db.Begin(s)
		if _, err := tx.Delete(t.Context(), task.Ref{ID: task.ID{gone}, Version: 1}); err != nil {
			t.Fatal(err)
		}
		tx.Committed()
		if err := v.Check(); err != nil {
			t.Error(err)
		}
	}
	if value, found := s.keys[string(appendLentKey(nil, "k"))]; found {
		t.Errorf("nothing is lent, and the entry is %x", value)
	}
}

func TestAWrongCountOfWhatIsLentIsDamage(t *testing.T) {
	key := string(appendLentKey(nil, "k"))
	for name, damage := range map[string]func(s *sorted){
		"missing":       func(s *sorted) { delete(s.keys, key) },
		"another":       func(s *sorted) { s.keys[key] = appendLent(nil, &lent{5: 2}) },
		"of no row":     func(s *sorted) { s.keys[string(appendLentKey(nil, "other"))] = appendLent(nil, &lent{5: 1}) },
		"cut":           func(s *sorted) { s.keys[key] = s.keys[key][:3] },
		"too long":      func(s *sorted) { s.keys[key] = append(s.keys[key], 1) },
		"nothing in it": func(s *sorted) { s.keys[key] = appendLent(nil, new(lent)) },
	} {
		s, db := filled(t, 0)
		insert(t, s, db, heir(1, 5))
		v := db.Read(s)
		if err := v.Check(); err != nil {
			t.Fatal(err)
		}
		damage(s)
		if err := v.Check(); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: the check says %v", name, err)
		}
	}
}

func TestARecordKeepsWhetherARowInheritsAndItsBoost(t *testing.T) {
	for _, boost := range []uint8{0, 3} {
		want := heir(1, 5)
		want.Turn, want.Boost = task.Head, boost
		r, err := decodeRecord(want.ID, appendRecord(nil, &row{Task: *want}), new(interner))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, &r.Task); diff != "" {
			t.Errorf("(-want +got) %s", diff)
		}
	}
}
