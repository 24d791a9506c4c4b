package supervise

import (
	"os"

	"golang.org/x/sys/unix"
)

// unnamedFile returns a file in memory, or a removed one if the kernel refuses that.
func unnamedFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("taskengine-input", unix.MFD_CLOEXEC)
	if err != nil {
		return removedFile()
	}
	return os.NewFile(uintptr(fd), "input"), nil
}
