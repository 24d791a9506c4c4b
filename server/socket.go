package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// socket is a listener on a Unix socket. It removes its file when it is closed, unless another one is there by then.
type socket struct {
	net.Listener
	path string
	file fs.FileInfo
}

// listenUnix listens on a Unix socket with the given permissions. A file that an earlier process has left is replaced.
// The socket gets its path when it has its permissions.
func listenUnix(ctx context.Context, path string, mode fs.FileMode) (net.Listener, error) {
	if err := checkUnused(ctx, path); err != nil {
		return nil, err
	}
	private, err := os.MkdirTemp(filepath.Dir(path), ".s") // no other user can connect in it
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(private)
	made := filepath.Join(private, "s")
	l, err := new(net.ListenConfig).Listen(ctx, "unix", made)
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	file, err := os.Lstat(made)
	if err == nil {
		err = os.Chmod(made, mode)
	}
	if err == nil {
		err = os.Rename(made, path)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &socket{l, path, file}, nil
}

// checkUnused returns an error if a path is not free for a socket.
func checkUnused(ctx context.Context, path string) error {
	file, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case file.Mode().Type() != fs.ModeSocket:
		return errors.New("there is a file, which is no socket; remove it, or choose another path")
	}
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		return errors.Join(errors.New("another process listens on this socket"), c.Close())
	case errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist):
		return nil // it was left by a process that has ended
	}
	return fmt.Errorf("it is not known whether another process listens: %w", err)
}

// Addr implements [net.Listener].
func (s *socket) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: s.path} }

// Close implements [net.Listener].
func (s *socket) Close() error {
	if there, err := os.Lstat(s.path); err == nil && os.SameFile(there, s.file) {
		_ = os.Remove(s.path) // a file that is left is replaced by the next listener
	}
	return s.Listener.Close()
}
