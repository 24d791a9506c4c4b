package conform

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// strays returns the living processes that have inherited dir in their environment,
// whatever process group they are in.
func strays(dir string) []string {
	var out []string
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(env, []byte("PLUGIN_UNIX_SOCKET_DIR="+dir+"\x00")) {
			continue // it is somebody else's, or has ended: a zombie has no environment
		}
		pid := filepath.Base(filepath.Dir(file))
		command, _ := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
		out = append(out, fmt.Sprintf("%s (%s)", pid, strings.TrimSpace(strings.ReplaceAll(string(command), "\x00", " "))))
	}
	return out
}
