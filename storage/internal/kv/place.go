package kv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Place is a file of an open store, by which the store detects that its path has another file
// or none. The zero Place is never gone.
type Place struct {
	path string // absolute; "" is no place
	was  os.FileInfo
}

// NewPlace returns the place of an existing file.
func NewPlace(path string) (p Place, err error) {
	if p.path, err = filepath.Abs(path); err != nil {
		return Place{}, err
	}
	p.was, err = os.Stat(p.path)
	return p, err
}

// Gone returns an error if the path has no file or another one: the store then writes to files
// that cannot be opened again. A file that cannot be examined is not gone.
func (p *Place) Gone() error {
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
