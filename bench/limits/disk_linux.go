package limits

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// syncData makes durable what was written to a file, and of what is known about the file
// only what is needed to read that.
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
