package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// writeDurably writes a new file and syncs it, and returns its entry in a manifest.
func writeDurably(ctx context.Context, name string, size int64, content io.Reader) (written File, err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return written, err
	}
	written, err = copyMeasured(ctx, f, filepath.Base(name), content)
	if err == nil && written.Size != size {
		err = fmt.Errorf("%s has %d bytes instead of %d: %w", written.Name, written.Size, size, io.ErrUnexpectedEOF)
	}
	if err == nil {
		err = f.Sync()
	}
	return written, errors.Join(err, f.Close())
}

// readerFunc is an [io.Reader].
type readerFunc func([]byte) (int, error)

// Read implements [io.Reader].
func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// readerOf returns a reader that fails when ctx ends.
func readerOf(ctx context.Context, r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return r.Read(p)
	})
}

// measureFile reads a file and returns its entry in a manifest.
func measureFile(ctx context.Context, name string) (got File, err error) {
	err = readFile(name, func(name string, _ int64, content io.Reader) error {
		got, err = copyMeasured(ctx, io.Discard, name, content)
		return err
	})
	return got, err
}

// copyMeasured copies a file, and returns its entry in a manifest.
func copyMeasured(ctx context.Context, to io.Writer, name string, content io.Reader) (File, error) {
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, sum), readerOf(ctx, content))
	return File{Name: name, Size: n, SHA256: hex.EncodeToString(sum.Sum(nil))}, err
}
