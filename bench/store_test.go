package bench

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/bolt"
	"github.com/taskengine/taskengine/storage/pebble"
)

// stores are the stores that are measured.
var stores = []struct {
	name string
	open func(dir string) (storage.Store, error)
}{
	{"pebble", func(dir string) (storage.Store, error) { return pebble.Open(dir, pebble.Options{}) }},
	{"bolt", func(dir string) (storage.Store, error) {
		return bolt.Open(filepath.Join(dir, "tasks.db"), bolt.Options{})
	}},
}

// diskDir returns a new folder on a real disk: the usual place for temporary files is
// memory on many machines, where a sync costs nothing.
func diskDir(tb testing.TB) string {
	dir, err := os.MkdirTemp("/var/tmp", "taskengine-bench-")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func openStore(tb testing.TB, open func(string) (storage.Store, error)) storage.Store {
	s, err := open(diskDir(tb))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// cpuTime returns the CPU time of the process.
func cpuTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// residentMB returns the resident memory of the process in MB, and 0 where the system does not report it.
func residentMB() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if kb, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, _ := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kb), "kB")), 64)
			return n / 1000
		}
	}
	return 0
}

// syncTime returns the median time of writing and syncing one small block.
func syncTime(tb testing.TB) time.Duration {
	f, err := os.Create(filepath.Join(diskDir(tb), "probe"))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 512)
	times := make([]time.Duration, 500)
	for i := range times {
		began := time.Now()
		if _, err := f.Write(block); err != nil {
			tb.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			tb.Fatal(err)
		}
		times[i] = time.Since(began)
	}
	return quantile(times, 0.5)
}

// quantile returns the q-th quantile of times, which it sorts.
func quantile(times []time.Duration, q float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[min(len(times)-1, int(q*float64(len(times))))]
}
