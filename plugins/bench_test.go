package plugins

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
)

// BenchmarkGo measures tasks per second through one Go process, many at once.
func BenchmarkGo(b *testing.B) {
	c := self(b, "handlers")
	c.Slots = 512
	benchmark(b, start(b, c), "noop", 512)
}

// BenchmarkGoAlone measures one task after the other: the latency.
func BenchmarkGoAlone(b *testing.B) {
	benchmark(b, start(b, self(b, "handlers")), "noop", 1)
}

func benchmark(b *testing.B, h *Host, typ string, inFlight int) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range inFlight {
		wg.Go(func() {
			for next.Add(1) <= int64(b.N) {
				t := &task.Task{ID: task.ID{1}, Version: 2, Type: typ, Attempt: 1, Payload: make([]byte, 64)}
				if _, err := h.Handle(ctx, t); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}

// BenchmarkPython measures tasks per second through one Python process, many at once.
func BenchmarkPython(b *testing.B) {
	for _, slots := range []int{16, 64, 512} {
		b.Run(fmt.Sprintf("slots=%d", slots), func(b *testing.B) {
			c := python(b)
			c.Slots = slots
			benchmark(b, start(b, c), "noop", 512)
		})
	}
}

// sdk returns the configuration of the conformance program of an SDK, which is built by the
// SDK's own tests.
func sdk(tb testing.TB, name string) Config {
	tb.Helper()
	var command []string
	switch name {
	case "go":
		return self(tb, "handlers")
	case "python":
		return python(tb)
	case "node":
		command = []string{"node", "sdk/node/build/conformance.js"}
	case "java":
		command = []string{"java", "@" + absolute(tb, "sdk/java/target/conformance.args")}
	case "shell":
		return script(tb, documented(tb, "../docs/handlers.md", "### Without gRPC", "sh"))
	}
	if _, err := os.Stat(strings.TrimPrefix(command[1], "@")); err != nil {
		tb.Skipf("the SDK is not built: %v", err)
	}
	return Config{Name: name, Command: command, Env: []string{"PATH", "HOME"}, StartTimeout: 30 * time.Second, KillAfter: 5 * time.Second, Logger: testLogger(tb)}
}

func absolute(tb testing.TB, path string) string {
	tb.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		tb.Fatal(err)
	}
	return abs
}

// BenchmarkNode and BenchmarkJava measure tasks per second through one process, many at
// once.
func BenchmarkNode(b *testing.B) { benchmarkEcho(b, "node") }
func BenchmarkJava(b *testing.B) { benchmarkEcho(b, "java") }

func benchmarkEcho(b *testing.B, name string) {
	c := sdk(b, name)
	c.Slots = 512
	h := start(b, c)
	var warm sync.WaitGroup
	for range 20_000 { // a compiler at run time needs them
		warm.Go(func() { must(b, h, "echo", "x") })
	}
	warm.Wait()
	benchmark(b, h, "echo", 512)
}

// BenchmarkAlone measures one task after the other: what a process adds to a task.
func BenchmarkAlone(b *testing.B) {
	for name, typ := range map[string]string{"go": "noop", "python": "noop", "node": "echo", "java": "echo", "shell": "upper"} {
		b.Run(name, func(b *testing.B) { benchmark(b, start(b, sdk(b, name)), typ, 1) })
	}
}

// BenchmarkStart measures a process from its start to its hello.
func BenchmarkStart(b *testing.B) {
	for _, name := range []string{"go", "python", "node", "java", "shell"} {
		b.Run(name, func(b *testing.B) {
			c := sdk(b, name)
			for b.Loop() {
				h, err := Start(context.Background(), c)
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := h.Close(context.Background()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

// BenchmarkHundredHandlers measures what a hundred idle handlers cost a node: memory and goroutines of the host, and the
// time to start them all.
func BenchmarkHundredHandlers(b *testing.B) {
	c := self(b, "handlers")
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		goroutines := runtime.NumGoroutine()
		hosts := make([]*Host, 100)
		var wg sync.WaitGroup
		for i := range hosts {
			wg.Go(func() {
				h, err := Start(context.Background(), c)
				if err != nil {
					b.Error(err)
					return
				}
				hosts[i] = h
				must(b, h, "noop", "")
			})
		}
		wg.Wait()
		b.StopTimer()
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/100, "goroutines/handler")
		b.ReportMetric(float64(after.HeapInuse-before.HeapInuse+after.StackInuse-before.StackInuse)/100/1024, "kB/handler")
		for _, h := range hosts {
			if h != nil {
				_ = h.Close(context.Background())
			}
		}
		b.StartTimer()
	}
}
