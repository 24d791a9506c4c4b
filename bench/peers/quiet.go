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
	quietBytes = 4 << 20         // of writes that the kernel holds back: what an idle machine has
	quietBound = 5 * time.Second // on waiting for it
)

// calm gives all subjects the same start: no garbage of this program, and a disk that
// has written what came before. It says so if the disk does not come to rest.
func calm(ctx context.Context) (note string) {
	runtime.GC()
	flush()
	return awaitQuiet(ctx, held, quietBytes, quietBound)
}

// awaitQuiet waits until no more than some bytes are held back, at most for the bound.
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

// held returns how many bytes the kernel has not written yet; 0 if it does not tell.
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
