//go:build !race

package bolt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/bolt"
	"github.com/taskengine/taskengine/task"
)

// payload returns a payload that a test can find in the file. It is part of the record, or has a key of
// its own if far.
func payload(n int, far bool) []byte {
	text := fmt.Appendf(nil, "<payload %d>", n)
	if far {
		text = append(text, bytes.Repeat([]byte("x"), 2000)...)
	}
	return text
}

// filled makes a file with n tasks and returns its path and the tasks.
func filled(t *testing.T, n int) (path string, ids []task.ID) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "tasks.db")
	s, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	source := task.NewIDs([32]byte{1})
	rows := make([]*task.Task, n)
	for i := range rows {
		rows[i] = &task.Task{ID: source.Next(moment), Version: 1, State: task.Submitted, Type: "mail", Payload: payload(i, i%2 == 1)}
		ids = append(ids, rows[i].ID)
	}
	if _, err := s.Insert(t.Context(), rows...); err != nil {
		t.Fatal(err)
	}
	if err := s.SetSetting(t.Context(), "greeting", []byte("hello there")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path, ids
}

// alter replaces every old in a file by now, which has the same length.
func alter(t *testing.T, path string, old, now []byte) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(content, old) || len(old) != len(now) {
		t.Fatalf("there is no %q that could be %q", old, now)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(content, old, now), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAChangedByteIsNoticed(t *testing.T) {
	path, ids := filled(t, 6)
	alter(t, path, []byte("<payload 2>"), []byte("<payload x>"))
	alter(t, path, []byte("<payload 3>"), []byte("<payload x>"))
	alter(t, path, []byte("hello there"), []byte("hello where"))
	s := open(t, path)
	for i, id := range ids {
		got, err := s.Get(t.Context(), id)
		if i != 2 && i != 3 {
			if err != nil || !bytes.Equal(got.Payload, payload(i, i%2 == 1)) {
				t.Errorf("task %d, which is whole: %v, %v", i, got, err)
			}
			continue
		}
		if !errors.Is(err, bolt.ErrDamaged) || !strings.Contains(err.Error(), id.String()) {
			t.Errorf("task %d, which is damaged: %v", i, err)
		}
		// A change of it would hide the damage.
		_, err = s.Swap(t.Context(), task.Change{Ref: task.Ref{ID: id, Version: 1}, To: task.Processing})
		if !errors.Is(err, bolt.ErrDamaged) {
			t.Errorf("a change of task %d: %v", i, err)
		}
	}
	if _, err := s.Setting(t.Context(), "greeting"); !errors.Is(err, bolt.ErrDamaged) || !strings.Contains(err.Error(), "greeting") {
		t.Errorf("the setting: %v", err)
	}
	if _, err := s.List(t.Context(), storage.ListQuery{Limit: 10, Scan: 100}); !errors.Is(err, bolt.ErrDamaged) {
		t.Errorf("a list: %v", err)
	}
	if _, err := s.Count(t.Context(), storage.Filter{}); !errors.Is(err, bolt.ErrDamaged) {
		t.Errorf("a count: %v", err)
	}
	err := s.Check(t.Context())
	for _, part := range []string{"record of task " + ids[2].String(), "payload of task " + ids[3].String(), "greeting"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the check does not name the %s: %v", part, err)
		}
	}
}

// within fails the test unless every call on a damaged file returns: with an error that says so, or if
// may is set in any way but a panic.
func within(t *testing.T, path string, ids []task.ID, may bool) {
	t.Helper()
	judge := func(what string, err error) {
		t.Helper()
		if errors.Is(err, storage.ErrLocked) || !may && (!errors.Is(err, bolt.ErrDamaged) || !strings.Contains(err.Error(), "restore a backup")) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, readOnly := range []bool{true, false} {
		s, err := bolt.Open(path, bolt.Options{ReadOnly: readOnly})
		judge("open", err)
		if err != nil {
			continue
		}
		judge("check", s.Check(t.Context()))
		for _, id := range ids {
			_, err := s.Get(t.Context(), id)
			judge("get", err)
		}
		if !readOnly {
			for i := 0; i < len(ids); i += 8 {
				_, err = s.Delete(t.Context(), task.Ref{ID: ids[i], Version: 1})
				judge("delete", err)
			}
		}
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

func TestAFileCutShortIsRefused(t *testing.T) {
	path, ids := filled(t, 200)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	whole := info.Size()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.View(func(tx *bbolt.Tx) error { whole = tx.Size(); return nil }); err != nil { // the rest of the file is not used
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int64{whole - 1, whole - 5000, whole / 2, 10_000, 5000, 100, 1} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			cut := filepath.Join(t.TempDir(), "tasks.db")
			if err := os.WriteFile(cut, content[:size], 0o600); err != nil {
				t.Fatal(err)
			}
			if s, err := bolt.Open(cut, bolt.Options{}); !errors.Is(err, bolt.ErrDamaged) {
				t.Errorf("got %v, %v", s, err)
			}
			within(t, cut, ids[:0], false)
		})
	}
	if err := os.Truncate(path, whole); err != nil {
		t.Fatal(err)
	}
	if err := open(t, path).Check(t.Context()); err != nil {
		t.Errorf("with all that it has used: %v", err)
	}
}

// TestADamagedPageIsAnError overwrites each page of a file in turn.
func TestADamagedPageIsAnError(t *testing.T) {
	path, ids := filled(t, 40)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const page, header = 4096, 16
	dir := t.TempDir()
	for at := 0; at+page <= len(content); at += page {
		for name, overwrite := range map[string]struct {
			from, to int
			with     byte
		}{
			"zeros": {0, page, 0}, "ones": {0, page, 0xff},
			"zeros behind the header": {header, 5 * header, 0}, "ones behind the header": {header, 5 * header, 0xff},
		} {
			t.Run(fmt.Sprintf("%s at %d", name, at), func(t *testing.T) {
				bad := bytes.Clone(content)
				copy(bad[at+overwrite.from:at+overwrite.to], bytes.Repeat([]byte{overwrite.with}, page))
				damaged := filepath.Join(dir, fmt.Sprint(name, at))
				if err := os.WriteFile(damaged, bad, 0o600); err != nil {
					t.Fatal(err)
				}
				within(t, damaged, ids, true)
			})
		}
	}
	damaged := filepath.Join(dir, "emptied")
	rest := bytes.Clone(content)
	clear(rest[2*page:])
	if err := os.WriteFile(damaged, rest, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := bolt.Open(damaged, bolt.Options{ReadOnly: true})
	if err == nil {
		err = s.Check(t.Context())
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if !errors.Is(err, bolt.ErrDamaged) {
		t.Errorf("nothing but its first pages is left: %v", err)
	}
}

// TestAFileThatIsDamagedWhileItIsOpen truncates or overwrites a file that bbolt has mapped.
func TestAFileThatIsDamagedWhileItIsOpen(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"cut short": func(path string) error { return os.Truncate(path, 2*4096) },
		"overwritten from its beginning": func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.Write(make([]byte, 64<<10))
			return errors.Join(err, f.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, ids := filled(t, 50)
			s := open(t, path)
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if _, err := s.Get(t.Context(), ids[10]); !errors.Is(err, bolt.ErrDamaged) {
					t.Errorf("get: %v", err)
				}
				_, err := s.Insert(t.Context(), &task.Task{ID: task.ID{9}, Version: 1, State: task.Submitted, Type: "mail"})
				if !errors.Is(err, bolt.ErrDamaged) {
					t.Errorf("insert: %v", err)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestMemoryThatCannotBeReadIsNeverAnAbsence reads tasks from a file that was truncated after its first
// pages.
func TestMemoryThatCannotBeReadIsNeverAnAbsence(t *testing.T) {
	path, ids := filled(t, 50)
	s := open(t, path) // opened again, so that no row is cached
	if err := os.Truncate(path, 2*4096); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	var cs []task.Change
	var refs []task.Ref
	for _, id := range ids {
		ref := task.Ref{ID: id, Version: 1}
		cs, refs = append(cs, task.Change{Ref: ref, To: task.Processing, At: moment, NextEventAt: moment}), append(refs, ref)
	}
	for name, verb := range map[string]func() error{
		"get":       func() error { _, err := s.Get(ctx, ids[3]); return err },
		"swap one":  func() error { _, err := s.Swap(ctx, cs[:1]...); return err },
		"swap many": func() error { _, err := s.Swap(ctx, cs...); return err },
		"delete":    func() error { _, err := s.Delete(ctx, refs...); return err },
		"ready": func() error {
			_, err := s.Ready(ctx, storage.ReadyQuery{Queue: task.Queue{Type: "mail"}, Limit: 9})
			return err
		},
		"queues":      func() error { _, err := s.Queues(ctx, task.Queue{}, 9); return err },
		"list":        func() error { _, err := s.List(ctx, storage.ListQuery{Limit: 9, Scan: 9}); return err },
		"count":       func() error { _, err := s.Count(ctx, storage.Filter{}); return err },
		"count ready": func() error { _, err := s.Count(ctx, storage.Filter{States: []task.State{task.Submitted}}); return err },
		"setting":     func() error { _, err := s.Setting(ctx, "paused"); return err },
		"due": func() error {
			_, err := s.Due(ctx, storage.DueQuery{State: task.Waiting, Before: moment.Add(time.Hour), Limit: 9})
			return err
		},
		"export": func() error {
			return s.Export(ctx, func(string, []byte) error { return nil }, func(*task.Task) error { return nil })
		},
		"check": func() error { return s.Check(ctx) },
	} {
		if err := verb(); !errors.Is(err, bolt.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAPanicOfTheCallerStaysOne(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "tasks.db"))
	row := &task.Task{ID: task.ID{1}, Version: 1, State: task.Submitted, Type: "mail"}
	if _, err := s.Insert(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	panics := func(call func()) (said any) {
		defer func() { said = recover() }()
		call()
		return nil
	}
	if said := panics(func() {
		_ = s.Update(t.Context(), func(storage.Tx) error { panic("the caller's own") })
	}); said != "the caller's own" {
		t.Errorf("in an update it became %v", said)
	}
	if said := panics(func() {
		_ = s.Export(t.Context(), nil, func(*task.Task) error { panic("the caller's own") })
	}); said != "the caller's own" {
		t.Errorf("in an export it became %v", said)
	}
	if _, err := s.Get(t.Context(), row.ID); err != nil {
		t.Error(err)
	}
}

func TestAnEarlierFormatIsRefused(t *testing.T) {
	path, _ := filled(t, 1)
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("taskengine")).SetSequence(0) }); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{true, false} {
		s, err := bolt.Open(path, bolt.Options{ReadOnly: readOnly})
		if err == nil || errors.Is(err, bolt.ErrDamaged) || !strings.Contains(err.Error(), "taskengine copy") {
			t.Errorf("got %v, %v", s, err)
		}
	}
}

func TestOneDamagedRecordHoldsUpNoOtherTask(t *testing.T) {
	path, ids := filled(t, 40)
	alter(t, path, []byte("<payload 20>"), []byte("<payload xx>"))
	handler := task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { return nil, nil })
	e, err := engine.Open(t.Context(), engine.Config{
		Store: open(t, path), Handlers: map[string]task.Handler{"mail": handler}, Policies: policy.Set{Slots: 100},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	for i, id := range ids {
		if i == 20 {
			continue
		}
		if err := e.WaitTasks(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if got, err := e.Get(t.Context(), id); err != nil || got.State != task.Done {
			t.Errorf("task %d: %v, %v", i, got, err)
		}
	}
	receipts, err := e.Submit(t.Context(), engine.Request{Type: "mail"})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.WaitTasks(t.Context(), receipts[0].ID); err != nil {
		t.Fatal(err)
	}
}
