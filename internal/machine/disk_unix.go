//go:build linux || darwin

package machine

import "golang.org/x/sys/unix"

// DiskUsed returns the used percentage of the file system of a path, as df shows it: of the space for
// users without privileges.
func DiskUsed(path string) (percent float64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, err
	}
	used := float64(s.Blocks) - float64(s.Bfree)
	if total := used + float64(s.Bavail); total > 0 {
		return 100 * used / total, nil
	}
	return 0, nil
}
