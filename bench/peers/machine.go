package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/taskengine/taskengine/bench/result"
)

// moduleVersion returns the version of a module that is linked into this program.
func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return "of unknown version"
}

// revision returns that of the source, if the program was built from a repository.
func revision() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return ""
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
