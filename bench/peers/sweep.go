package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/bench/result"
)

// trial is the result of trying a variant before the measurements.
type trial struct {
	Says   string        `json:"says"`
	Drain  float64       `json:"drain_per_s"`
	Start  time.Duration `json:"start_p90_ns"` // zero if it did not handle all jobs
	Failed string        `json:"failed,omitempty"`
}

// tuned is a subject with the variants that were chosen for it.
type tuned struct {
	subject

	trials []trial // of its variants, in their order; none if there is only one
	drains variant // the one that drains fastest, for all that is about throughput
	starts variant // the one that starts jobs soonest under a steady load
	jobs   int     // to drain
}

// tune tries every variant of a subject, all of them with the same jobs.
func (s *comparison) tune(ctx context.Context, sub subject) (*tuned, error) {
	pl := s.planOf(sub)
	t := &tuned{subject: sub, drains: sub.variants[0], starts: sub.variants[0]}
	middle := sub.variants[len(sub.variants)/2]
	if len(sub.variants) == 1 {
		jobs, err := s.enough(ctx, t, middle, pl.drain, pl)
		t.jobs = jobs
		return t, err
	}
	pl.patience = 10 * pl.trial // a variant that takes longer is not chosen
	jobs, err := s.enough(ctx, t, middle, pl.trial, pl)
	if err != nil {
		return nil, err
	}
	for _, v := range sub.variants {
		x, err := s.try(ctx, t, v, pl, jobs)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			x.Failed = err.Error()
		}
		t.trials = append(t.trials, x)
	}
	drains, starts := fastest(t.trials), soonest(t.trials)
	if drains < 0 || starts < 0 {
		return nil, fmt.Errorf("none of its settings does what it should: %+v", t.trials)
	}
	t.drains, t.starts = sub.variants[drains], sub.variants[starts]
	t.jobs = jobsFor(t.trials[drains].Drain, pl.drain)
	return t, nil
}

// try drains jobs with a variant, and then measures jobs that arrive at a rate.
func (s *comparison) try(ctx context.Context, t *tuned, v variant, pl plan, jobs int) (trial, error) {
	out := trial{Says: v.says}
	_, err := s.fresh(ctx, t, v, func(p peer) error {
		var r relay
		run, err := drainOf(ctx, t.subject, p, pl, r.set(newWatch(jobs)), r.handle)
		if err != nil {
			return err
		}
		if !run.Check.OK {
			return fmt.Errorf("drain: %v", run.Check.Notes)
		}
		out.Drain = run.Rate
		if err := warm(ctx, t.subject, p, pl, r.set(newWatch(most))); err != nil {
			return err
		}
		run, err = arrived(ctx, p, pl, &r, arrivals(0, int(pl.trial.Seconds()*float64(pl.rate)), pl.rate))
		if err == nil && !run.Check.OK {
			err = fmt.Errorf("steady load: %v", run.Check.Notes)
		}
		if err == nil {
			out.Start = run.Latency[result.InsertToStart].Quantile(0.9)
		}
		return err
	})
	return out, err
}

// fastest returns the trial that drained most per second; -1 if none drained.
func fastest(trials []trial) int {
	best := -1
	for i, t := range trials {
		if t.Drain > 0 && (best < 0 || t.Drain > trials[best].Drain) {
			best = i
		}
	}
	return best
}

// soonest returns the trial whose slowest tenth of jobs started soonest; -1 if none handled all jobs.
func soonest(trials []trial) int {
	best := -1
	for i, t := range trials {
		if t.Start > 0 && (best < 0 || t.Start < trials[best].Start) {
			best = i
		}
	}
	return best
}

// enough returns how many jobs a variant drains in about some time, by draining more and
// more of them.
func (s *comparison) enough(ctx context.Context, t *tuned, v variant, d time.Duration, pl plan) (int, error) {
	for n := 2000; ; n *= 8 {
		var run result.Run
		_, err := s.fresh(ctx, t, v, func(p peer) (err error) {
			w := newWatch(n)
			run, err = drainOf(ctx, t.subject, p, pl, w, w.handle)
			return err
		})
		switch {
		case err != nil:
			return 0, fmt.Errorf("find how many jobs to drain: %w", err)
		case run.Finished == 0:
			return 0, errors.Join(fmt.Errorf("no job of %d was worked in %v: %v", n, pl.patience, run.Check.Notes), ctx.Err())
		case run.Elapsed >= d/8 || n >= most/8:
			return jobsFor(run.Rate, d), nil
		}
	}
}

// jobsFor returns how many jobs to drain in some time at a rate.
func jobsFor(rate float64, d time.Duration) int {
	return min(most, max(1000, int(rate*d.Seconds())))
}
