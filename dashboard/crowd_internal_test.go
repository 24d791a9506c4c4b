package dashboard

import (
	"fmt"
	"testing"
	"time"
)

// A thousand pages find intervals at which they make no more refreshes than one node answers easily, and keep them.
func TestManyPagesRefreshThemselvesLessOften(t *testing.T) {
	for pages, most := range map[int]time.Duration{1: 2 * time.Second, 50: 2 * time.Second, 1000: mostEvery} {
		var c crowd
		begin := time.Unix(1000, 0)
		next, every := make([]time.Time, pages), make([]time.Duration, pages)
		for i := range next {
			next[i], every[i] = begin.Add(time.Duration(i)*2*time.Second/time.Duration(pages)), 2*time.Second
		}
		refreshes := 0
		for now := begin; now.Before(begin.Add(5 * time.Minute)); now = now.Add(10 * time.Millisecond) {
			for i := range next {
				if !now.Before(next[i]) {
					every[i] = c.interval(now, 2*time.Second, fmt.Sprint(every[i].Milliseconds()))
					next[i] = now.Add(every[i])
					if now.After(begin.Add(4 * time.Minute)) {
						refreshes++
					}
				}
			}
		}
		rate := float64(refreshes) / 60
		if want := min(float64(pages)/2, refreshesPerSecond); rate > 1.3*want || rate < want/2 {
			t.Errorf("%d pages make %.1f refreshes in a second, want about %.1f", pages, rate, want)
		}
		for _, e := range every {
			if e > most {
				t.Errorf("of %d pages one is refreshed each %v", pages, e)
				break
			}
		}
	}
}

func TestNonsenseAboutIntervalsDoesNoHarm(t *testing.T) {
	for _, reported := range []string{"", "x", "-1", "1e9", "99999999999999999999"} {
		if got := new(crowd).interval(time.Unix(1, 0), time.Second, reported); got != time.Second {
			t.Errorf("%q gives %v", reported, got)
		}
	}
}
