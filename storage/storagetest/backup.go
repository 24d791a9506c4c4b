package storagetest

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Restorer is implemented by a [storage.Backuper] under test. Restore opens the store from the
// files in a folder.
type Restorer interface {
	Restore(t testing.TB, folder string) storage.Store
}

// backup takes a backup and opens it. between is called for every file.
func (f *fixture) backup(between func()) *fixture {
	f.Helper()
	folder := f.TempDir()
	err := f.Store.(storage.Backuper).Backup(f.ctx(), func(name string, size int64, content io.Reader) error {
		between()
		out, err := os.OpenFile(filepath.Join(folder, filepath.Base(name)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		n, err := io.Copy(out, content)
		if n != size {
			f.Errorf("the file %s has %d bytes and not %d", name, n, size)
		}
		return errors.Join(err, out.Close())
	})
	if err != nil {
		f.Fatal(err)
	}
	return &fixture{T: f.T, Store: f.Store.(Restorer).Restore(f.T, folder), ids: f.ids}
}

var backupCases = []testCase{
	{"a backup has everything that was acknowledged, and takes changes", func(f *fixture) {
		var want []*task.Task
		for _, edit := range remarkable() {
			want = append(want, f.row(task.Submitted, edit))
		}
		f.put(want...)
		copied := f.backup(func() {})
		for _, t := range want {
			copied.same(copied.get(t.ID), t)
		}
		more := copied.row(task.Submitted)
		copied.put(more)
		if more.Seq <= want[len(want)-1].Seq {
			f.Errorf("number %d follows %d", more.Seq, want[len(want)-1].Seq)
		}
		copied.check()
		if _, err := f.Get(f.ctx(), more.ID); !errors.Is(err, task.ErrNotFound) {
			f.Errorf("what was added to the backup is in the store, too: %v", err)
		}
	}},
	{"a store goes on while it is backed up, and the backup is of one moment", func(f *fixture) {
		f.put(f.rows(100, task.Submitted, nil)...)
		var last *task.Task
		copied := f.backup(func() { // no call waits for the copying of files
			last = f.row(task.Submitted)
			f.put(last)
		})
		copied.check()
		if _, err := copied.Get(f.ctx(), last.ID); !errors.Is(err, task.ErrNotFound) {
			f.Errorf("what was added after the moment is there: %v", err)
		}
	}},
	{"backups under load have whole updates only", func(f *fixture) {
		stop := make(chan struct{})
		var load sync.WaitGroup
		for range 4 {
			var pairs [][]*task.Task
			for range 400 {
				pairs = append(pairs, f.rows(2, task.Submitted, nil))
			}
			load.Go(func() {
				for i := range pairs {
					select {
					case <-stop:
						return
					default:
					}
					if _, err := f.Insert(f.ctx(), pairs[i]...); err != nil {
						f.Error(err)
						return
					}
				}
			})
		}
		before := -1
		for range 3 {
			copied := f.backup(func() {})
			copied.check()
			_, ts := copied.export()
			if len(ts)%2 != 0 || len(ts) < before {
				f.Errorf("after a backup with %d rows there is one with %d", before, len(ts))
			}
			before = len(ts)
		}
		close(stop)
		load.Wait()
	}},
	{"an error of its function ends a backup and harms nothing", func(f *fixture) {
		f.put(f.row(task.Submitted))
		enough := errors.New("enough")
		err := f.Store.(storage.Backuper).Backup(f.ctx(), func(string, int64, io.Reader) error { return enough })
		if err != enough {
			f.Errorf("Backup returned %v", err)
		}
		f.put(f.row(task.Submitted))
		f.backup(func() {}).check()
	}},
}
