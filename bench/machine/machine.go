// Package machine tells what a machine is and what is used of it, for everything that
// measures. What the system does not tell is zero.
package machine

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/taskengine/taskengine/bench/result"
)

// Describe describes this machine, and the disk that a folder is on.
func Describe(dir string) result.Machine {
	m := result.Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version()}
	describe(&m, dir)
	return m
}

// Others returns how many cores others used in some time, in which everybody used all, see
// [Busy], and who asks used own. Of less than half a second it says 0: the kernel counts in
// steps too long for that.
func Others(all, own, took time.Duration) float64 {
	const least = 500 * time.Millisecond
	if took < least {
		return 0
	}
	return max(0, (all-own).Seconds()/took.Seconds())
}

// Number returns the number after a name at the start of a line of a file; 0 if there is
// none.
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
