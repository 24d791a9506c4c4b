package pebble_test

import (
	"bytes"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/pebble"
	"github.com/taskengine/taskengine/task"
)

// manyRows returns the rows of one insert.
func manyRows(ids *task.IDs, n int) []*task.Task {
	rows := make([]*task.Task, n)
	for i := range rows {
		rows[i] = &task.Task{ID: ids.Next(moment), Version: 1, State: task.Submitted, Type: "mail", Payload: bytes.Repeat([]byte{byte(i)}, 10+i*37%1000)}
	}
	return rows
}

// written returns a disk with a store in "db" that has all tasks in its log, the number of tasks, and
// the number without the last few inserts.
func written(t *testing.T, closed bool) (fs *vfs.MemFS, all, before int) {
	t.Helper()
	mem := vfs.NewCrashableMem()
	s, err := pebble.Open("db", pebble.Options{FS: mem, CacheSize: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	ids := task.NewIDs([32]byte{1})
	for i := range 60 {
		if i == 57 {
			before = all
		}
		n := []int{1, 80, 3, 150}[i%4] // some inserts are longer than a block of the log
		if _, err := s.Insert(t.Context(), manyRows(ids, n)...); err != nil {
			t.Fatal(err)
		}
		all += n
	}
	killed := mem.CrashClone(vfs.CrashCloneCfg{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if closed {
		return mem, all, all
	}
	return killed, all, before
}

// newestLog returns the name and the contents of the newest log in "db".
func newestLog(t *testing.T, fs *vfs.MemFS) (name string, content []byte) {
	t.Helper()
	names, err := fs.List("db")
	if err != nil {
		t.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".log") })
	name = "db/" + slices.Max(names)
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	content = make([]byte, info.Size())
	if _, err := f.ReadAt(content, 0); err != nil {
		t.Fatal(err)
	}
	return name, content
}

func overwrite(t *testing.T, fs *vfs.MemFS, name string, at int, with ...byte) {
	t.Helper()
	f, err := fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(with, int64(at))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestADamagedLogIsReadAsFarAsItGoes salvages the tasks before the damage.
func TestADamagedLogIsReadAsFarAsItGoes(t *testing.T) {
	disk, all, _ := written(t, true)
	name, content := newestLog(t, disk)
	at := len(bytes.TrimRight(content, "\x00")) / 2
	overwrite(t, disk, name, at, content[at]^1)
	var said strings.Builder
	o := pebble.Options{FS: disk, CacheSize: 1 << 20, Salvage: true, Log: slog.New(slog.NewTextHandler(&said, nil))}
	if s, err := pebble.Open("db", o); !errors.Is(err, pebble.ErrDamaged) {
		t.Fatalf("for writing: %v, %v", s, err)
	}
	o.ReadOnly = true
	s := open(t, "db", o)
	counts, err := s.Count(t.Context(), storage.Filter{})
	if err := errors.Join(err, s.Check(t.Context())); err != nil {
		t.Fatal(err)
	}
	if n := counts[storage.StateType{State: task.Submitted, Type: "mail"}]; n < int64(all)/3 || n >= int64(all) {
		t.Errorf("%d of %d tasks are there", n, all)
	}
	if !strings.Contains(said.String(), "later changes are missing") {
		t.Errorf("it logs %q", said.String())
	}
}

// TestATornLogIsNoDamage cuts the power while tasks are written. A random part of the unsynced data
// survives.
func TestATornLogIsNoDamage(t *testing.T) {
	mem := vfs.NewCrashableMem()
	s, err := pebble.Open("db", pebble.Options{FS: mem, CacheSize: 1 << 20, MemTableSize: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	ids := task.NewIDs([32]byte{1})
	var mu sync.Mutex // guards ids and acked
	acked := 0
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range 40 {
				n := []int{1, 60, 4, 120}[(w+i)%4]
				mu.Lock()
				rows := manyRows(ids, n)
				mu.Unlock()
				call := s.Update
				if i%5 == 4 {
					call = s.UpdateNoSync
				}
				if err := call(t.Context(), func(tx storage.Tx) error {
					_, err := tx.Insert(t.Context(), rows...)
					return err
				}); err != nil {
					t.Error(err)
				}
				if i%5 != 4 {
					mu.Lock()
					acked += n
					mu.Unlock()
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	random := rand.New(rand.NewPCG(2, 2))
	for cuts, over := 0, false; !over || cuts < 30; cuts++ {
		select {
		case <-done:
			over = true
		default:
		}
		mu.Lock()
		want := acked
		mu.Unlock()
		left := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 10 + cuts%9*10, RNG: random})
		if cuts > 60 {
			<-done
			over = true
		}
		again, err := pebble.Open("db", pebble.Options{FS: left, CacheSize: 1 << 20, MemTableSize: 1 << 20})
		if err != nil {
			t.Fatalf("power cut %d: %v", cuts, err)
		}
		counts, err := again.Count(t.Context(), storage.Filter{})
		if err := errors.Join(err, again.Close()); err != nil {
			t.Fatal(err)
		}
		if n := counts[storage.StateType{State: task.Submitted, Type: "mail"}]; n < int64(want) {
			t.Errorf("power cut %d: %d tasks are there and %d were acknowledged", cuts, n, want)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestAStoreThatIsKilledAgainAndAgainOpens kills stores that have written little or nothing since they
// were opened, so that several logs remain without an end.
func TestAStoreThatIsKilledAgainAndAgainOpens(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	for life := range 20 {
		disk, ids, want := vfs.NewCrashableMem(), task.NewIDs([32]byte{byte(life)}), 0
		for start := range 8 {
			s, err := pebble.Open("db", pebble.Options{FS: disk, CacheSize: 1 << 20, MemTableSize: 1 << 20})
			if err != nil {
				t.Fatalf("life %d, start %d: %v", life, start, err)
			}
			counts, err := s.Count(t.Context(), storage.Filter{})
			if n := counts[storage.StateType{State: task.Submitted, Type: "mail"}]; err != nil || n < int64(want) {
				t.Fatalf("life %d, start %d: %d of %d tasks, %v", life, start, n, want, err)
			}
			for range random.IntN(3) {
				rows := manyRows(ids, 1+random.IntN(80))
				call := s.Update
				relaxed := random.IntN(2) == 0
				if relaxed {
					call = s.UpdateNoSync
				}
				if err := call(t.Context(), func(tx storage.Tx) error {
					_, err := tx.Insert(t.Context(), rows...)
					return err
				}); err != nil {
					t.Fatal(err)
				}
				if !relaxed {
					want += len(rows)
				}
			}
			left := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: random.IntN(101), RNG: random})
			if err := s.Close(); err != nil { // the test continues with the disk as it was before
				t.Fatal(err)
			}
			disk = left
		}
	}
}
