package limits

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/bench/result"
)

const (
	blockSize = 4 << 10
	// preallocated is the size of a file that is overwritten.
	preallocated = 4 << 20
)

func diskProbes() []probe {
	all := []probe{
		{
			limits: []Limit{
				{Fsync, Nanoseconds, "append 4 KiB and sync, median"},
				{"fsync/append/p99", Nanoseconds, "append 4 KiB and sync, 99th percentile"},
			},
			share:   2,
			measure: measureAppend,
		},
		{
			limits: []Limit{
				{"fsync/overwrite/p50", Nanoseconds, "overwrite 4 KiB and sync, median"},
				{"fsync/overwrite/p99", Nanoseconds, "overwrite 4 KiB and sync, 99th percentile"},
			},
			share:   2,
			measure: measureOverwrite,
		},
	}
	for _, writers := range []int{1, 4, 16} {
		all = append(all, probe{
			limits: []Limit{{
				fmt.Sprintf("fsync/writers/%d", writers), PerSecond,
				fmt.Sprintf("syncs of %s at once", result.Counted(writers, "file")),
			}},
			share:   1,
			measure: func(ctx context.Context, t *trial) error { return measureWriters(ctx, t, writers) },
		})
	}
	return all
}

func measureAppend(ctx context.Context, t *trial) error {
	f, err := os.Create(filepath.Join(t.dir, "append"))
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, blockSize)
	return t.quantiles(ctx, func() (time.Duration, error) {
		began := time.Now()
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
		err := syncData(f)
		return time.Since(began), err
	})
}

func measureOverwrite(ctx context.Context, t *trial) error {
	f, err := preallocate(t.dir, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	w := overwriter{file: f, block: make([]byte, blockSize)}
	return t.quantiles(ctx, func() (time.Duration, error) {
		began := time.Now()
		err := w.write()
		return time.Since(began), err
	})
}

// measureWriters measures several goroutines that each sync a file of their own.
func measureWriters(ctx context.Context, t *trial, n int) error {
	writers := make([]overwriter, n)
	for i := range writers {
		f, err := preallocate(t.dir, i)
		if err != nil {
			return err
		}
		defer f.Close()
		writers[i] = overwriter{file: f, block: make([]byte, blockSize)}
	}
	return t.repeat(ctx, func(end time.Time) ([]float64, error) {
		rate, err := together(ctx, n, end, func(i int) (int, error) { return 1, writers[i].write() })
		return []float64{rate}, err
	})
}

// together calls one repeatedly in n goroutines until the end or an error, and returns the sum of the
// results per second.
func together(ctx context.Context, n int, end time.Time, one func(i int) (int, error)) (rate float64, err error) {
	var sum atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	began := time.Now()
	for i := range n {
		wg.Go(func() {
			for first := true; first || time.Now().Before(end); first = false {
				if ctx.Err() != nil || failed.Load() != nil {
					return
				}
				done, err := one(i)
				if err != nil {
					failed.CompareAndSwap(nil, &err)
					return
				}
				sum.Add(int64(done))
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return perSecond(sum.Load(), began), nil
}

// preallocate makes a file with all of its blocks on disk.
func preallocate(dir string, number int) (*os.File, error) {
	f, err := os.Create(filepath.Join(dir, fmt.Sprintf("overwrite-%d", number)))
	if err != nil {
		return nil, err
	}
	_, err = f.Write(make([]byte, preallocated))
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// overwriter overwrites the blocks of a preallocated file in turn, repeatedly.
type overwriter struct {
	file  *os.File
	block []byte
	next  int64
}

func (w *overwriter) write() error {
	if _, err := w.file.WriteAt(w.block, w.next); err != nil {
		return err
	}
	w.next = (w.next + blockSize) % preallocated
	return syncData(w.file)
}
