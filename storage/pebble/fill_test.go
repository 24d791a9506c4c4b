package pebble

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// noFill is a disk on which a log cannot be filled.
type noFill struct{ vfs.File }

func (noFill) WriteAt([]byte, int64) (int, error) { return 0, errors.New("no space left") }

// newLog returns a log on a disk in memory, and a function that returns its contents.
func newLog(t *testing.T, old int, under func(vfs.File) vfs.File) (log vfs.File, onDisk func() []byte) {
	t.Helper()
	fs := vfs.NewMem()
	file, err := fs.Create("log", LogCategory)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt(bytes.Repeat([]byte{'o'}, old), 0); err != nil {
		t.Fatal(err)
	}
	if log, err = filled(under(file), nil, LogCategory); err != nil {
		t.Fatal(err)
	}
	return log, func() []byte {
		r, err := fs.Open("log")
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
		return b
	}
}

// write writes n times size bytes, each followed by a sync.
func write(t *testing.T, log vfs.File, n, size int) []byte {
	t.Helper()
	for range n {
		if _, err := log.Write(bytes.Repeat([]byte{'x'}, size)); err != nil {
			t.Fatal(err)
		}
		if err := log.SyncData(); err != nil {
			t.Fatal(err)
		}
	}
	return bytes.Repeat([]byte{'x'}, n*size)
}

func TestLogIsFilledAheadOfSmallWrites(t *testing.T) {
	as := func(f vfs.File) vfs.File { return f }
	for _, test := range []struct {
		name     string
		old      int // length of the old log
		n, size  int
		under    func(vfs.File) vfs.File
		wantSize int
	}{
		{"a new log", 0, 300, 1000, as, 2 * LogFillStep},
		{"an old one that is long enough", 500_000, 300, 1000, as, 500_000},
		{"an old one that is too short", 100_000, 300, 1000, as, 2 * LogFillStep},
		{"much in each sync", 0, 30, 10 * LogFillBelow, as, 300 * LogFillBelow},
		{"a disk that is full", 0, 300, 1000, func(f vfs.File) vfs.File { return noFill{f} }, 300_000},
	} {
		t.Run(test.name, func(t *testing.T) {
			log, onDisk := newLog(t, test.old, test.under)
			want := write(t, log, test.n, test.size)
			got := onDisk()
			if len(got) != test.wantSize {
				t.Errorf("the log has %d bytes, want %d", len(got), test.wantSize)
			}
			if !bytes.HasPrefix(got, want) {
				t.Error("the log lacks writes")
			}
			rest := got[min(len(got), max(len(want), test.old)):]
			if len(bytes.Trim(rest, "\x00")) != 0 {
				t.Error("the bytes after the writes are not all zero")
			}
		})
	}
}

func TestOnlyLogsAreFilled(t *testing.T) {
	file, err := vfs.NewMem().Create("table", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := filled(file, nil, vfs.WriteCategoryUnspecified); err != nil || got != file {
		t.Errorf("got %v, %v, want the file itself", got, err)
	}
}
