package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/internal/machine"
)

const (
	quietBytes = 4 << 20         // of dirty pages: what an idle machine has
	quietBound = 5 * time.Second // on waiting for it
)

// calm gives all subjects the same start: no garbage of this program, and no earlier writes to disk. It
// reports if the disk does not become idle.
func calm(ctx context.Context) (note string) {
	runtime.GC()
	flush()
	return awaitQuiet(ctx, held, quietBytes, quietBound)
}

// awaitQuiet waits until at most quietBytes are dirty, or until quietBound is over.
func awaitQuiet(ctx context.Context, held func() int64, limit int64, bound time.Duration) (note string) {
	for end := time.Now().Add(bound); ; time.Sleep(20 * time.Millisecond) {
		n := held()
		if n <= limit || ctx.Err() != nil {
			return ""
		}
		if !time.Now().Before(end) {
			return fmt.Sprintf("the disk was not quiet before: after %v, %d MiB were still to be written", bound, n>>20)
		}
	}
}

// held returns the number of bytes that the kernel has not written yet; 0 if unknown.
func held() int64 {
	var sum int64
	for _, name := range []string{"Dirty:", "Writeback:"} {
		sum += machine.Number("/proc/meminfo", name) << 10
	}
	return sum
}

// servers are the names of processes that the subjects use.
var servers = []string{"postgres", "redis-server", "beanstalkd", "faktory", "nats-server"}

// strangers returns which of these run now: none of them is ours, between measurements.
func strangers() []string {
	var out []string
	found, _ := filepath.Glob("/proc/[0-9]*/comm") // only fails for a bad pattern
	for _, path := range found {
		name, err := os.ReadFile(path)
		if s := strings.TrimSpace(string(name)); err == nil && slices.Contains(servers, s) && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return out
}
