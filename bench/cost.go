package bench

import (
	"context"
	"io/fs"
	"path/filepath"
	"runtime/metrics"
	"time"

	"github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/internal/machine"
)

// usage is the use of resources by processes so far. Figures that the operating system does not
// provide are 0.
type usage struct {
	cpu       time.Duration
	machine   time.Duration // CPU of all processes
	written   int64         // bytes, to disk
	waits     int64         // voluntary context switches
	allocated int64         // bytes, by Go
}

// used returns the sum of the usage of this process, its children that have ended or were killed, and
// the given children.
func used(children []int) usage {
	u := processUsage()
	u.machine = machine.Busy()
	for _, pid := range children {
		c := childUsage(pid)
		u.cpu, u.written, u.waits = u.cpu+c.cpu, u.written+c.written, u.waits+c.waits
	}
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() == metrics.KindUint64 {
		u.allocated = int64(sample[0].Value.Uint64())
	}
	return u
}

// meter measures the usage of a load, from the end of the warm-up to the end of the load.
type meter struct {
	pids    func() []int
	began   time.Time
	first   usage
	peak    int64
	samples []sample
	cost    *result.Cost // after finish
	others  float64      // after finish: cores that neither this process nor its children used
	stop    context.CancelFunc
	done    chan struct{}
}

// sample is the usage at one moment.
type sample struct {
	at       time.Time
	cpu      time.Duration // since the meter began
	resident int64
}

// startMeter measures from begin on. It takes a sample at each interval, unless that is 0.
func startMeter(begin time.Time, every time.Duration, pids func() []int) *meter {
	ctx, stop := context.WithCancel(context.Background())
	m := &meter{pids: pids, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(m.done)
		_ = sleep(ctx, time.Until(begin)) // a meter that is stopped earlier has measured nothing
		forgetPeak()
		m.began, m.first = time.Now(), used(pids())
		for every > 0 && sleep(ctx, every) == nil {
			m.take()
		}
		<-ctx.Done()
	}()
	return m
}

func (m *meter) take() {
	s := sample{at: time.Now(), cpu: used(m.pids()).cpu - m.first.cpu, resident: resident(0)}
	for _, pid := range m.pids() {
		s.resident += resident(pid)
	}
	m.peak = max(m.peak, s.resident)
	m.samples = append(m.samples, s)
}

// finish stops measuring.
func (m *meter) finish() {
	m.stop()
	<-m.done
	m.take()
	now, took := used(m.pids()), time.Since(m.began)
	c := &result.Cost{
		CPU: now.cpu - m.first.cpu, Resident: max(m.peak, peakResident()),
		Written: now.written - m.first.written, Allocated: now.allocated - m.first.allocated,
	}
	if took > 0 {
		c.Wakeups = float64(now.waits-m.first.waits) / took.Seconds()
	}
	m.cost, m.others = c, machine.Others(now.machine-m.first.machine, now.cpu-m.first.cpu, took)
}

// size returns the size of all files of a folder.
func size(dir string) int64 {
	total := int64(0)
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				total += info.Size()
			}
		}
		return nil // a file that is removed during the walk has no size
	})
	return total
}
