//go:build unix

package bench

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapped puts the records into a file that other processes can map, too, with room for n. The records
// must not be used after unmap.
func (r *records) mapped(file string, n int) (unmap func(), err error) {
	chunks := n/chunkSize + 1
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	length := chunks * int(unsafe.Sizeof(chunk{}))
	if err := f.Truncate(int64(length)); err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", file, err)
	}
	for c := range chunks {
		r.chunks[c].Store((*chunk)(unsafe.Pointer(&mem[c*int(unsafe.Sizeof(chunk{}))])))
	}
	return func() { _ = unix.Munmap(mem) }, nil
}
