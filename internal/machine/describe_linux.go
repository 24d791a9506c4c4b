package machine

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

func describe(m *Info, dir string) {
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	m.Memory = Number("/proc/meminfo", "MemTotal:") * 1024
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			name, value, ok := strings.Cut(line, ":")
			if ok && strings.TrimSpace(name) == "model name" {
				m.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	m.Disk = disk(dir)
}

// disk returns the file system and the device of the mount that a folder is on.
func disk(dir string) string {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	best, found := "", ""
	for line := range strings.Lines(string(mounts)) {
		left, right, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(left), strings.Fields(right)
		if !ok || len(f) < 5 || len(g) < 2 {
			continue
		}
		point := f[4]
		below := dir == point || strings.HasPrefix(dir, strings.TrimSuffix(point, "/")+"/")
		if below && len(point) >= len(best) {
			best, found = point, g[0]+" on "+g[1]
		}
	}
	return found
}
