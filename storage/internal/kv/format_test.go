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
		"the next format": appendNumber(nil, formatStore+1),
		"a far one":       appendNumber(nil, 1<<40),
		"more behind it":  append(appendNumber(nil, formatStore+1), "what this program does not know"...),
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
	for name, value := range map[string][]byte{"none": {}, "zero": {0}, "no number": {0xff}, "more behind ours": {formatStore, 0}} {
		s, _ := filled(t, 1)
		s.keys[string(keyFormat)] = value
		if _, err := Open("test", s, false); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTheNextFormatReplacesThisOneAndIsRefusedThen opens a store as a program with a made-up next format does.
func TestTheNextFormatReplacesThisOneAndIsRefusedThen(t *testing.T) {
	s, _ := filled(t, 1)
	if is, err := openFormat(s, formatStore+1, true); err != nil || is != formatStore {
		t.Fatalf("to read it only has the format %d, %v", is, err)
	}
	if got := s.keys[string(keyFormat)]; !bytes.Equal(got, []byte{formatStore}) {
		t.Errorf("to read it only changed the format to %x", got)
	}
	if is, err := openFormat(s, formatStore+1, false); err != nil || is != formatStore+1 {
		t.Fatalf("it has the format %d, %v", is, err)
	}
	if got := s.keys[string(keyFormat)]; !bytes.Equal(got, []byte{formatStore + 1}) {
		t.Errorf("the format is %x", got)
	}
	if _, err := Open("test", s, false); !errors.Is(err, storage.ErrFormat) {
		t.Errorf("this program opens it: %v", err)
	}
}

func TestAStoreOfADevelopmentBuildIsRefused(t *testing.T) {
	for _, format := range []uint64{1, 2, 5} {
		for _, readOnly := range []bool{true, false} {
			s, _ := filled(t, 1)
			delete(s.keys, string(keyFormat))
			s.keys[string(keyDevelopment)] = appendNumber(nil, format)
			before := maps.Clone(s.keys)
			_, err := Open("test", s, readOnly)
			if !errors.Is(err, storage.ErrUnreleased) || errors.Is(err, ErrDamaged) {
				t.Errorf("format %d: %v", format, err)
			}
			if !maps.EqualFunc(s.keys, before, bytes.Equal) {
				t.Error("it has been changed")
			}
		}
	}
}

func TestAUniqueKeyIsOneWithinItsOrderingKey(t *testing.T) {
	s, db := filled(t, 0)
	row := func(n byte, order string) *task.Task {
		return &task.Task{ID: task.ID{n}, Version: 1, State: task.Submitted, Type: "x", OrderingKey: order, Key: "k"}
	}
	for _, c := range []struct {
		row  *task.Task
		want task.ID
	}{{row(1, ""), task.ID{}}, {row(2, "a"), task.ID{}}, {row(3, "b"), task.ID{}}, {row(4, "a"), task.ID{2}}, {row(5, ""), task.ID{1}}} {
		tx := db.Begin(s)
		got, err := tx.Insert(t.Context(), c.row)
		if err != nil || got[0].Existing != c.want {
			t.Errorf("%v: got %+v, %v", c.row.ID, got, err)
		}
		if tx.Wrote() {
			tx.Committed()
		} else {
			tx.RolledBack()
		}
	}
	v := db.Read(s)
	if err := v.Check(); err != nil {
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
