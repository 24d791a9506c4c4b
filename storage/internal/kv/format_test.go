package kv

import (
	"bytes"
	"errors"
	"maps"
	"testing"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

func TestAStoreOfANewerProgramIsRefused(t *testing.T) {
	for name, value := range map[string][]byte{
		"the next format": appendNumber(nil, formatOrder+1),
		"a far one":       appendNumber(nil, 1<<40),
		"more behind it":  append(appendNumber(nil, formatOrder+1), "what this program does not know"...),
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
	for name, value := range map[string][]byte{"none": {}, "zero": {0}, "no number": {0xff}, "more behind ours": {formatOrder, 0}} {
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
	s, db := filled(t, 1)
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

func TestAnEmptyStoreIsNotMadeToBeRead(t *testing.T) {
	s := &sorted{keys: make(map[string][]byte)}
	if _, err := Open("test", s, true); err == nil {
		t.Error("it was opened")
	}
	if len(s.keys) > 0 {
		t.Errorf("it has %q", s.keys)
	}
}
