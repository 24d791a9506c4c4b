package kv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// File is a file of an open store, by which the store detects that its path has another file
// or none. The zero File is never gone.
type File struct {
	path string // absolute; "" has none
	was  os.FileInfo
}

// FileAt returns an existing file.
func FileAt(path string) (p File, err error) {
	if p.path, err = filepath.Abs(path); err != nil {
		return File{}, err
	}
	p.was, err = os.Stat(p.path)
	return p, err
}

// Gone returns an error if the path has no file or another one: the store then writes to files
// that cannot be opened again. A file that cannot be examined is not gone.
func (p *File) Gone() error {
	if p.path == "" {
		return nil
	}
	is, err := os.Stat(p.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s was removed or moved while the store was open: new writes would be lost; stop the node, and then put it back or restore a backup", p.path)
	case err == nil && !os.SameFile(p.was, is):
		return fmt.Errorf("%s was replaced while the store was open: new writes would be lost; stop the node before files are put back or restored", p.path)
	}
	return nil
}
