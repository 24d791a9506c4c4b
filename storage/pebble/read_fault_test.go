//go:build !race

package pebble_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/pebble"
	"github.com/taskengine/taskengine/task"
)

// oneBadRead fails one read of the disk.
type oneBadRead struct {
	left   atomic.Int64 // number of reads that succeed before it
	failed atomic.Int64 // number of failed reads
}

func (d *oneBadRead) MaybeError(op errorfs.Op) error {
	switch op.Kind {
	case errorfs.OpFileRead, errorfs.OpFileReadAt, errorfs.OpOpen:
	default:
		return nil
	}
	if d.left.Add(-1) != -1 {
		return nil
	}
	d.failed.Add(1)
	return &fs.PathError{Op: "read", Path: op.Path, Err: syscall.EIO}
}

func (d *oneBadRead) String() string { return "one bad read" }

const faultRows = 60

// onBadDisk returns a store with large rows in files, none of which is in a cache.
func onBadDisk(t *testing.T) (pebble.Options, *oneBadRead, []task.Ref) {
	t.Helper()
	disk := new(oneBadRead)
	disk.left.Store(1 << 40)
	o := pebble.Options{FS: errorfs.Wrap(vfs.NewMem(), disk), CacheSize: 1, MemTableSize: 256 << 10}
	s, err := pebble.Open("db", o)
	if err != nil {
		t.Fatal(err)
	}
	ids := task.NewIDs([32]byte{1})
	refs := make([]task.Ref, faultRows)
	for i := range refs {
		row := &task.Task{
			ID: ids.Next(moment), Version: 1, State: task.Submitted, Type: fmt.Sprint("mail", i%5), Key: fmt.Sprint(i),
			Payload: make([]byte, 1000), Headers: map[string]string{"x": strings.Repeat(fmt.Sprint(i%10), 3000)},
		}
		switch i % 3 {
		case 1:
			row.State, row.NextEventAt = task.Waiting, moment.Add(time.Duration(i)*time.Second)
		case 2:
			row.State, row.LastError = task.Error, "no route"
		}
		if i == 4 {
			row.State = task.Processing
		}
		if _, err := s.Insert(t.Context(), row); err != nil {
			t.Fatal(err)
		}
		refs[i] = row.Ref()
	}
	if err := errors.Join(s.SetSetting(t.Context(), "paused", []byte("mail")), s.Close()); err != nil {
		t.Fatal(err)
	}
	// The next Open flushes the log to files.
	again, err := pebble.Open("db", o)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	return o, disk, refs
}

// errNotKept rolls a transaction back.
var errNotKept = errors.New("not kept")

// undone runs a verb that changes something, in a transaction that is rolled back.
func undone[T any](ctx context.Context, s *pebble.Store, verb func(storage.Tx) (T, error)) (out T, err error) {
	var failed error
	err = s.Update(ctx, func(tx storage.Tx) error {
		if out, failed = verb(tx); failed != nil {
			return failed
		}
		return errNotKept
	})
	if !errors.Is(err, errNotKept) {
		return out, errors.Join(err, failed)
	}
	return out, failed
}

// verbs returns the calls of a store with their results.
func verbs(refs []task.Ref) map[string]func(context.Context, *pebble.Store) (any, error) {
	type call = func(context.Context, *pebble.Store) (any, error)
	between := refs[50].ID
	between[15]++ // there is none
	all := map[string]call{
		"get": func(ctx context.Context, s *pebble.Store) (any, error) { return s.Get(ctx, refs[50].ID) },
		"get of none": func(ctx context.Context, s *pebble.Store) (any, error) {
			t, err := s.Get(ctx, between)
			if errors.Is(err, task.ErrNotFound) {
				return "none", nil
			}
			return t, err
		},
		"insert": func(ctx context.Context, s *pebble.Store) (any, error) {
			return undone(ctx, s, func(tx storage.Tx) ([]storage.Inserted, error) {
				return tx.Insert(
					ctx, &task.Task{ID: refs[7].ID, Version: 1, State: task.Submitted, Type: "mail"}, // the id is taken
					&task.Task{ID: task.ID{1}, Version: 1, State: task.Submitted, Type: "mail1", Key: "1"}, // the key is
					&task.Task{ID: between, Version: 1, State: task.Submitted, Type: "mail1", Key: "new"})
			})
		},
		"note": func(ctx context.Context, s *pebble.Store) (any, error) {
			return undone(ctx, s, func(tx storage.Tx) ([]bool, error) {
				return tx.Note(ctx, task.Note{Ref: refs[4], Progress: &task.Progress{Done: 5, At: moment}})
			})
		},
		"queues":  func(ctx context.Context, s *pebble.Store) (any, error) { return s.Queues(ctx, task.Queue{}, 100) },
		"setting": func(ctx context.Context, s *pebble.Store) (any, error) { return s.Setting(ctx, "paused") },
		"count":   func(ctx context.Context, s *pebble.Store) (any, error) { return s.Count(ctx, storage.Filter{}) },
		"export": func(ctx context.Context, s *pebble.Store) (any, error) {
			var names []string
			err := s.Export(ctx, func(name string, value []byte) error {
				names = append(names, name+string(value))
				return nil
			}, func(t *task.Task) error {
				names = append(names, fmt.Sprint(t.ID, len(t.Payload), len(t.Headers["x"])))
				return nil
			})
			return names, err
		},
		"check": func(ctx context.Context, s *pebble.Store) (any, error) { return nil, s.Check(ctx) },
		"backup": func(ctx context.Context, s *pebble.Store) (any, error) {
			bytes := int64(0)
			err := s.Backup(ctx, func(name string, size int64, content io.Reader) error {
				n, err := io.Copy(io.Discard, content)
				if strings.HasSuffix(name, ".sst") {
					bytes += n
				}
				return err
			})
			return bytes, err
		},
	}
	for _, n := range []int{1, 20} { // one by one, and in one scan
		all[fmt.Sprint("swap of ", n)] = func(ctx context.Context, s *pebble.Store) (any, error) {
			var cs []task.Change
			for i := range n {
				cs = append(cs, task.Change{Ref: refs[3*i], To: task.Processing, At: moment, NextEventAt: moment})
			}
			return undone(ctx, s, func(tx storage.Tx) (any, error) {
				ts, err := tx.Swap(ctx, cs...)
				return idsOf(ts), err
			})
		}
		all[fmt.Sprint("delete of ", n)] = func(ctx context.Context, s *pebble.Store) (any, error) {
			return undone(ctx, s, func(tx storage.Tx) ([]bool, error) { return tx.Delete(ctx, refs[:n]...) })
		}
		all[fmt.Sprint("due of ", n)] = func(ctx context.Context, s *pebble.Store) (any, error) {
			return s.Due(ctx, storage.DueQuery{State: task.Waiting, Before: moment.Add(time.Hour), Limit: n})
		}
		all[fmt.Sprint("ready of ", n)] = func(ctx context.Context, s *pebble.Store) (any, error) {
			return s.Ready(ctx, storage.ReadyQuery{Queue: task.Queue{Type: "mail0"}, Limit: n})
		}
	}
	for name, f := range map[string]storage.Filter{
		"all": {}, "open": {States: []task.State{task.Waiting, task.Submitted, task.Error}}, "of a type": {States: []task.State{task.Submitted}, Types: []string{"mail0"}},
	} {
		all["list "+name] = func(ctx context.Context, s *pebble.Store) (any, error) {
			page, err := s.List(ctx, storage.ListQuery{Filter: f, Limit: 50, Scan: 1000})
			ts, next := page.Tasks, page.Next
			return []any{idsOf(ts), next}, err
		}
		all["count "+name] = func(ctx context.Context, s *pebble.Store) (any, error) { return s.Count(ctx, f) }
	}
	return all
}

func idsOf(ts []*task.Task) (out []string) {
	for _, t := range ts {
		if t == nil {
			out = append(out, "none")
		} else {
			out = append(out, fmt.Sprint(t.ID, t.State, len(t.Headers["x"])))
		}
	}
	return out
}

// TestAReadThatFailsIsNeverAnAbsence fails the first read of each verb, the second, and so on, and after the first 64 one
// in a few: the verb returns the error, or the result that it returns without the failure.
func TestAReadThatFailsIsNeverAnAbsence(t *testing.T) {
	o, disk, refs := onBadDisk(t)
	for name, verb := range verbs(refs) {
		t.Run(name, func(t *testing.T) {
			s := open(t, "db", o)
			want, err := verb(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			for k := int64(0); ; k += 1 + k/64 {
				disk.failed.Store(0)
				disk.left.Store(k)
				got, err := verb(t.Context(), s)
				disk.left.Store(1 << 40)
				switch {
				case err == nil && !reflect.DeepEqual(got, want):
					t.Errorf("with read %d failed it answers otherwise: %s", k, cmp.Diff(want, got))
				case err != nil && !errors.Is(err, syscall.EIO):
					t.Errorf("with read %d failed its error is %v", k, err)
				case errors.Is(err, pebble.ErrDamaged):
					t.Errorf("with read %d failed the store is said to be damaged: %v", k, err)
				}
				if disk.failed.Load() == 0 {
					if k == 0 {
						t.Error("nothing was read")
					}
					return
				}
			}
		})
	}
}

// TestAReadThatFailsWhileOpeningIsAnError fails each read of an open in turn.
func TestAReadThatFailsWhileOpeningIsAnError(t *testing.T) {
	o, disk, refs := onBadDisk(t)
	s, err := pebble.Open("db", o)
	if err != nil {
		t.Fatal(err)
	}
	fresh := &task.Task{ID: task.ID{0: 0xff}, Version: 1, State: task.Submitted, Type: "mail"} // in the log
	if _, err := s.Insert(t.Context(), fresh); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	o.ReadOnly = true // and so does not mend it
	for k := int64(0); ; k++ {
		disk.failed.Store(0)
		disk.left.Store(k)
		s, err := pebble.Open("db", o)
		disk.left.Store(1 << 40)
		if err != nil {
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("with read %d failed its error is %v", k, err)
			}
			continue
		}
		for _, id := range []task.ID{refs[0].ID, fresh.ID} {
			if _, err := s.Get(t.Context(), id); err != nil {
				t.Errorf("with read %d failed: %v", k, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if disk.failed.Load() == 0 {
			return
		}
	}
}
