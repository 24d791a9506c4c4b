package limits

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/taskengine/taskengine/bench/result"
)

// probe measures one or more limits together.
type probe struct {
	limits  []Limit // at least one
	share   int     // of the budget
	measure func(context.Context, *trial) error
}

func (p probe) name() string { return p.limits[0].Name }

// trial is the measurement of one probe. A probe makes its preparations, calls repeat, and cleans up
// all but its folder.
type trial struct {
	dir    string        // a folder of its own
	each   time.Duration // time of one repetition
	values [][]float64   // for each limit of the probe, one value for each repetition
}

// run measures a probe in a folder below dir, which it removes.
func (p probe) run(ctx context.Context, dir string, each time.Duration) (_ []result.Limit, err error) {
	t := &trial{each: each, values: make([][]float64, len(p.limits))}
	if t.dir, err = os.MkdirTemp(dir, "probe-"); err != nil {
		return nil, err
	}
	err = p.measure(ctx, t)
	if failed := os.RemoveAll(t.dir); err == nil {
		err = failed
	}
	if ctx.Err() != nil { // also after a success
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	measured := make([]result.Limit, len(p.limits))
	for i, l := range p.limits {
		values := t.values[i]
		if len(values) != Repetitions {
			return nil, fmt.Errorf("%s has %d values, want %d", l.Name, len(values), Repetitions)
		}
		slices.Sort(values)
		measured[i] = result.Limit{Name: l.Name, Unit: l.Unit, Value: values[len(values)/2], Low: values[0], High: values[len(values)-1]}
	}
	return measured, nil
}

// repeat calls once for each repetition. once returns one value for each limit of the probe. It
// returns soon after the given time, but not before it has measured at least one operation, unless
// ctx ends.
func (t *trial) repeat(ctx context.Context, once func(end time.Time) ([]float64, error)) error {
	for range Repetitions {
		values, err := once(time.Now().Add(t.each))
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		for i, v := range values {
			t.values[i] = append(t.values[i], v)
		}
	}
	return nil
}

// quantiles measures durations one after the other, at least ten in a repetition. The values are the
// median and, if the probe has two limits, the 99th percentile.
func (t *trial) quantiles(ctx context.Context, one func() (time.Duration, error)) error {
	const least = 10
	return t.repeat(ctx, func(end time.Time) ([]float64, error) {
		h := result.NewHistogram()
		for n := 0; (n < least || time.Now().Before(end)) && ctx.Err() == nil; n++ {
			d, err := one()
			if err != nil {
				return nil, err
			}
			h.Record(d)
		}
		values := []float64{float64(h.Quantile(0.5)), float64(h.Quantile(0.99))}
		return values[:len(t.values)], nil
	})
}

// perSecond returns n per second since began.
func perSecond(n int64, began time.Time) float64 { return float64(n) / time.Since(began).Seconds() }

// probes returns all probes of this system in order.
func probes() []probe {
	return slices.Concat(diskProbes(), commitProbes(), livesProbes(), grpcProbes(), treeProbes(), schedulerProbes(), timerProbes())
}
