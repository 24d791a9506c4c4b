// Package machine describes the machine that a process runs on and measures its use. Several measuring
// packages share it. Figures that the operating system does not provide are zero.
package machine

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Info describes a machine. It is part of stored results and curves.
type Info struct {
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	Kernel string `json:"kernel,omitempty"`
	CPU    string `json:"cpu,omitempty"`
	Cores  int    `json:"cores"`
	Memory int64  `json:"memory_bytes,omitempty"`
	Disk   string `json:"disk,omitempty"` // file system and device of the folder that was asked about
	Go     string `json:"go"`             // version
}

// Describe describes this machine, and the disk that a folder is on.
func Describe(dir string) Info {
	m := Info{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version()}
	describe(&m, dir)
	return m
}

// Others returns how many cores other processes used during took. In that time, all processes
// together used all CPU time (see [Busy]), and the caller's used own. Others returns 0 if took is less
// than half a second, because the kernel counts CPU time in steps that are too long for that.
func Others(all, own, took time.Duration) float64 {
	const least = 500 * time.Millisecond
	if took < least {
		return 0
	}
	return max(0, (all-own).Seconds()/took.Seconds())
}

// Number returns the number that follows name at the start of a line of file, or 0 if there is none.
func Number(file, name string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			if words := strings.Fields(rest); len(words) > 0 {
				n, _ := strconv.ParseInt(words[0], 10, 64)
				return n
			}
		}
	}
	return 0
}
