package kv

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// sorted is a ReadWriter that counts its calls.
type sorted struct {
	keys map[string][]byte
	gets int
	seen int             // keys that cursors stood on
	read int             // values that cursors have read
	bad  map[string]bool // keys with values that cannot be read
}

func (s *sorted) Get(key []byte) ([]byte, bool, error) {
	s.gets++
	value, found := s.keys[string(key)]
	return value, found, nil
}

func (s *sorted) Put(key, value []byte) error {
	s.keys[string(key)] = append([]byte{}, value...)
	return nil
}

func (s *sorted) Delete(key []byte) error {
	delete(s.keys, string(key))
	return nil
}

func (s *sorted) DeleteOnce(key []byte) error { return s.Delete(key) }

func (s *sorted) Scan(lower, upper []byte) (Cursor, error) {
	in := slices.DeleteFunc(slices.Sorted(maps.Keys(s.keys)), func(k string) bool {
		return k < string(lower) || upper != nil && k >= string(upper)
	})
	return &walk{s: s, keys: in}, nil
}

func (s *sorted) ScanCommitted(lower, upper []byte) (Cursor, error) { return s.Scan(lower, upper) }

type walk struct {
	s    *sorted
	keys []string
	at   int
}

func (w *walk) stand(at int) bool {
	w.at = at
	if at < 0 || at >= len(w.keys) {
		return false
	}
	w.s.seen++
	return true
}

func (w *walk) First() bool { return w.stand(0) }
func (w *walk) Last() bool  { return w.stand(len(w.keys) - 1) }
func (w *walk) Next() bool  { return w.stand(w.at + 1) }
func (w *walk) Prev() bool  { return w.stand(w.at - 1) }
func (w *walk) Seek(key []byte) bool {
	at, _ := slices.BinarySearch(w.keys, string(key))
	return w.stand(at)
}
func (w *walk) Key() []byte  { return []byte(w.keys[w.at]) }
func (w *walk) Err() error   { return nil }
func (w *walk) Close() error { return nil }
func (w *walk) Value() ([]byte, error) {
	w.s.read++
	key := w.keys[w.at]
	if w.s.bad[key] {
		return nil, fmt.Errorf("%s: %w", NameOf([]byte(key)), ErrDamaged)
	}
	return w.s.keys[key], nil
}

// filled returns a store with n rows of each kind that has entries of its own.
func filled(t *testing.T, n int) (*sorted, *DB) {
	t.Helper()
	s := &sorted{keys: make(map[string][]byte)}
	db, err := Open("test", s, false)
	if err != nil {
		t.Fatal(err)
	}
	tx := db.Begin(s)
	for i := range n {
		for _, state := range []task.State{task.Waiting, task.Submitted, task.Error} {
			r := full()
			if state == task.Error {
				r.NextEventAt = time.Time{}
			}
			r.ID, r.State, r.Key = task.ID{byte(state), byte(i >> 8), byte(i)}, state, string(rune('a'+i))+state.String()
			r.Payload, r.Result = make([]byte, InlineSize+1), make([]byte, InlineSize+1)
			r.LastError = "x"
			r.Search = []task.SearchValue{task.Unread, 7}
			r.History[0].Error = string(make([]byte, InlineSize))
			if _, err := tx.Insert(t.Context(), &r.Task); err != nil {
				t.Fatal(err)
			}
		}
	}
	tx.Committed()
	return s, db
}

func TestCheckFindsWhatIsMissingOrLeftOver(t *testing.T) {
	s, db := filled(t, 2)
	v := db.Read(s)
	if ok, err := v.agrees(nil); err != nil || !ok {
		t.Fatalf("one reading of all keys says %v, %v", ok, err)
	}
	if err := v.Check(); err != nil {
		t.Fatal(err)
	}
	prefixes := make(map[byte]bool)
	for _, key := range slices.Sorted(maps.Keys(s.keys)) {
		if key[0] == prefixMeta {
			continue
		}
		prefixes[key[0]] = true
		value := s.keys[key]
		delete(s.keys, key)
		if err := v.Check(); !errors.Is(err, ErrDamaged) {
			t.Errorf("without key %x: %v", key, err)
		}
		s.keys[key] = value
		stray := key[:len(key)-1] + "\xfe"
		if key[0] != prefixRecord {
			s.keys[stray] = value
			if err := v.Check(); !errors.Is(err, ErrDamaged) {
				t.Errorf("with key %x: %v", stray, err)
			}
			delete(s.keys, stray)
		}
		if key[0] == prefixReady || key[0] == prefixUnique {
			s.keys[key] = append(bytes.Clone(value), 1)
			if err := v.Check(); !errors.Is(err, ErrDamaged) {
				t.Errorf("with another value of key %x: %v", key, err)
			}
			s.keys[key] = value
		}
	}
	if len(prefixes) != 12 {
		t.Fatalf("only %d tables were looked at", len(prefixes))
	}
	if err := v.Check(); err != nil {
		t.Fatal(err)
	}
}

func TestCheckNamesEveryValueThatCannotBeRead(t *testing.T) {
	s, db := filled(t, 2)
	v := db.Read(s)
	for key := range s.keys {
		s.bad = map[string]bool{key: true}
		if err := v.Check(); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), NameOf([]byte(key))) || strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("without the value of %s: %v", NameOf([]byte(key)), err)
		}
	}
	s.bad = make(map[string]bool)
	for key := range s.keys {
		s.bad[key] = true
	}
	if err := v.Check(); !errors.Is(err, ErrDamaged) || strings.Count(err.Error(), "\n") != maxDamages || !strings.Contains(err.Error(), "more places") {
		t.Errorf("without any value: %v", err)
	}
}

func TestACheckReportsItsProgressAndEndsIfThatFails(t *testing.T) {
	s, db := filled(t, rowsOfProgress)
	v := db.Read(s)
	var rows []int64
	if err := v.check(func(n int64) error { rows = append(rows, n); return nil }); err != nil || !slices.Equal(rows, []int64{rowsOfProgress, 2 * rowsOfProgress, 3 * rowsOfProgress}) {
		t.Errorf("got %v, %v", rows, err)
	}
	end := errors.New("enough")
	if err := v.check(func(int64) error { return end }); !errors.Is(err, end) || errors.Is(err, ErrDamaged) {
		t.Errorf("got %v", err)
	}
}

func TestKeysAreNamedByTheirTask(t *testing.T) {
	id := full().ID
	for want, key := range map[string][]byte{
		"record of task " + id.String():    appendIDKey(nil, prefixRecord, id),
		"payload of task " + id.String():   appendIDKey(nil, prefixPayload, id),
		"due entry of task " + id.String(): appendDueKey(nil, task.Waiting, 1, id),
		"entry of task " + id.String():     appendNeverKey(nil, task.Error, id),
		`setting "a"`:                      settingKey("a"),
		"key 72ff":                         {prefixRecord, 0xff},
		"key ":                             {},
	} {
		if got := NameOf(key); got != want {
			t.Errorf("key %x is named %q, want %q", key, got, want)
		}
	}
}

func TestAStoreWithoutItsFormatIsDamaged(t *testing.T) {
	s, _ := filled(t, 1)
	delete(s.keys, string(keyFormat))
	if _, err := Open("test", s, false); !errors.Is(err, ErrDamaged) {
		t.Errorf("got %v", err)
	}
}

func TestQueriesReadNoMoreThanTheyReturn(t *testing.T) {
	s, db := filled(t, 500)
	v := db.Read(s)
	s.gets, s.seen = 0, 0
	page, err := v.Ready(t.Context(), storage.ReadyQuery{Queue: full().Queue(), Limit: 10})
	if err != nil || len(page) != 10 || s.gets != 0 || s.seen > 11 {
		t.Errorf("ready: %d rows, %d gets, %d keys, %v", len(page), s.gets, s.seen, err)
	}
	s.gets, s.seen = 0, 0
	queues, err := v.Queues(t.Context(), task.Queue{}, 10)
	if err != nil || len(queues) != 1 || s.gets != 0 || s.seen > 2 {
		t.Errorf("queues: %d, %d gets, %d keys, %v", len(queues), s.gets, s.seen, err)
	}
	s.gets, s.seen = 0, 0
	due, err := v.Due(t.Context(), storage.DueQuery{State: task.Waiting, Before: moment.Add(1e12), Limit: 10})
	if err != nil || len(due) != 10 || s.gets != 0 || s.seen > 11+10 {
		t.Errorf("due: %d, %d gets, %d keys, %v", len(due), s.gets, s.seen, err)
	}
}

func TestRowsJustWrittenAreNotReadAgain(t *testing.T) {
	s, db := filled(t, 0)
	ids := task.NewIDs([32]byte{1})
	var refs []task.Ref
	s.gets = 0
	for i := range 3 * recentRows {
		r := &task.Task{ID: ids.Next(moment), Version: 1, State: task.Submitted, Type: "a"}
		tx := db.Begin(s)
		if _, err := tx.Insert(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		refs = append(refs, r.Ref())
		if i >= 100 {
			c := task.Change{Ref: refs[i-100], To: task.Processing}
			if got, err := tx.Swap(t.Context(), c); err != nil || got[0] == nil {
				t.Fatal(got, err)
			}
		}
		tx.Committed()
	}
	if s.gets != 0 {
		t.Errorf("%d gets", s.gets)
	}
	if n := db.recent.count(); n > recentRows || len(db.recent.rows) > n {
		t.Errorf("%d rows are remembered", n)
	}
	// Rows that are not in the cache are read.
	tx := db.Begin(s)
	again := &task.Task{ID: refs[0].ID, Version: 1, State: task.Submitted, Type: "a"}
	if got, err := tx.Insert(t.Context(), again); err != nil || got[0].Created() || s.gets == 0 {
		t.Errorf("got %v, %v after %d gets", got, err, s.gets)
	}
	tx.RolledBack()
}
