package kv

import (
	"bytes"
	"errors"
	"maps"
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

func TestAStoreOfANewerProgramIsRefused(t *testing.T) {
	for name, value := range map[string][]byte{
		"the next format": appendNumber(nil, formatNewest+1),
		"a far one":       appendNumber(nil, 1<<40),
		"more behind it":  append(appendNumber(nil, formatNewest+1), "what this program does not know"...),
	} {
		for _, readOnly := range []bool{true, false} {
			s, _ := filled(t, 1)
			s.keys[string(keyFormat)] = value
			if _, err := Open("test", s, readOnly); !errors.Is(err, storage.ErrFormat) || errors.Is(err, ErrDamaged) {
				t.Errorf("%s: %v", name, err)
			}
			if got := s.keys[string(keyFormat)]; !bytes.Equal(got, value) {
				t.Errorf("%s: the format is now %x", name, got)
			}
		}
	}
	for name, value := range map[string][]byte{"none": {}, "zero": {0}, "no number": {0xff}, "more behind ours": {formatNewest, 0}} {
		s, _ := filled(t, 1)
		s.keys[string(keyFormat)] = value
		if _, err := Open("test", s, false); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAStoreOfAnOlderFormatGetsThisOne also checks that older programs refuse the store from then on.
func TestAStoreOfAnOlderFormatGetsThisOne(t *testing.T) {
	s, _ := filled(t, 1)
	s.keys[string(keyFormat)] = []byte{1}
	db, err := Open("test", s, true)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.keys[string(keyFormat)]; !bytes.Equal(got, []byte{1}) {
		t.Errorf("to read it only changed the format to %x", got)
	}
	v := db.Read(s)
	if err := v.Check(); err != nil {
		t.Error(err)
	}
	if _, err := Open("test", s, false); err != nil {
		t.Fatal(err)
	}
	if got := s.keys[string(keyFormat)]; !bytes.Equal(got, []byte{formatStore}) {
		t.Errorf("the format is %x", got)
	}
}

// TestTheFirstRowThatHasATurnNeedsANewerFormat also checks that a transaction that is undone changes nothing.
func TestTheFirstRowThatHasATurnNeedsANewerFormat(t *testing.T) {
	s, db := filled(t, 0)
	add := func(turn task.Turn) *Tx {
		tx := db.Begin(s)
		row := &task.Task{ID: task.ID{byte(len(s.keys))}, Version: 1, State: task.Submitted, OrderingKey: "k", Turn: turn}
		if _, err := tx.Insert(t.Context(), row); err != nil {
			t.Fatal(err)
		}
		return tx
	}
	add(task.Unordered).Committed()
	before := maps.Clone(s.keys)
	add(task.Behind).RolledBack()
	s.keys = before
	if got := s.keys[string(keyFormat)]; !bytes.Equal(got, []byte{formatStore}) {
		t.Errorf("the format is %x before", got)
	}
	add(task.Behind).Committed()
	if got := s.keys[string(keyFormat)]; !bytes.Equal(got, []byte{formatOrder}) {
		t.Errorf("the format is %x then", got)
	}
	if _, err := Open("test", s, false); err != nil {
		t.Error(err)
	}
}

// TestTheFirstKeyWithinAnOrderingKeyNeedsANewerFormat also checks that a row of an older program keeps its key.
func TestTheFirstKeyWithinAnOrderingKeyNeedsANewerFormat(t *testing.T) {
	s, db := filled(t, 0)
	row := func(n byte, order, key string) *task.Task {
		return &task.Task{ID: task.ID{n}, Version: 1, State: task.Submitted, Type: "x", OrderingKey: order, Key: key}
	}
	add := func(t *testing.T, row *task.Task, want task.ID) {
		t.Helper()
		tx := db.Begin(s)
		got, err := tx.Insert(t.Context(), row)
		if err != nil || got[0].Existing != want {
			t.Errorf("%s within %s: %+v, %v", row.Key, row.OrderingKey, got, err)
		}
		if tx.Wrote() {
			tx.Committed()
			return
		}
		tx.RolledBack()
	}
	format := func(t *testing.T, want byte) {
		t.Helper()
		if got := s.keys[string(keyFormat)]; !bytes.Equal(got, []byte{want}) {
			t.Errorf("the format is %x, want %x", got, want)
		}
	}
	old := row(1, "a", "old")
	add(t, old, task.ID{})
	s.keys[string(appendUniqueKey(nil, "x", "old"))] = old.ID[:] // as an older program has it
	delete(s.keys, string(appendKeyOf(nil, old)))
	s.keys[string(keyFormat)] = []byte{formatStore}
	db, err := Open("test", s, false)
	if err != nil {
		t.Fatal(err)
	}
	add(t, row(2, "", "k"), task.ID{})
	add(t, row(3, "a", "old"), old.ID)
	add(t, row(3, "", "old"), old.ID)
	format(t, formatStore)
	other := row(3, "b", "old")
	add(t, other, task.ID{})
	add(t, row(4, "b", "old"), other.ID)
	format(t, formatUnique)
	v := db.Read(s)
	if err := v.Check(); err != nil {
		t.Error(err)
	}
	for _, gone := range []*task.Task{old, other} {
		tx := db.Begin(s)
		if done, err := tx.Delete(t.Context(), gone.Ref()); err != nil || !done[0] {
			t.Fatalf("got %v, %v", done, err)
		}
		tx.Committed()
		if err := v.Check(); err != nil {
			t.Error(err)
		}
	}
	add(t, old, task.ID{})
	add(t, other, task.ID{})
	add(t, row(5, "", "old"), task.ID{})
	if _, err := Open("test", s, false); err != nil {
		t.Error(err)
	}
}

func TestAnEmptyStoreIsNotMadeToBeRead(t *testing.T) {
	s := &sorted{keys: make(map[string][]byte)}
	if _, err := Open("test", s, true); err == nil {
		t.Error("it was opened")
	}
	if len(s.keys) > 0 {
		t.Errorf("it has %q", s.keys)
	}
}
