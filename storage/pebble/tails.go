package pebble

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// tails are the files of the store that are being written and on which it depends: the newest log and
// the manifest. They show that files were replaced or overwritten under the open store, such as by an older
// copy: the store would go on to write where nothing is found when it is opened again. All of its methods
// may be called by several goroutines.
type tails struct {
	mu    sync.Mutex
	files map[string]*tailFile // guarded by mu, by name
}

// hasTail reports whether the end of a file is looked at.
func hasTail(name string) bool {
	base := filepath.Base(name)
	_, isLog := logNumber(base)
	return isLog || strings.HasPrefix(base, "MANIFEST-")
}

// tailLength is how many of the bytes written last are compared.
const tailLength = 64

// tail is the last bytes of a file up to an offset.
type tail struct {
	bytes [tailLength]byte
	n     int // how many there are
	end   int64
}

// write adds the bytes at the end.
func (t *tail) write(p []byte) {
	t.end += int64(len(p))
	if len(p) < tailLength {
		t.n = copy(t.bytes[:], t.bytes[max(0, t.n+len(p)-tailLength):t.n])
	} else {
		t.n, p = 0, p[len(p)-tailLength:]
	}
	t.n += copy(t.bytes[t.n:], p)
}

// tailFile is a file that is being written.
type tailFile struct {
	vfs.File
	name string
	of   *tails
	was  os.FileInfo

	mu     sync.Mutex
	now    tail             // guarded by mu
	before tail             // guarded by mu: when the file was last examined. Later writes are there, whatever has happened
	read   [tailLength]byte // guarded by mu
}

// add returns a file of that name that was just opened to be written from its start.
func (t *tails) add(name string, file vfs.File) (vfs.File, error) {
	was, err := os.Stat(name)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	f := &tailFile{File: file, name: name, of: t, was: was}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.files == nil {
		t.files = make(map[string]*tailFile)
	}
	t.files[name] = f
	return f, nil
}

// remove forgets a file, before it is removed or gets another name.
func (t *tails) remove(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.files, name)
}

// gone returns an error if one of the files is not at its name any more, or lacks the last writes. A file that
// cannot be examined is not gone.
func (t *tails) gone() error {
	t.mu.Lock()
	some := make([]*tailFile, 0, 4)
	for _, f := range t.files {
		some = append(some, f)
	}
	t.mu.Unlock()
	for _, f := range some {
		if err := f.gone(); err != nil && t.has(f) { // otherwise the library has removed it
			return err
		}
	}
	return nil
}

func (t *tails) has(f *tailFile) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.files[f.name] == f
}

func (f *tailFile) gone() error {
	const lost = "while the store was open: new writes would be lost; stop the node before files are put back or restored"
	is, err := os.Stat(f.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s was removed or moved %s", f.name, lost)
	case err != nil:
		return nil
	case !os.SameFile(f.was, is):
		return fmt.Errorf("%s was replaced %s", f.name, lost)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	was := &f.before
	got := f.read[:was.n]
	n, err := f.ReadAt(got, was.end-int64(was.n))
	if err == nil && !bytes.Equal(got, was.bytes[:was.n]) || errors.Is(err, io.EOF) && n < was.n {
		return fmt.Errorf("%s was overwritten %s", f.name, lost)
	}
	f.before = f.now
	return nil
}

func (f *tailFile) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.File.Write(p)
	f.now.write(p[:n])
	return n, err
}

func (f *tailFile) Close() error {
	f.of.mu.Lock()
	if f.of.files[f.name] == f {
		delete(f.of.files, f.name)
	}
	f.of.mu.Unlock()
	return f.File.Close()
}
