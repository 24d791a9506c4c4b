package main

import (
	_ "embed"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/taskengine/taskengine/bench/result"
)

//go:embed go.mod
var goMod string

// moduleVersion returns the version of a module that this program, and the servers
// built for it, are made with.
func moduleVersion(path string) string {
	for line := range strings.Lines(goMod) {
		f := strings.Fields(strings.TrimPrefix(line, "require "))
		if len(f) >= 2 && f[0] == path && strings.HasPrefix(f[1], "v") {
			return f[1]
		}
	}
	return "unknown"
}

// machine describes where the peers are measured, as far as the system tells.
func machine(dir string) result.Machine {
	m := result.Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version()}
	m.Kernel = contents("/proc/sys/kernel/osrelease")
	m.CPU = field("/proc/cpuinfo", "model name")
	kb, _ := strconv.ParseInt(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB"), 10, 64) // zero if unknown
	m.Memory = kb << 10
	m.Disk = strings.Join(strings.Fields(says("sh", "-c", `df --output=source,fstype "$0" | tail -1`, dir)), " ")
	return m
}

func contents(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// field returns the first value of a name in a file of lines "name: value".
func field(path, name string) string {
	for line := range strings.Lines(contents(path)) {
		if n, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(n) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
