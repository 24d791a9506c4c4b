package server

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/timeslice/slicer"
)

const (
	// platformsEvery is the time between two looks at the platforms of sources of time slices, which take platformsPatience at most.
	platformsEvery    = 30 * time.Second
	platformsPatience = 20 * time.Second
	// shownPlatforms is how many platforms of a source have series of their own: the first ones by name, of those in the configuration.
	shownPlatforms = 100
)

// slicesSeen is the result of a look at the platforms of a source.
type slicesSeen struct {
	source string
	late   time.Duration // of the latest platform
	open   int           // slices that have not ended, the failed ones included
	failed int
	states map[string]int // how many platforms are in a state, by its word
	shown  []shownPlatform
}

// shownPlatform is a platform with series of its own.
type shownPlatform struct {
	name         string
	age, late    time.Duration
	open, failed int
	stopped      bool
}

// The states of platforms in metrics. A platform is in the first of them that it has.
var platformStates = [...]string{"removed", "problem", "stopped", "paused", "active"}

// WatchSlices adds the sources of time slices and their platforms, on the node with the role monitor. It looks until ctx ends.
func (m *Metrics) WatchSlices(ctx context.Context, e *engine.Engine, s *slicer.Sources) {
	if len(s.Names()) == 0 {
		return
	}
	next := time.NewTicker(platformsEvery)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
		m.slices.Store(lookAtSources(ctx, e, s))
	}
}

// lookAtSources returns nil if the state of the sources is not known, or is that of another node to report.
func lookAtSources(ctx context.Context, e *engine.Engine, s *slicer.Sources) *[]slicesSeen {
	if !e.Roles()["monitor"] {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, platformsPatience)
	defer cancel()
	all, now := make([]slicesSeen, 0, len(s.Names())), e.Now()
	for _, name := range s.Names() {
		one := slicesSeen{source: name, states: make(map[string]int)}
		err := s.List(ctx, e, name, func(p *slicer.Status) error {
			one.add(p, now, s.Configures(p.Platform))
			return nil
		})
		if err != nil && !errors.Is(err, slicer.ErrUnknown) {
			return nil
		}
		all = append(all, one)
	}
	return &all
}

// add adds a platform. isShown says that it may have series of its own.
func (of *slicesSeen) add(p *slicer.Status, now time.Time, isShown bool) {
	state := &p.State
	running, failed := state.Running()
	late := state.Late(p.Platform, now)
	of.open, of.failed, of.late = of.open+running+failed, of.failed+failed, max(of.late, late)
	of.states[stateOf(p)]++
	if low := state.Low(); isShown && !state.Removed && !low.IsZero() && len(of.shown) < shownPlatforms {
		of.shown = append(of.shown, shownPlatform{
			name: p.Platform.Name, age: max(0, now.Sub(low)), late: late, open: running + failed, failed: failed, stopped: state.Stopped != nil,
		})
	}
}

func stateOf(p *slicer.Status) string {
	switch {
	case p.State.Removed:
		return "removed"
	case p.Problem != "":
		return "problem"
	case p.State.Stopped != nil:
		return "stopped"
	case p.State.Paused != nil:
		return "paused"
	}
	return "active"
}

// platforms adds the sources of time slices. Only the node with the role monitor knows them.
func (g gatherer) platforms(out chan<- prometheus.Metric) {
	all := g.slices.Load()
	if all == nil {
		return
	}
	const who = " Of the nodes that share a store, the one with the role monitor reports it, and looks every half minute."
	late := desc("slices_late_seconds", "For how long the earliest slice that is not done has been due, of all platforms of the source; 0 if none is."+who, "source")
	open := desc("slices_open", "Slices of the source that were made and have not ended, with the failed ones."+who, "source")
	failed := desc("slices_failed", "Slices of the source that have failed, and wait for a person or for the breaker of their platform."+who, "source")
	states := desc("platforms", "Platforms of the source, by their state. A stopped one has a breaker that waits for a slice to be done, and one with a problem makes no slices, or has wrong values."+who, "source", "state")
	const shown = " Platforms of the configuration have it, up to 100 of a source."
	age := desc("platform_low_water_age_seconds", "How old the low-water mark of the platform is: everything before it was fetched."+who+shown, "source", "platform")
	lateOf := desc("platform_late_seconds", "For how long the earliest slice of the platform that is not done has been due; 0 if none is."+who+shown, "source", "platform")
	openOf := desc("platform_slices_open", "Slices of the platform that were made and have not ended, with the failed ones."+who+shown, "source", "platform")
	failedOf := desc("platform_slices_failed", "Slices of the platform that have failed."+who+shown, "source", "platform")
	stopped := desc("platform_stopped", "1 if the breaker of the platform waits for a slice to be done."+who+shown, "source", "platform")
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, one := range *all {
		gauge(late, one.late.Seconds(), one.source)
		gauge(open, float64(one.open), one.source)
		gauge(failed, float64(one.failed), one.source)
		for _, state := range platformStates {
			gauge(states, float64(one.states[state]), one.source, state)
		}
		for _, p := range one.shown {
			gauge(age, p.age.Seconds(), one.source, p.name)
			gauge(lateOf, p.late.Seconds(), one.source, p.name)
			gauge(openOf, float64(p.open), one.source, p.name)
			gauge(failedOf, float64(p.failed), one.source, p.name)
			gauge(stopped, truth(p.stopped), one.source, p.name)
		}
	}
}
