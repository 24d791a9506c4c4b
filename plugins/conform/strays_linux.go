package conform

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// strays returns the living processes that have inherited dir in their environment,
// in any process group.
func strays(dir string) []stray {
	var out []stray
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(env, []byte("PLUGIN_UNIX_SOCKET_DIR="+dir+"\x00")) {
			continue // it belongs to another user or program, or has ended: a zombie has no environment
		}
		name := filepath.Base(filepath.Dir(file))
		if pid, err := strconv.Atoi(name); err == nil {
			command, _ := os.ReadFile(filepath.Join("/proc", name, "cmdline"))
			out = append(out, stray{pid, strings.TrimSpace(strings.ReplaceAll(string(command), "\x00", " "))})
		}
	}
	return out
}

// populated reports whether a process group has a living process. Zombies do not count: they stay in a container
// if its first process does not reap them.
func populated(group int) bool {
	if syscall.Kill(-group, 0) != nil {
		return false
	}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		stat, err := os.ReadFile(file)
		_, rest, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
		fields := bytes.Fields(rest) // state, parent, group
		if err != nil || !ok || len(fields) < 3 {
			continue // the process has ended since
		}
		if string(fields[2]) == strconv.Itoa(group) && string(fields[0]) != "Z" && string(fields[0]) != "X" {
			return true
		}
	}
	return false
}
