package alerting

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/alert"
	"github.com/taskengine/taskengine/timeslice/slicer"
)

// mostPlatforms is how many platforms of a source an alert of each kind is about: the first ones by name.
const mostPlatforms = 1000

// platformsSeen is the last look at the platforms of sources of time slices.
type platformsSeen struct {
	at      time.Time
	isWhole bool
	facts   []alert.Fact
}

// lookAtPlatforms adds the platforms that are late, and those with failed slices.
func (l *look) lookAtPlatforms(ctx context.Context, seen *alert.Look) {
	if since := seen.At.Sub(l.slices.at); since < 0 || since >= sourcesEvery {
		l.slices = l.readPlatforms(ctx, seen.At)
	}
	if l.slices.isWhole {
		seen.Whole = append(seen.Whole, alert.PlatformLate, alert.PlatformFailing)
	}
	seen.Facts = append(seen.Facts, l.slices.facts...)
}

// readPlatforms reads the state of all platforms. If one cannot be read, all are unknown.
func (l *look) readPlatforms(ctx context.Context, at time.Time) platformsSeen {
	seen := platformsSeen{at: at}
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	for _, source := range l.config.Slices.Names() {
		late, failing := 0, 0
		err := l.config.Slices.List(ctx, l.config.Engine, source, func(one *slicer.Status) error {
			add := func(count *int, kind alert.Kind, value float64, detail string) {
				if *count++; *count <= mostPlatforms {
					seen.facts = append(seen.facts, alert.Fact{Kind: kind, Subject: one.Platform.String(), Node: l.name, Value: value, Detail: detail})
				}
			}
			if by := one.State.Late(one.Platform, at); by > 0 {
				add(&late, alert.PlatformLate, by.Seconds(), pausedText(one))
			}
			if _, failed := one.State.Running(); failed > 0 || one.Problem != "" {
				add(&failing, alert.PlatformFailing, float64(max(1, failed)), troubleOf(one, failed))
			}
			return nil
		})
		if err != nil && !errors.Is(err, slicer.ErrUnknown) {
			return platformsSeen{at: at}
		}
	}
	seen.isWhole = true
	return seen
}

// pausedText says that a platform is paused; "" if it is not.
func pausedText(one *slicer.Status) string {
	switch p := one.State.Paused; {
	case p == nil:
		return ""
	case p.Reason == "":
		return "it is paused"
	default:
		return "it is paused: " + p.Reason
	}
}

// troubleOf says what is wrong with a platform that has some failed slices.
func troubleOf(one *slicer.Status, failed int) string {
	if stop := one.State.Stopped; stop != nil {
		return fmt.Sprintf("it makes no slices since %s; the next attempt of a failed one is at %s", stop.Since.UTC().Format(time.RFC3339), stop.Next.UTC().Format(time.RFC3339))
	}
	if one.Problem != "" {
		return one.Problem
	}
	return fmt.Sprintf("slices that have failed: %d; run them again with: taskengine source retry %s", failed, one.Platform)
}
