package bolt_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/storagetest"
)

// BenchmarkStore runs on a real disk: on many machines the temporary folder is in memory, where a sync
// costs nothing.
func BenchmarkStore(b *testing.B) { storagetest.Benchmark(b, forBenchmark) }

func BenchmarkOrderedLife(b *testing.B) { storagetest.BenchmarkOrderedLife(b, forBenchmark) }

func BenchmarkSearch(b *testing.B) { storagetest.BenchmarkSearch(b, forBenchmark) }

func BenchmarkLogs(b *testing.B) { storagetest.BenchmarkLogs(b, forBenchmark) }

func forBenchmark(t testing.TB) storage.Store {
	dir, err := os.MkdirTemp("/var/tmp", "bolt-bench-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return open(t, filepath.Join(dir, "tasks.db"))
}
