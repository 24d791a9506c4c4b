package dashboard

import (
	"strconv"
	"sync"
	"time"
)

// everyHeader is the header of a response that says in how many milliseconds the page is to be refreshed.
const everyHeader = "Taskengine-Every"

const (
	// refreshesPerSecond is how many refreshes all open pages make in a second at most, about.
	refreshesPerSecond = 40
	// crowdWindow is how long refreshes are counted to learn how many pages are open.
	crowdWindow = 5 * time.Second
	// mostEvery bounds what is between two refreshes, so that refreshes which come together do not make pages old.
	mostEvery = 30 * time.Second
)

// crowd knows about how many pages are open: a page that refreshes itself each 2 s counts twice in a second in which it does.
type crowd struct {
	mu    sync.Mutex
	begin time.Time     // guarded by mu: of the present window
	sum   time.Duration // guarded by mu: of the intervals of the refreshes in it
	last  time.Duration // guarded by mu: that of the window before
}

// interval returns in what time a page is to be refreshed that does so each time every unless many are open. reported is the interval that the
// script says it has now, in milliseconds.
func (c *crowd) interval(now time.Time, every time.Duration, reported string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch since := now.Sub(c.begin); {
	case since > 2*crowdWindow || since < 0:
		c.begin, c.sum, c.last = now, 0, 0
	case since > crowdWindow:
		c.begin, c.sum, c.last = now, 0, c.sum
	}
	if ms, err := strconv.ParseUint(reported, 10, 20); err == nil {
		c.sum += time.Duration(ms) * time.Millisecond
	}
	pages := max(c.sum, c.last).Seconds() / crowdWindow.Seconds()
	return max(every, min(time.Duration(pages/refreshesPerSecond*float64(time.Second)), mostEvery))
}
