package kv

import (
	"bytes"
	"errors"
	"testing"

	"github.com/taskengine/taskengine/storage"
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

func TestAnEmptyStoreIsNotMadeToBeRead(t *testing.T) {
	s := &sorted{keys: make(map[string][]byte)}
	if _, err := Open("test", s, true); err == nil {
		t.Error("it was opened")
	}
	if len(s.keys) > 0 {
		t.Errorf("it has %q", s.keys)
	}
}
