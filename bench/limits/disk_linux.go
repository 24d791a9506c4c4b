package limits

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// syncData makes the data of a file durable, and only the metadata that reading it needs.
func syncData(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := conn.Control(func(fd uintptr) { failed = unix.Fdatasync(int(fd)) }); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("sync %s: %w", f.Name(), failed)
	}
	return nil
}
