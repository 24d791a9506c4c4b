package access

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// maxFile is how many bytes a file of tokens may have.
const maxFile = 16 << 20

// document is the content of a file of tokens.
type document struct {
	Tokens []entry `json:"tokens"`
}

// entry is a token in a file.
type entry struct {
	Name    string    `json:"name"`
	Hash    Hash      `json:"hash"`
	Roles   []Role    `json:"roles"`
	Types   []string  `json:"types,omitempty"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
}

// Read reads a file of tokens. A field that this version does not know is an error: it may be a restriction.
func Read(path string) (*Tokens, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	var doc document
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&doc); err != nil {
		return nil, fmt.Errorf("%s is no file of tokens: %w", path, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s is no file of tokens: there is more after its end", path)
	}
	list := make([]Token, len(doc.Tokens))
	for i, e := range doc.Tokens {
		list[i] = Token(e)
	}
	tokens, err := NewTokens(list)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return tokens, nil
}

// Change replaces the tokens in a file by the result of change. The file need not exist. Changes of several processes wait
// for each other. A concurrent reader sees the file before or after the change. Only the user of this process can read and
// write the file, unless it existed with other permissions.
func Change(path string, change func([]Token) ([]Token, error)) error {
	unlock, err := lock(path + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	mode := fs.FileMode(0o600)
	var list []Token
	info, err := os.Stat(path)
	switch {
	case err == nil:
		before, err := Read(path)
		if err != nil {
			return err
		}
		list, mode = before.List(), info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if list, err = change(list); err != nil {
		return err
	}
	if _, err := NewTokens(list); err != nil {
		return err
	}
	doc := document{Tokens: make([]entry, len(list))}
	for i, t := range list {
		doc.Tokens[i] = entry(t)
	}
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	return replace(path, append(text, '\n'), mode)
}

// replace replaces a file in one step, also if the machine loses power.
func replace(path string, text []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // with the permissions 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// lock waits until no other process has locked a file, which it makes if there is none.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return func() { f.Close() }, nil // which unlocks it
}
