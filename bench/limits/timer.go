package limits

import (
	"context"
	"time"
)

// nap is the duration of the measured sleeps.
const nap = time.Millisecond

func timerProbes() []probe {
	return append([]probe{
		sleepProbe("timer/sleep", "time.Sleep", time.Sleep),
		sleepProbe("timer/after", "time.After", func(d time.Duration) { <-time.After(d) }),
	}, kernelTimerProbes()...)
}

func sleepProbe(name, what string, sleep func(time.Duration)) probe {
	return probe{
		limits: []Limit{
			{name + "/p50", Nanoseconds, "lateness of 1 ms of " + what + ", median"},
			{name + "/p99", Nanoseconds, "lateness of 1 ms of " + what + ", 99th percentile"},
		},
		share: 4,
		measure: func(ctx context.Context, t *trial) error {
			return t.quantiles(ctx, func() (time.Duration, error) {
				began := time.Now()
				sleep(nap)
				return time.Since(began) - nap, nil
			})
		},
	}
}
